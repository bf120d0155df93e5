// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// A `LatchkeyServiceRequest`: a challenge with what it says of itself in memory that C can read. Thread-safe.
final class ServiceRequestHandle: OpaqueReference, Sendable {
    let operation: LatchkeyServiceOperation
    let url: CMemory
    let challenge: CMemory
    let soapAction: CMemory
    private let request: Mutex<PlayReadyServiceRequest>
    private let answer: DelegateAnswer

    init(_ request: PlayReadyServiceRequest, _ answer: DelegateAnswer) {
        operation =
            request.operation == .joinDomain ? LATCHKEY_SERVICE_JOIN_DOMAIN : LATCHKEY_SERVICE_ACQUIRE_LICENSE
        url = CMemory(text: request.url)
        challenge = CMemory(request.challenge)
        soapAction = CMemory(text: request.operation.soapAction)
        self.request = Mutex(request)
        self.answer = answer
    }

    deinit { answer.finish(.failure(.denied("the delegate gave the request up without an answer"))) }

    func setURL(_ url: String) { request.withLock { $0.url = url } }

    func addHeader(_ name: String, _ value: String) {
        request.withLock { $0.headers.append(HTTPHeader(name: name, value: value)) }
    }

    func send() -> Bool { answer.finish(.send(request.withLock(\.self))) }
    func finish(with response: [UInt8]) -> Bool { answer.finish(.response(response)) }
    func finish(with error: KeyError) -> Bool { answer.finish(.failure(error)) }
}

/// What becomes of a request that a delegate has, decided once. Thread-safe.
final class DelegateAnswer: Sendable {
    enum Outcome: Sendable {
        case send(PlayReadyServiceRequest)
        case response([UInt8])
        case failure(KeyError)
    }

    private struct State {
        var isDecided = false
        var outcome: Outcome?
        var continuation: CheckedContinuation<Outcome, Never>?
    }

    private let state = Mutex(State())

    /// False where it was decided before.
    @discardableResult
    func finish(_ outcome: Outcome) -> Bool {
        guard claim() else { return false }
        resume(outcome)
        return true
    }

    /// Takes the right to decide; who has it calls `resume`.
    func claim() -> Bool {
        state.withLock { state in
            defer { state.isDecided = true }
            return !state.isDecided
        }
    }

    func resume(_ outcome: Outcome) {
        let continuation = state.withLock { state in
            state.outcome = outcome
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(returning: outcome)
    }

    /// For one caller.
    func wait() async -> Outcome {
        await withCheckedContinuation { continuation in
            let known = state.withLock { state in
                if state.outcome == nil { state.continuation = continuation }
                return state.outcome
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
