// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyViewingSession
import Synchronization

extension Decryptor {
    /// A session tells at once, so this is never reached; but no thread depends on that.
    private static let settlingLimit: UInt64 = 1_000_000_000

    /// Starts the request for the key of a sample, unless one is under way. Runs on the stream's thread.
    func demandKey(_ keyID: KeyID?, for media: OutputPolicy.Media? = nil) {
        monitor.withLock { _ = flow.awaited.insert(keyID) }
        stream.keys?.sources.demand(keyID, for: media)
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
            let names = names(of: keyIDs)
            monitor.withLock { flow.expired.subtract(names.isEmpty ? [nil] : names.map(Optional.some)) }
            currentSources?.keysDidCome(names)
            settle(
                names, as: "latchkey-key-usable",
                [
                    ("request-id", .uint64(requestID ?? 0)), ("key-ids", .strings(keyIDs.map(\.description))),
                    ("elapsed", .uint64(elapsed.nanoseconds)),
                ])
        case .failed(let requestID, let keyIDs, let error):
            settle(
                names(of: keyIDs), as: "latchkey-key-failed", unlessTold: requestID,
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
        case .withheld(let isWithheld):
            // Nothing is decrypted while it lasts. Inside an adaptive demuxer, the bin around that has the rest wait.
            if !reference.isInsideAdaptiveDemuxer { facts.withLock { hold }?.set(isWithheld) }
            wake { _ in }
        case .closed(let reason):
            wake { _ in }
            if currentSources?.hasViewingSession == true { endPlayback(reason) }
        }
    }

    /// The right to what is decrypted already has ended too: takes it out of the queues behind this element. Inside an
    /// adaptive demuxer, the gate of the bin around that does it.
    func endPlayback(_ reason: KeyError) {
        guard !reference.isInsideAdaptiveDemuxer else { return }
        // A sample may have met the end first, and said so.
        let (isRunning, isTold) = monitor.withLock {
            guard !flow.isFlushing else { return (false, true) }
            defer { flow.isFailureReported = true }
            flow.settling += 1
            return (true, flow.isFailureReported)
        }
        guard isRunning else { return }
        if !isTold { DecryptorFailure.postEnd(because: reason, on: reference) }
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

    /// Unless this element stops, plays anew, or is flushed by another element.
    private func flushDownstream() {
        guard monitor.withLock({ isOver }) else { return }
        let source = PadReference(sharing: sourcePad.pointer)
        source.push(.startOfFlush())
        // No buffer that is on its way now comes after the end of the flush. This thread may have brought one itself.
        monitor.withLock {
            while isOver, let pusher = flow.pusher, pthread_equal(pusher, pthread_self()) == 0 {
                monitor.wait(microseconds: Self.pollInterval)
            }
        }
        let end = {
            // The end of the flush takes it off the pad.
            let segment = source.segmentEvent
            source.push(.endOfFlush(resetTime: false))
            if let segment { source.push(segment) }
        }
        // The peer's lock: nothing comes between the two.
        if let sink = source.peer { sink.whileIdle(end) } else { end() }
    }

    /// Whether no buffer is pushed any more until the element is flushed or plays anew. The lock is held.
    private var isOver: Bool { !flow.isFlushing && flow.result == .error }

    /// Media may have another name of a key than the one that the session tells.
    private func names(of keyIDs: [KeyID]) -> [KeyID] { currentSession?.names(of: keyIDs) ?? keyIDs }

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

    /// `report`, unless a bin around the element is being stopped, which may be why: then nothing is told. For pads in push mode,
    /// over which nothing comes before the element's own state changes.
    func reportUnlessStopped(_ failure: DecryptorFailure) -> FlowResult {
        // A stop ends this wait, too.
        if case .key(let keyID, _) = failure { waitUntilSettled(keyID) }
        return reference.isBeingStopped ? .flushing : report(failure)
    }

    /// Posts the error of a failure, unless it is a refusal of a key that another element of the pipeline tells. If the
    /// session is over, that is why the key fails.
    private func tell(_ failure: DecryptorFailure, completion: @escaping @Sendable (inout FlowState) -> Void) {
        let failure = failure.because(of: currentSession?.endReason)
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
            self.reference.post(wrongKey: keyID, named: self.name(of: keyID), because: reason)
            self.watchStart(of: keyID)
        }
        if let pipeline = currentSources?.pipeline { pipeline.tellOnce(.wrongKey(keyID), with: post) } else { post() }
    }

