// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// One request for a segment, with what arrives of it. For one reader, which holds the origin back where it takes nothing;
/// ends with the last reference. Thread-safe.
final class SegmentDownload: Sendable {
    enum Event: Sendable {
        /// A piece of a success, which is not empty, with the head.
        case piece(HTTPResponse, [UInt8])
        /// All is there. Where the status is no success, the response has the body.
        case end(HTTPResponse)
        case failure(PresentationFailure)
    }

    /// In bytes, of what came and was not taken: no more comes then but one piece, until half of it is taken.
    static let bufferLimit = 256 << 10

    /// What waits for the reader.
    private final class Buffer: Sendable {
        let gate = HTTPBodyGate()
        private let size = Mutex(0)

        func add(_ count: Int) {
            size.withLock {
                $0 += count
                if $0 >= SegmentDownload.bufferLimit { gate.close() }
            }
        }

        func remove(_ count: Int) {
            size.withLock {
                $0 -= count
                if $0 <= SegmentDownload.bufferLimit / 2 { gate.open() }
            }
        }
    }

    private let events: AsyncStream<Event>
    private let buffer: Buffer
    private let task: Task<Void, Never>

    /// `range` is the value of a `Range` field.
    init(_ url: String, for request: LoopbackRequest, range: String?, from origin: PresentationOrigin) {
        let (events, sender) = AsyncStream.makeStream(of: Event.self)
        let buffer = Buffer()
        (self.events, self.buffer) = (events, buffer)
        task = Task {
            do throws(PresentationFailure) {
                let end = try await origin.receive(url, for: request, range: range, through: buffer.gate) {
                    buffer.add($1.count)
                    sender.yield(.piece($0, $1))
                }
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
        let event = await iterator.next()
        if case .piece(_, let piece) = event { buffer.remove(piece.count) }
        return event
    }
}
