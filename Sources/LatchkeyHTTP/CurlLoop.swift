// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import Glibc
import Synchronization

/// The thread that runs all transfers of one transport, and the way in for others.
///
/// Everybody else only puts commands into the inbox and wakes the thread; libcurl's handles are touched on the thread
/// alone. Thread-safe.
final class CurlLoop: Sendable {
    private enum Command: Sendable {
        case start(CurlExchange)
        case cancel(CurlExchange)
        case resume(CurlExchange)
        case stop
    }

    private enum Stage {
        case idle
        case running(MultiHandle)
        case stopped
    }

    private struct Inbox {
        var stage = Stage.idle
        var commands: [Command] = []
    }

    private let settings: CurlSettings
    private let inbox = Mutex(Inbox())

    init(settings: CurlSettings) { self.settings = settings }

    /// Sends one request and waits for its response, without redirects.
    func response(
        to request: HTTPRequest, at url: HTTPURL, within timeout: Duration, _ receiver: HTTPBodyReceiver? = nil,
        _ gate: HTTPBodyGate? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        let exchange = CurlExchange(request, at: url, within: timeout, receiver, gate) { [weak self] exchange in
            self?.post(.resume(exchange))
        }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                exchange.setWaiter(continuation)
                start(exchange)
            }
        } onCancel: {
            exchange.cancel()
            post(.cancel(exchange))
        }
        return try outcome.get()
    }

    /// Ends the thread. What is still under way ends as cancelled, and so does what comes later.
    func stop() { post(.stop) }

    private func start(_ exchange: CurlExchange) {
        let failure: HTTPError? = inbox.withLock { inbox in
            if case .idle = inbox.stage {
                do throws(HTTPError) {
                    guard let multi = MultiHandle(try .shared(for: exchange.url.text)), startThread(multi) else {
                        return .other(exchange.url.text, "the thread for transfers cannot be started")
                    }
                    inbox.stage = .running(multi)
                } catch {
                    return error
                }
            }
            guard case .running(let multi) = inbox.stage else { return .cancelled(exchange.url.text) }
            inbox.commands.append(.start(exchange))
            multi.wakeUp()
            return nil
        }
        if let failure { exchange.finish(.failure(failure)) }
    }

    private func post(_ command: Command) {
        inbox.withLock { inbox in
            guard case .running(let multi) = inbox.stage else {
                if case .stop = command { inbox.stage = .stopped }
                return
            }
            inbox.commands.append(command)
            // Within the lock: the thread frees the handle after it has taken `stop` out under the same lock.
            multi.wakeUp()
            if case .stop = command { inbox.stage = .stopped }
        }
    }

    // MARK: The thread

    private func startThread(_ multi: MultiHandle) -> Bool {
        withSignalsBlocked {
            // SAFETY: retained here, released by the thread, or below where there is no thread.
            let start = Unmanaged.passRetained(ThreadStart(loop: self, multi: multi))
            var thread = pthread_t()
            guard pthread_create(&thread, nil, runLoop, start.toOpaque()) == 0 else {
                start.release()
                multi.free()
                return false
            }
            pthread_detach(thread)
            return true
        }
    }

    fileprivate func run(_ multi: MultiHandle) {
        var transfers = CurlTransfers(multi: multi, settings: settings)
        while true {
            let commands = inbox.withLock { inbox in
                defer { inbox.commands = [] }
                return inbox.commands
            }
            let isStopped = ExitGate.pass {
                for command in commands {
                    switch command {
                    case .start(let exchange): transfers.start(exchange)
                    case .cancel(let exchange): transfers.cancel(exchange)
                    case .resume(let exchange): transfers.resume(exchange)
                    case .stop:
                        transfers.cancelAll()
                        multi.free()
                        return true
                    }
                }
                transfers.perform()
                return false
            }
            if isStopped { return }
            multi.wait()
        }
    }
}

private final class ThreadStart: Sendable {
    let loop: CurlLoop
    let multi: MultiHandle

    init(loop: CurlLoop, multi: MultiHandle) {
        self.loop = loop
        self.multi = multi
    }
}

private func runLoop(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    // SAFETY: the pointer that `startThread` retained for this thread.
    let start = Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue()
    start.loop.run(start.multi)
    return nil
}
