// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyViewingSession
import Synchronization

extension ElementReference {
    /// Posts what the session server said, unless another element of the pipeline did: `latchkey-session-setup-error`,
    /// `latchkey-session-heartbeat-error` or `latchkey-session-teardown-error`.
    /// What comes after the pipeline has stopped waits for one that somebody listens to.
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

/// What went wrong at the end of viewing sessions whose pipelines nobody listened to any more: the next one that starts
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
