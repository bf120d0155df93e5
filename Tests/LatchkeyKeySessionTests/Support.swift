// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization

@testable import LatchkeyKeySession

/// KID number `number`.
func keyID(_ number: Int) -> KeyID {
    KeyID([UInt8](repeating: 0xAA, count: 8) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) })!
}

/// The hexadecimal digits of key number `number`. They stand in no KID.
func keyHex(_ number: Int) -> String {
    Hex.encode([UInt8](repeating: 0xC5, count: 12) + (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - $0 * 8)) })
}

func contentKey(_ number: Int) -> ContentKey { ContentKey(hex: keyHex(number))! }

func hex(_ key: ContentKey?) -> String? { key.map { $0.withBytes { Hex.encode($0) } } }

extension KeyStatus {
    var isAbsent: Bool { if case .absent = self { true } else { false } }
    var isPending: Bool { requestID != nil }
    var requestID: UInt64? { if case .pending(let id) = self { id } else { nil } }
    var key: ContentKey? { if case .usable(let key) = self { key } else { nil } }
    var error: KeyError? { if case .failed(let error, _) = self { error } else { nil } }
    var failureGeneration: UInt64? { if case .failed(_, let generation) = self { generation } else { nil } }
}

extension KeyEvent {
    /// A form that tests can compare, without request ids.
    var summary: String {
        switch self {
        case .requested(let request, _): "requested \(request.keyIDs.count)"
        case .untaken(let request, _): "untaken \(request.keyIDs.count)"
        case .usable(_, let keyIDs, _): "usable \(keyIDs.count)"
        case .failed(_, let keyIDs, let error): "failed \(keyIDs.count): \(error.shortDescription)"
        case .renewalFailed(_, let keyIDs, let error): "renewal failed \(keyIDs.count): \(error.shortDescription)"
        case .expired(let keyIDs, _, let wasInUse): "expired \(keyIDs.count)\(wasInUse ? " in use" : "")"
        case .notStored(let request, let error, _): "not stored \(request.keyIDs.count): \(error.shortDescription)"
        case .viewing(let notice): "viewing \(notice.kind)"
        case .withheld(let isWithheld): isWithheld ? "withheld" : "shown"
        case .clockSetBack: "clock set back"
        case .closed(let error): "closed: \(error.shortDescription)"
        }
    }

    var request: KeyLoadingRequest? { if case .requested(let request, _) = self { request } else { nil } }
    var isUntaken: Bool { if case .untaken = self { true } else { false } }
    var isUsable: Bool { if case .usable = self { true } else { false } }
    var isExpired: Bool { if case .expired = self { true } else { false } }
    var isFailed: Bool { if case .failed = self { true } else { false } }
    var isClockSetBack: Bool { if case .clockSetBack = self { true } else { false } }
}

extension KeySession {
    /// Waits until observers have heard of all that has happened. Another thread may be telling them, of this too.
    func told() async {
        while core.withLock({ $0.isDelivering || !$0.events.isEmpty }) { await Task.yield() }
    }
}

/// A session's events, to wait for and to look back on.
final class Watcher: Sendable {
    private final class Seen: Sendable {
        let events = Mutex<[KeyEvent]>([])
    }

    private let seen: Seen
    private let stream: AsyncStream<KeyEvent>
    private let observation: KeyObservation

    init(_ session: KeySession) {
        let (stream, continuation) = AsyncStream.makeStream(of: KeyEvent.self)
        let seen = Seen()
        self.stream = stream
        self.seen = seen
        observation = session.observe { event in
            seen.events.withLock { $0.append(event) }
            continuation.yield(event)
        }
    }

    var id: UInt64 { observation.id }
    var events: [KeyEvent] { seen.events.withLock(\.self) }
    var summaries: [String] { events.map(\.summary) }

    /// The next event that fits. Events before it are passed over for good.
    func next(where fits: @escaping (KeyEvent) -> Bool) async -> KeyEvent? {
        for await event in stream where fits(event) { return event }
        return nil
    }

    func cancel() { observation.cancel() }
}

/// Something that happens once, for tests to wait for.
final class Signal<Value: Sendable>: Sendable {
    private let stream: AsyncStream<Value>
    private let continuation: AsyncStream<Value>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func send(_ value: Value) { continuation.yield(value) }

    func wait() async -> Value? {
        for await value in stream { return value }
        return nil
    }
}

/// A transport that answers with a closure and remembers what it was sent.
final class FakeTransport: HTTPTransport {
    typealias Answer = @Sendable (HTTPRequest, Int) async throws(HTTPError) -> HTTPResponse

    private let log = Mutex<[HTTPRequest]>([])
    private let answer: Answer

    /// `answer` gets the request and how many came before it.
    init(_ answer: @escaping Answer) { self.answer = answer }

    var requests: [HTTPRequest] { log.withLock(\.self) }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let count = log.withLock { log in
            log.append(request)
            return log.count - 1
        }
        return try await answer(request, count)
    }

    /// Never answers: a request lasts until its task is cancelled. `begun` and `ended` say so; the latter, whether it was.
    static func silent(begun: Signal<Bool>, ended: Signal<Bool>) -> FakeTransport {
        FakeTransport { request, _ throws(HTTPError) in
            begun.send(true)
            let (never, continuation) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            withExtendedLifetime(continuation) {}
            ended.send(Task.isCancelled)
            throw .cancelled(request.url)
        }
    }
}
