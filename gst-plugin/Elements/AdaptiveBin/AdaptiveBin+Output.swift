// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import LicenseControl
import ProtectionModel

extension AdaptiveBin {
    func addOutput(_ inner: PadReference) {
        // The template has the number as a pattern: video_00 is of video_%02u.
        let kind = inner.name.prefix { $0 != "_" }
        guard let outer = expose(inner, as: inner.name, template: "\(kind)_%02u") else { return }
        withGuarded { guarded in
            let barrier = guarded.closedBecause.flatMap { _ in outer.entrance?.dropBuffers() }
            guarded.outputs.append(Output(inner: inner, outer: outer, barrier: barrier))
        }
    }

    func removeOutput(_ inner: PadReference) {
        let outer = withGuarded { guarded -> PadReference? in
            guard let index = guarded.outputs.firstIndex(where: { $0.inner.isSame(as: inner) }) else { return nil }
            return guarded.outputs.remove(at: index).outer
        }
        if let outer { withdraw(outer) }
    }

    // MARK: The gate

    /// Lets nothing pass any more, takes what is on its way downstream out of it, and says why. When this returns,
    /// no media goes to decoders. While the gate is open there is no probe on the pads, so it costs nothing.
    func closeGate(_ reason: KeyError) {
        let outputs = withGuarded { guarded -> [Output]? in
            guard guarded.closedBecause == nil, guarded.run != nil, !guarded.isStopping else { return nil }
            guarded.closedBecause = reason
            for index in guarded.outputs.indices {
                guarded.outputs[index].barrier = guarded.outputs[index].outer.entrance?.dropBuffers()
            }
            return guarded.outputs
        }
        guard let outputs else { return }
        reference.postStreamError(
            GST_STREAM_ERROR_DECRYPT_NOKEY, "Playback ends: \(reason).",
            debug: "The right to play this presentation has ended. Open it again with a new session or licence.")
        for output in outputs {
            let outer = output.outer
            outer.push(.startOfFlush())
            // What passed the barrier just before it was there is thrown away too.
            outer.entrance?.whileIdle {
                outer.push(.endOfFlush(resetTime: false))
                if let segment = output.inner.segmentEvent { outer.push(segment) }
            }
        }
    }

    /// Lets media pass again. What comes next is of use after a flushing seek.
    func openGate() {
        let barriers = withGuarded { guarded -> [PadProbe] in
            guarded.closedBecause = nil
            return guarded.outputs.indices.compactMap { index in
                defer { guarded.outputs[index].barrier = nil }
                return guarded.outputs[index].barrier
            }
        }
        for barrier in barriers { barrier.remove() }
    }

    // MARK: The session

    func keyEvent(_ event: KeyEvent) {
        switch event {
        case .requested(let request, let origin):
            guard let run = currentRun, origin == run.observerID else { return }
            withGuarded { _ = $0.requests.insert(request.id) }
            reference.post(keyRequest: request, licenseURL: run.printableLicenseURL)
        case .usable(let requestID?, let keyIDs, let elapsed):
            settle(
                requestID, "latchkey-key-usable",
                [("key-ids", .strings(keyIDs.map(\.description))), ("elapsed", .uint64(elapsed.nanoseconds))])
        case .failed(let requestID, let keyIDs, let error):
            settle(
                requestID, "latchkey-key-failed",
                [("key-ids", .strings(keyIDs.map(\.description))), ("reason", .string(error.description))])
        case .closed(let reason), .expired(_, let reason, wasInUse: true):
            closeGate(reason)
        case .untaken, .usable, .renewalFailed, .expired: break
        }
    }

    /// Says how a request of this element ended.
    private func settle(_ requestID: UInt64, _ name: String, _ fields: [(String, FieldValue)]) {
        guard withGuarded({ $0.requests.remove(requestID) }) != nil else { return }
        reference.post(name, [("request-id", .uint64(requestID))] + fields)
    }
}
