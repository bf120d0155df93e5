// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import KeySystems
import LicenseControl
import ProtectionModel

extension Decryptor {
    /// A session tells at once, so this is never reached; but no thread depends on that.
    private static let settlingLimit: UInt64 = 1_000_000_000

    /// Starts the request for the key of a sample, unless one is under way. Runs on the stream's thread.
    func demandKey(_ keyID: KeyID?) {
        monitor.withLock { _ = flow.awaited.insert(keyID) }
        stream.keys?.sources.demand(keyID)
    }

    /// Starts the request for the keys that a protection event names, unless they are there or under way. `usedKeyIDs` are
    /// those among them that tracks use; empty where that is not known.
    func prefetchKeys(_ protection: Event.Protection, usedKeyIDs: [KeyID] = []) {
        currentSources?.prefetch(protection, usedKeyIDs: usedKeyIDs) { keyIDs in
            wake { $0.awaited.formUnion(keyIDs) }
        }
    }

    /// The session tells what happens to keys. Any thread.
    func keyEvent(_ event: KeyEvent) {
        switch event {
        case .requested(let request, let origin):
            if origin == observerID { post(request) }
        case .untaken:
            wake { _ in }
        case .usable(let requestID, let keyIDs, let elapsed):
            monitor.withLock { flow.expired.subtract(keyIDs.isEmpty ? [nil] : keyIDs.map(Optional.some)) }
            currentSources?.keysDidCome(keyIDs)
            settle(
                keyIDs, as: "latchkey-key-usable",
                [
                    ("request-id", .uint64(requestID ?? 0)), ("key-ids", .strings(keyIDs.map(\.description))),
                    ("elapsed", .uint64(elapsed.nanoseconds)),
                ])
        case .failed(let requestID, let keyIDs, let error):
            settle(
                keyIDs, as: "latchkey-key-failed",
                [
                    ("request-id", .uint64(requestID)), ("key-ids", .strings(keyIDs.map(\.description))),
                    ("reason", .string(error.description)),
                ])
        case .renewalFailed:
            // The keys are usable still; the session tries again.
            break
        case .expired(let keyIDs, let error, let wasInUse):
            wake { _ in }
            if wasInUse { tellEnd(of: keyIDs.isEmpty ? [nil] : keyIDs, error) }
        case .notStored(let request, let error, let origin):
            if origin == observerID { reference.post(notStored: request, error) }
        case .viewing(let notice):
            reference.post(notice)
        case .clockSetBack(let notice):
            reference.post(notice)
        case .closed(let reason):
            wake { _ in }
            if currentSources?.hasViewingSession == true { endPlayback(reason) }
        }
    }

    /// The right to what is decrypted already has ended too: takes it out of the queues behind this element. Inside an
    /// adaptive demuxer, the gate of the bin around that does it.
    private func endPlayback(_ reason: KeyError) {
        guard !reference.isInsideAdaptiveDemuxer else { return }
        // A sample may have met the end first, and said so.
        let (isRunning, isTold) = monitor.withLock {
            guard !flow.isFlushing else { return (false, true) }
            defer { flow.isFailureReported = true }
            flow.result = .error
            monitor.broadcast()
            return (true, flow.isFailureReported)
        }
        guard isRunning else { return }
        if !isTold {
            reference.postError(
                GST_STREAM_ERROR_DECRYPT_NOKEY, "Playback ends: \(reason).",
                debug: "The right to play this presentation has ended. Open it again with a new session or licence.")
        }
        reference.whileStateStays { [weak self] in self?.flushDownstream() }
    }

    /// Unless this element stops, plays anew, or is flushed by somebody else.
    private func flushDownstream() {
        guard monitor.withLock({ !flow.isFlushing && flow.result == .error }) else { return }
        let source = PadReference(sharing: sourcePad.pointer)
        source.push(.startOfFlush())
        // The peer's lock: nothing that was on its way then comes after the end of the flush.
        let sink = source.peer
        let end = {
            source.push(.endOfFlush(resetTime: false))
            if let segment = source.segmentEvent { source.push(segment) }
        }
        if let sink { sink.whileIdle(end) } else { end() }
    }

