// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl

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

    private mutating func finish(_ transfer: CurlTransfer, _ outcome: CurlExchange.Outcome) {
        // First, because libcurl before 7.87 may wait for a look-up while it removes the handle.
        transfer.exchange.finish(outcome)
        running[transfer.handle] = nil
        _ = multi.curl.pointee.multi_remove_handle(multi.pointer, transfer.handle)
    }
}
