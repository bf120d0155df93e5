// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// The body of one answer as it comes. Thread-safe.
final class Arrival: Sendable {
    /// One for each whole block that may have come since; ends with the answer.
    let changes: AsyncStream<Void>

    private let blockSize: Int
    private let news: AsyncStream<Void>.Continuation
    private let state = Mutex<HTTPResponse?>(nil)

    init(blockSize: Int) {
        self.blockSize = blockSize
        (changes, news) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// What came so far; nil before the first byte.
    var response: HTTPResponse? { state.withLock { $0 } }

    func take(_ head: HTTPResponse, _ bytes: [UInt8]) {
        let isNews = state.withLock { state in
            var response: HTTPResponse? = nil
            swap(&response, &state)
            let before = response?.body.count ?? 0
            // Alone here, so that nothing is copied to append.
            if response == nil { response = head }
            response?.body += bytes
            swap(&response, &state)
            return before / blockSize != (before + bytes.count) / blockSize
        }
        if isNews { news.yield() }
    }

    func end() { news.finish() }
}