    /// Says so where this element asked, and only then lets the stream go on.
    private func settle(
        _ keyIDs: [KeyID], as name: String, _ fields: [(String, FieldValue)]
    ) {
        let isMine = monitor.withLock {
            let isMine = flow.stopAwaiting(keyIDs)
            if isMine { flow.settling += 1 }
            return isMine
        }
        if isMine { reference.post(name, fields) }
        wake { if isMine { $0.settling -= 1 } }
    }

    /// Posts the error of a failure, and returns what tells upstream. Where that is the fate of a key, the message that
    /// names the key comes first: the session knows the fate a moment before it tells, and a sample may be quicker.
    func report(_ failure: DecryptorFailure) -> FlowResult {
        if case .key(let keyID, let error) = failure {
            waitUntilSettled(keyID)
            if error.isSameKind(as: .leaseExpired("")) { tellEnd(of: [keyID], error) }
        }
        failure.post(on: reference) { self.name(of: $0) }
        monitor.withLock { flow.isFailureReported = true }
        return failure.flow
    }

    private func waitUntilSettled(_ keyID: KeyID?) {
        let start = MonotonicTime.now
        monitor.lock()
        defer { monitor.unlock() }
        while flow.settling > 0 || flow.awaited.contains(keyID), !flow.isFlushing,
            MonotonicTime.now &- start < Self.settlingLimit, waitForChange()
        {}
    }

    /// Says that the lease of these keys is over, unless that was said.
    private func tellEnd(of keyIDs: [KeyID?], _ error: KeyError) {
        guard !monitor.withLock({ flow.expired.isSuperset(of: keyIDs) }) else { return }
        reference.post(
            "latchkey-key-expired",
            [
                ("key-ids", .strings(keyIDs.compactMap(\.self).map(\.description))),
                ("reason", .string(error.description)),
            ])
        monitor.withLock { flow.expired.formUnion(keyIDs) }
    }

    private func wake(_ body: (inout FlowState) -> Void) {
        monitor.withLock {
            flow.keyEvents &+= 1
            body(&flow)
            monitor.broadcast()
        }
    }

    private var observerID: UInt64? { facts.withLock { observation?.id } }

    private func post(_ request: KeyLoadingRequest) {
        reference.post(keyRequest: request, licenseURL: currentSources?.printableLicenseURL)
    }

    /// How people know a key: by the URI of the playlist, where that has named it. A KID that was made for a URI says
    /// nothing to anybody.
    func name(of keyID: KeyID?) -> String {
        guard let keyID, let session = currentSources?.session, let uri = session.keyURI(of: keyID) else {
            return DecryptorFailure.name(keyID)
        }
        let printable = KeyURI(uri).printable
        return session.isMade(keyID) ? printable : "\(printable) (\(DecryptorFailure.name(keyID)))"
    }

    /// A sample waits for a key that no loader has.
    func warnAboutUntaken(_ keyID: KeyID?) {
        reference.postWarning(
            GST_RESOURCE_ERROR_NOT_FOUND,
            "No key source has the key for \(name(of: keyID)); waiting for the application.",
            debug: "Give the key with keys-file=, name a licence service with license-url= (and key-system=), or "
                + "answer the latchkey-key-request message with the key-response signal.")
    }

    static let keyResponse = KeyResponse.signal { ($0 as? Decryptor)?.currentSources?.session }
    static let sessionEvent = SessionEvent.signal { ($0 as? Decryptor)?.currentSources?.session }
}

extension Decryptor.FlowState {
    /// Whether this element asked for one of the keys; it does not from now on.
    fileprivate mutating func stopAwaiting(_ keyIDs: [KeyID]) -> Bool {
        if keyIDs.isEmpty { return awaited.remove(nil) != nil }
        var wasAwaiting = false
        for keyID in keyIDs where awaited.remove(keyID) != nil { wasAwaiting = true }
        return wasAwaiting
    }
}
