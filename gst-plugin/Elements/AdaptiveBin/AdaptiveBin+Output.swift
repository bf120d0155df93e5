// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

extension AdaptiveBin {
    func addOutput(_ inner: PadReference) {
        // The template has the number as a pattern: video_00 is of video_%02u.
        let kind = inner.name.prefix { $0 != "_" }
        guard let outer = expose(inner, as: inner.name, template: "\(kind)_%02u") else { return }
        withGuarded { guarded in
            let barrier = guarded.closedBecause.flatMap { _ in outer.entrance?.dropBuffers() }
            let hold = guarded.isWithheld ? outer.holdBuffers() : nil
            guarded.outputs.append(Output(inner: inner, outer: outer, barrier: barrier, hold: hold))
        }
        outputDidAppear(inner)
        limitQuality()
    }

    func removeOutput(_ inner: PadReference) {
        let outer = withGuarded { guarded -> PadReference? in
            guard let index = guarded.outputs.firstIndex(where: { $0.inner.isSame(as: inner) }) else { return nil }
            return guarded.outputs.remove(at: index).outer
        }
        if let outer { withdraw(outer) }
    }

    // MARK: The gate

    /// Lets nothing pass any more, says why, and takes what is on its way downstream out of it, the latter not while
    /// the pipeline changes its state. While the gate is open nothing here looks at what passes.
    func closeGate(_ reason: KeyError) {
        let isClosed = withGuarded { guarded in
            guard guarded.closedBecause == nil, guarded.run != nil, !guarded.isStopping else { return false }
            guarded.closedBecause = reason
            for index in guarded.outputs.indices {
                guarded.outputs[index].barrier = guarded.outputs[index].outer.entrance?.dropBuffers()
            }
            return true
        }
        guard isClosed else { return }
        withhold(false)
        reference.postError(
            GST_STREAM_ERROR_DECRYPT_NOKEY, "Playback ends: \(reason).",
            debug: "The right to play this presentation has ended. Open it again with a new session or licence.")
        reference.whileStateStays { [weak self] in self?.flushOutputs() }
    }

    /// Unless the gate is open again, or the element stops.
    private func flushOutputs() {
        let outputs = withGuarded { guarded in
            guarded.closedBecause != nil && guarded.run != nil && !guarded.isStopping ? guarded.outputs : []
        }
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

    /// Keeps what was decrypted before from going on, or lets it: a viewing session is not there for a while. What left this
    /// bin already is shown: with players, less than a second.
    func withhold(_ isWithheld: Bool) {
        let ended = withGuarded { guarded -> [PadProbe] in
            guard guarded.isWithheld != isWithheld, guarded.run != nil else { return [] }
            if isWithheld, guarded.isStopping || guarded.closedBecause != nil { return [] }
            guarded.isWithheld = isWithheld
            return guarded.outputs.indices.compactMap { index in
                let old = guarded.outputs[index].hold
                guarded.outputs[index].hold = isWithheld ? guarded.outputs[index].outer.holdBuffers() : nil
                return old
            }
        }
        for hold in ended { hold.remove() }
    }

    // MARK: The session

    func keyEvent(_ event: KeyEvent) {
        switch event {
        case .requested(let request, let origin):
            if request.isRenewal { withGuarded { _ = $0.renewals.insert(request.id) } }
            guard let run = currentRun, origin == run.observerID else { return }
            withGuarded { _ = $0.requests.insert(request.id) }
            reference.post(keyRequest: request, licenseURL: run.printableLicenseURL)
        case .usable(let id, let keyIDs, let elapsed):
            if let id {
                settle(
                    id, "latchkey-key-usable",
                    [("key-ids", .strings(keyIDs.map(\.description))), ("elapsed", .uint64(elapsed.nanoseconds))])
            }
            // What was decrypted under the lease before may be in the queues still: for that, the key is in use.
            let isRenewal = withGuarded { guarded in
                guarded.expired.subtract(keyIDs)
                return id.flatMap { guarded.renewals.remove($0) } != nil
            }
            if isRenewal, isShown(keyIDs), let session = currentRun?.session {
                for keyID in keyIDs { _ = session.status(of: keyID) }
            }
        case .renewalFailed(let id, _, _):
            withGuarded { _ = $0.renewals.remove(id) }
        case .withheld(let isWithheld):
            withhold(isWithheld)
        case .closed(let reason):
            closeGate(reason)
        case .expired(let keyIDs, let reason, wasInUse: true):
            // Not for a key that the stream rotated away since.
            guard isShown(keyIDs) else { return }
            tellEnd(of: keyIDs) {
                reference.post(
                    "latchkey-key-expired",
                    [("key-ids", .strings(keyIDs.map(\.description))), ("reason", .string(reason.description))])
            }
            closeGate(reason)
        case .failed(let requestID, let keyIDs, let error):
            settle(
                requestID, Self.failed,
                [("key-ids", .strings(keyIDs.map(\.description))), ("reason", .string(error.description))])
        case .notStored(let request, let error, let origin):
            if let run = currentRun, origin == run.observerID { reference.post(notStored: request, error) }
        case .viewing(let notice): reference.post(notice)
        case .clockSetBack(let notice): reference.post(notice)
        case .untaken, .expired: break
        }
    }

    private static let failed = "latchkey-key-failed"

    /// Says how a request of this element ended.
    private func settle(_ requestID: UInt64, _ name: String, _ fields: [(String, FieldValue)]) {
        let (isMine, pipeline) = withGuarded { ($0.requests.remove(requestID) != nil, $0.pipeline) }
        // Decryptors that wait for the same keys tell of failures too.
        guard isMine else { return }
        let post = { self.reference.post(name, [("request-id", .uint64(requestID))] + fields) }
        guard name == Self.failed, let pipeline else { return post() }
        pipeline.tellOnce(.failedRequest(requestID), with: post)
    }

    /// Passes messages on. Of those about the end of a key, which each decryptor posts, the first that is of use.
    func passOn(_ message: consuming Message) {
        guard let names = message.strings("key-ids", of: "latchkey-key-expired") else { return forward(message) }
        let keyIDs = names.compactMap { KeyID(hex: $0) }
        guard isShown(keyIDs), !withGuarded({ $0.expired.isSuperset(of: keyIDs) }) else { return }
        forward(message)
        withGuarded { $0.expired.formUnion(keyIDs) }
    }

    /// Posts before it notes that: an error that follows must not overtake the message.
    private func tellEnd(of keyIDs: [KeyID], post: () -> Void) {
        guard keyIDs.isEmpty || !withGuarded({ $0.expired.isSuperset(of: keyIDs) }) else { return }
        post()
        withGuarded { $0.expired.formUnion(keyIDs) }
    }

    /// Whether media of one of these keys is on the screen, or will come there out of the queues. Yes where that cannot
    /// be known.
    private func isShown(_ keyIDs: [KeyID]) -> Bool {
        guard !keyIDs.isEmpty, let run = currentRun, let position = reference.shownPosition() else { return true }
        return needs(keyIDs, of: run.session, at: Double(position) / 1e9)
    }
}
