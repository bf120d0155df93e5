// SPDX-License-Identifier: MPL-2.0

import HTTP

/// One request for a segment, with what arrives of it. For one reader; ends with the last reference. Thread-safe.
final class SegmentDownload: Sendable {
    enum Event: Sendable {
        /// A piece of a success, which is not empty, with the head.
        case piece(HTTPResponse, [UInt8])
        /// All is there. Where the status is no success, the response has the body.
        case end(HTTPResponse)
        case failure(PresentationFailure)
    }

    private let events: AsyncStream<Event>
    private let task: Task<Void, Never>

    /// `range` is the value of a `Range` field.
    init(_ url: String, for request: LoopbackRequest, range: String?, from origin: PresentationOrigin) {
        let (events, sender) = AsyncStream.makeStream(of: Event.self)
        self.events = events
        task = Task {
            do throws(PresentationFailure) {
                let end = try await origin.receive(url, for: request, range: range) { sender.yield(.piece($0, $1)) }
                sender.yield(.end(end))
            } catch {
                sender.yield(.failure(error))
            }
            sender.finish()
        }
    }

    deinit { task.cancel() }

    /// Nil after the end, and where the task that asks is cancelled.
    func next() async -> Event? {
        var iterator = events.makeAsyncIterator()
        return await iterator.next()
    }
}