    /// What was told before this element asked is not told again.
    private func waitUntilSettled(_ keyID: KeyID?) {
        let session = currentSession
        waitWhile {
            flow.settling > 0 || flow.awaited.contains(keyID) && session?.hasToldFate(of: keyID) == false
        }
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
        let names = names(of: keyIDs.compactMap(\.self))
        monitor.withLock { flow.expired.formUnion(keyIDs + names.map(Optional.some)) }
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
            debug: "Give the key with keys-file=, name a license service with license-url= (and key-system=), or "
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

/// The application's answer to a `latchkey-key-request` message.
enum KeyResponse {
    /// `key-response (request-id, answer, error) -> taken`. `session` is where the element's requests are.
    static func signal(_ session: @escaping @Sendable (Element) -> KeySession?) -> ActionSignal {
        ActionSignal("key-response", arguments: [.uint64, .bytes, .string]) { element, arguments in
            guard let session = session(element), case .uint64(let id) = arguments.first else { return false }
            if arguments.count > 2, case .string(let reason?) = arguments[2], !reason.isEmpty {
                return session.respond(toRequest: id, with: .failure(.denied("the application says: \(reason)")))
            }
            guard arguments.count > 1, case .bytes(var answer?) = arguments[1] else { return false }
            // It may be a key: this is the only copy that is ours, and it goes.
            arguments[1] = .none
            defer { wipe(&answer) }
            do throws(KeyError) {
                return session.respond(toRequest: id, with: .success(try ApplicationAnswer.read(answer)))
            } catch {
                return session.respond(toRequest: id, with: .failure(error))
            }
        }
    }
}

extension ElementReference {
    /// Posts `latchkey-key-request`: what an application needs to answer with the `key-response` signal.
    /// `licenseURL` is the configured one, for requests that name none.
    func post(keyRequest request: KeyLoadingRequest, licenseURL: String? = nil) {
        post(
            "latchkey-key-request",
            [
                ("request-id", .uint64(request.id)), ("key-system", .string(request.keySystem?.rawValue ?? "unknown")),
                ("key-ids", .strings(request.keyIDs.map(\.description))), ("key-uri", .string(request.keyURI ?? "")),
                ("init-data", .bytes(request.initializationData.first?.bytes ?? [])),
                ("init-data-origin", .string(request.initializationData.first?.origin ?? "")),
                ("suggested-url", .string(request.suggestedURL ?? licenseURL ?? "")),
                ("challenge", .bytes(request.challenge)), ("renewal", .boolean(request.isRenewal)),
            ])
    }

    /// Posts `latchkey-wrong-key`, and a warning. `name` is how people know the key.
    func post(wrongKey keyID: KeyID?, named name: String, because reason: String) {
        post(
            "latchkey-wrong-key",
            [
                ("key-ids", .strings(keyID.map { [$0.description] } ?? [])), ("key-name", .string(name)),
                ("reason", .string(reason)),
            ])
        postWarning(
            GST_STREAM_ERROR_DECRYPT, "The key for \(name) is a wrong one: \(reason).",
            debug:
                "The samples go on as they are. See which key the key server or the keys file gives for it. With the "
                + "right one, the demuxer has lost how they are encrypted, as qtdemux does with PIFF: put "
                + "latchkeyisodec in front.")
    }

    /// Posts `latchkey-key-not-stored`.
    func post(notStored request: KeyLoadingRequest, _ error: KeyError) {
        post(
            "latchkey-key-not-stored",
            [
                ("request-id", .uint64(request.id)), ("key-ids", .strings(request.keyIDs.map(\.description))),
                ("reason", .string(error.description)),
            ])
    }
}

/// What an application gives the `key-response` signal, in any of the forms that are easy to make in its language.
enum ApplicationAnswer {
    /// - 16 bytes: the content key, for a request that names one KID or none;
    /// - JSON: a W3C ClearKey license (a JSON Web Key set), whatever the key system;
    /// - anything else: lines of a keys file.
    static func read(_ bytes: [UInt8]) throws(KeyError) -> KeyAnswer {
        if bytes.count == ContentKey.size, let key = ContentKey(bytes) { return .key(key) }
        if bytes.first(where: { $0 > UInt8(ascii: " ") }) == UInt8(ascii: "{") {
            return .keys(try ClearKey.keys(inLicense: bytes))
        }
        let lines = try StaticKeys.parse(file: bytes, name: "the application's answer")
        if lines.keysByID.isEmpty, let key = lines.keyWithoutID { return .key(key) }
        return .keys(lines.keysByID)
    }
}

extension ElementReference {
    /// Posts what the session server said, unless another element of the pipeline did: `latchkey-session-setup-error`,
    /// `latchkey-session-heartbeat-error` or `latchkey-session-teardown-error`.
    /// What comes after the pipeline has stopped waits for one whose bus is read.
    func post(_ notice: ViewingNotice) {
        if notice.kind == .teardownError, !hasListener { return UntoldNotices.keep(notice) }
        guard notice.claim() else { return }
        let failure = notice.failure
        let fields: [(String, FieldValue)] = [
            ("http-status", .uint(UInt32(clamping: failure.status ?? 0))), ("code", .string(failure.code ?? "")),
            ("message", .string(failure.message)), ("reason", .string(failure.kind.rawValue)),
            ("conflicts", .strings(failure.conflicts.map(\.description))),
        ]
        switch notice.kind {
        case .setupError: post("latchkey-session-setup-error", fields)
        case .heartbeatError(let isFinal):
            post("latchkey-session-heartbeat-error", fields + [("final", .boolean(isFinal))])
        case .teardownError: post("latchkey-session-teardown-error", fields)
        }
    }
}

extension ElementReference {
    /// Posts `latchkey-clock-set-back`, unless another element of the pipeline did.
    func post(_ notice: ClockNotice) {
        if notice.claim() { post("latchkey-clock-set-back", [("reason", .string(notice.reason))]) }
    }
}

extension KeySession {
    /// Has the pipeline around the element, which starts, post what goes wrong when the viewing session is ended: the
    /// element is gone then.
    func reportTeardown(on element: ElementReference) {
        guard let viewing else { return }
        let pipeline = element.withTopLevel { top in
            WeakPipeline(UnsafeMutableRawPointer(top).assumingMemoryBound(to: GstElement.self))
        }
        viewing.onTeardownErrorInPipeline { notice in
            if pipeline.with({ $0.post(notice) }) == nil { UntoldNotices.keep(notice) }
        }
    }
}

/// What went wrong at the end of viewing sessions whose buses were not read any more: the next one that starts
/// tells it. Thread-safe.
enum UntoldNotices {
    /// Whoever starts so rarely has the log.
    private static let limit = 64
    private static let kept = Mutex<[ViewingNotice]>([])

    static func keep(_ notice: ViewingNotice) {
        kept.withLock { kept in
            guard !kept.contains(where: { $0 === notice }) else { return }
            kept.append(notice)
            if kept.count > limit { kept.removeFirst() }
        }
    }

    /// Posts what is kept, on an element that starts.
    static func tell(on element: ElementReference) {
        guard element.hasListener else { return }
        let notices = kept.withLock { kept in
            defer { kept = [] }
            return kept
        }
        for notice in notices { element.post(notice) }
    }
}

/// What an application tells about itself: `session-event (event) -> known`.
enum SessionEvent {
    /// `session` is the element's.
    static func signal(_ session: @escaping @Sendable (Element) -> KeySession?) -> ActionSignal {
        ActionSignal("session-event", arguments: [.string]) { element, arguments in
            guard case .string(let event?) = arguments.first, let viewing = session(element)?.viewing else {
                return false
            }
            switch event {
            case "background": viewing.enterBackground()
            case "foreground", "picture-in-picture": viewing.enterForeground()
            case "suspend": viewing.suspend()
            case "resume": viewing.resume()
            default: return false
            }
            return true
        }
    }
}

extension KeySession {
    /// How people know a key: by the URI of the playlist, where that has named it. A KID that was made for a URI says nothing
    /// to anybody.
    func name(of keyID: KeyID) -> String {
        guard let uri = keyURI(of: keyID) else { return DecryptorFailure.name(keyID) }
        let printable = KeyURI(uri).printable
        return isMade(keyID) ? printable : "\(printable) (\(DecryptorFailure.name(keyID)))"
    }
}
