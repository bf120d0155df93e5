// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// One request on its way to the thread of a `CurlLoop`, and its result on the way back. Thread-safe.
final class CurlExchange: Sendable {
    typealias Outcome = Result<HTTPResponse, HTTPError>

    let request: HTTPRequest
    let url: HTTPURL
    /// What is left for this exchange; greater than zero.
    let timeout: Duration
    /// Takes the body of a success; nil: the response has it.
    let receiver: HTTPBodyReceiver?
    private let gate: HTTPBodyGate?
    private let resume: @Sendable (CurlExchange) -> Void

    private let cancelled = Atomic(false)
    private let waiter = Mutex<CheckedContinuation<Outcome, Never>?>(nil)

    /// `resume` hears that a body which had to wait may come.
    init(
        _ request: HTTPRequest, at url: HTTPURL, within timeout: Duration, _ receiver: HTTPBodyReceiver? = nil,
        _ gate: HTTPBodyGate? = nil, resume: @escaping @Sendable (CurlExchange) -> Void = { _ in }
    ) {
        self.receiver = receiver
        self.gate = gate
        self.resume = resume
        self.request = request
        self.url = url
        self.timeout = timeout
    }

    /// Set before the loop is told, so that a cancellation which overtakes the start is not lost.
    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() { cancelled.store(true, ordering: .releasing) }

    /// Whether the body has to wait. Asked again for what had to.
    var isHeldBack: Bool {
        gate?.holds { [weak self] in
            if let self { resume(self) }
        } ?? false
    }

    /// Names who waits. Called once, before the exchange is handed to the loop.
    func setWaiter(_ continuation: CheckedContinuation<Outcome, Never>) {
        waiter.withLock { $0 = continuation }
    }

    /// Resumes who waits, once. Later outcomes are dropped.
    func finish(_ outcome: Outcome) {
        let continuation = waiter.withLock { waiter in
            defer { waiter = nil }
            return waiter
        }
        continuation?.resume(returning: outcome)
    }
}
