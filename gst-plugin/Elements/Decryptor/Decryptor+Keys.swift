// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

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
                keyIDs, as: "latchkey-key-failed", unlessTold: requestID,
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
        case .withheld:
            // Nothing is decrypted while it lasts.
            wake { _ in }
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
            flow.settling += 1
            return (true, flow.isFailureReported)
        }
        guard isRunning else { return }
        if !isTold {
            reference.postError(
                GST_STREAM_ERROR_DECRYPT_NOKEY, "Playback ends: \(reason).",
                debug: "The right to play this presentation has ended. Open it again with a new session or licence.")
        }
        wake(Self.endFlow)
        reference.whileStateStays { [weak self] in self?.flushDownstream() }
    }

    /// Pictures that are decrypted already have come to where no guard is. None gets any further. Any thread.
    func end(_ keyID: KeyID?, because error: KeyError) {
        let isNew = monitor.withLock {
            guard !flow.isFlushing, !flow.isFailureReported else { return false }
            flow.isFailureReported = true
            flow.settling += 1
            return true
        }
        guard isNew else { return }
        tell(.key(keyID, error), completion: Self.endFlow)
    }

    /// The error is told. Upstream's own, which follows from the result, does not overtake that.
    private static let endFlow: @Sendable (inout FlowState) -> Void = {
        $0.settling -= 1
        if !$0.isFlushing { $0.result = .error }
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
        _ keyIDs: [KeyID], as name: String, unlessTold requestID: UInt64? = nil, _ fields: [(String, FieldValue)]
    ) {
        let isMine = monitor.withLock {
            let isMine = flow.stopAwaiting(keyIDs)
            if isMine { flow.settling += 1 }
            return isMine
        }
        let notice = isMine ? requestID.map(KeyPlayback.Notice.failedRequest) : nil
        tell(notice, with: { if isMine { reference.post(name, fields) } }) { if isMine { $0.settling -= 1 } }
    }

    /// Posts the error of a failure, and returns what tells upstream. Where that is the fate of a key, the message that
    /// names the key comes first: the session knows the fate a moment before it tells, and a sample may be quicker.
    func report(_ failure: DecryptorFailure) -> FlowResult {
        if case .key(let keyID, let error) = failure {
            waitUntilSettled(keyID)
            if error.isSameKind(as: .leaseExpired("")) { tellEnd(of: [keyID], error) }
        }
        let isFirst = monitor.withLock {
            guard !flow.isFailureReported else { return false }
            flow.isFailureReported = true
            flow.settling += 1
            return true
        }
        if isFirst { tell(failure) { $0.settling -= 1 } }
        // Another thread may be about to post the error, and upstream's own must not overtake it.
        waitWhile { flow.settling > 0 }
        return failure.flow
    }

    /// Posts the error of a failure, unless it is a refusal of a key that another element of the pipeline tells.
    private func tell(_ failure: DecryptorFailure, completion: @escaping @Sendable (inout FlowState) -> Void) {
        var notice: KeyPlayback.Notice?
        if case .key(let keyID, let error) = failure, error.isRefusal { notice = .refusal(keyID, error) }
        tell(notice, with: { failure.post(on: reference) { self.name(of: $0) } }, completion: completion)
    }

    /// A notice is told by one element of the pipeline. `completion` changes the state of the flow once it is told.
    private func tell(
        _ notice: KeyPlayback.Notice?, with tell: () -> Void, completion: @escaping @Sendable (inout FlowState) -> Void
    ) {
        guard let notice, let pipeline = currentSources?.pipeline else {
            tell()
            return wake(completion)
        }
        let weak = WeakElement(reference)
        pipeline.tellOnce(notice, with: tell) { weak.withElement { ($0 as? Decryptor)?.wake(completion) } }
    }

    /// Says that what the key decrypts is no media, once a key in the pipeline.
    func tellWrongKey(_ keyID: KeyID?, because reason: String = "what it decrypts is not what the codec writes") {
        let post = {
            self.reference.post(
                "latchkey-wrong-key",
                [("key-ids", .strings(keyID.map { [$0.description] } ?? [])), ("reason", .string(reason))])
            self.reference.postWarning(
                GST_STREAM_ERROR_DECRYPT, "The key for \(self.name(of: keyID)) is a wrong one: \(reason).",
                debug:
                    "The samples go on as they are. See which key the key server or the keys file gives for it. With the "
                    + "right one, the demuxer has lost how they are encrypted, as qtdemux does with PIFF: put "
                    + "latchkeyisodec in front."
            )
            self.watchStart(of: keyID)
        }
        if let pipeline = currentSources?.pipeline { pipeline.tellOnce(.wrongKey(keyID), with: post) } else { post() }
    }

    private func waitUntilSettled(_ keyID: KeyID?) {
        waitWhile { flow.settling > 0 || flow.awaited.contains(keyID) }
    }

    /// The lock is held in `condition`.
    private func waitWhile(_ condition: () -> Bool) {
        let start = MonotonicTime.now
        monitor.lock()
        defer { monitor.unlock() }
        while condition(), !flow.isFlushing, MonotonicTime.now &- start < Self.settlingLimit, waitForChange() {}
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

    /// How people know a key.
    func name(of keyID: KeyID?) -> String {
        guard let keyID, let session = currentSources?.session else { return DecryptorFailure.name(keyID) }
        return session.name(of: keyID)
    }

    /// The key of what was decrypted last; nil if nothing was.
    var nameOfKeyInUse: String? {
        guard statistics.bytesDecrypted > 0, let keyID = currentSources?.current else { return nil }
        return name(of: keyID)
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
