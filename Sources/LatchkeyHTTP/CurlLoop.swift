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

/// The transfers in one multi handle. Lives on the thread of its `CurlLoop` only.
struct CurlTransfers {
    private let multi: MultiHandle
    private let settings: CurlSettings
    private var running: [UnsafeMutableRawPointer: CurlTransfer] = [:]

    init(multi: MultiHandle, settings: CurlSettings) {
        self.multi = multi
        self.settings = settings
    }

    mutating func start(_ exchange: CurlExchange) {
        guard !exchange.isCancelled else {
            exchange.finish(.failure(.cancelled(exchange.url.text)))
            return
        }
        do throws(HTTPError) {
            let transfer = try CurlTransfer(exchange, settings: settings, curl: multi.curl)
            guard multi.curl.pointee.multi_add_handle(multi.pointer, transfer.handle) == CURLM_OK else {
                throw .other(exchange.url.text, "libcurl does not take the transfer")
            }
            running[transfer.handle] = transfer
        } catch {
            exchange.finish(.failure(error))
        }
    }

    mutating func cancel(_ exchange: CurlExchange) {
        guard let transfer = running.values.first(where: { $0.exchange === exchange }) else { return }
        finish(transfer, .failure(.cancelled(exchange.url.text)))
    }

    /// Hands over what had to wait.
    mutating func resume(_ exchange: CurlExchange) {
        guard let transfer = running.values.first(where: { $0.exchange === exchange }) else { return }
        let code = multi.curl.pointee.easy_pause(transfer.handle, CURLPAUSE_CONT)
        if code != CURLE_OK { finish(transfer, transfer.outcome(code)) }
    }

    mutating func cancelAll() {
        for transfer in running.values { finish(transfer, .failure(.cancelled(transfer.exchange.url.text))) }
    }

    /// Moves all transfers on, and finishes those that ended.
    mutating func perform() {
        var count: Int32 = 0
        guard multi.curl.pointee.multi_perform(multi.pointer, &count) == CURLM_OK else {
            for transfer in running.values {
                finish(transfer, .failure(.other(transfer.exchange.url.text, "libcurl cannot go on")))
            }
            return
        }
        // SAFETY: a message is valid until its handle is removed, so that its result is copied before that.
        while let message = multi.curl.pointee.multi_info_read(multi.pointer, &count) {
            let code = message.pointee.data.result
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = running[handle]
            else { continue }
            finish(transfer, transfer.outcome(code))
        }
    }

    private mutating func finish(_ transfer: CurlTransfer, _ outcome: consuming CurlExchange.Outcome) {
        // First, because libcurl before 7.87 may wait for a look-up while it removes the handle.
        transfer.exchange.finish(outcome)
        running[transfer.handle] = nil
        _ = multi.curl.pointee.multi_remove_handle(multi.pointer, transfer.handle)
    }
}

/// A libcurl multi handle: connections, look-ups and running transfers. Freed by hand, once.
struct MultiHandle: @unchecked Sendable {
    // SAFETY: `curl_multi_wakeup` may be called from any thread. All else happens on the thread of the loop.
    let pointer: UnsafeMutableRawPointer
    let curl: UnsafePointer<latchkey_curl>

    /// The number of unused connections that are kept open.
    private static let keptConnections = 16
    /// As many as are open at once, to one host and in all: a few hosts that do not answer leave room for others. Further
    /// requests wait, and their timeouts run.
    private static let maximumHostConnections = 64
    private static let maximumConnections = 256

    /// Nil where libcurl has no memory or no descriptors left. Without descriptors, it would make one that `wakeUp` does not reach:
    /// requests would wait until something else ends `wait`.
    init?(_ library: CurlLibrary) {
        curl = library.functions
        guard library.isReady, let pointer = curl.pointee.multi_init() else { return nil }
        self.pointer = pointer
        guard latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAXCONNECTS, Self.keptConnections) == CURLM_OK,
            latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAX_HOST_CONNECTIONS, Self.maximumHostConnections)
                == CURLM_OK,
            latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAX_TOTAL_CONNECTIONS, Self.maximumConnections)
                == CURLM_OK,
            curl.pointee.multi_wakeup(pointer) == CURLM_OK
        else {
            free()
            return nil
        }
    }

    func free() { _ = curl.pointee.multi_cleanup(pointer) }

    /// Ends the `wait` under way, or the next one.
    func wakeUp() { _ = curl.pointee.multi_wakeup(pointer) }

    /// Waits for sockets, for libcurl's own timeouts, or for `wakeUp`.
    func wait() {
        if curl.pointee.multi_poll(pointer, nil, 0, 3_600_000, nil) != CURLM_OK {
            // Out of memory or descriptors: without a pause, the thread would spin until there are some.
            usleep(10_000)
        }
    }
}

/// Runs `body`, in which threads are started that take no signals: those are the application's business, and a write to
/// a closed connection must not raise SIGPIPE. Faults stay with who causes them.
package func withSignalsBlocked<Result>(_ body: () -> Result) -> Result {
    // A thread inherits the mask of the one that starts it.
    var mask = sigset_t()
    var previous = sigset_t()
    sigfillset(&mask)
    for fault in [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS] { sigdelset(&mask, fault) }
    pthread_sigmask(SIG_BLOCK, &mask, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
    return body()
}
