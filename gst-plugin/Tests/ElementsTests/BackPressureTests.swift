// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import ElementTestSupport
import Foundation
import Latchkey
import Testing

@testable import Elements

extension ElementTests {
    /// Rule 1: what waits for a key is bounded, and who waits to get in is let go.
    @Suite struct BackPressureTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// Pushes samples of ten seconds each, on a thread of its own.
        private func push(_ count: Int, into harness: Harness) -> Progress {
            let progress = Progress()
            Thread.detachNewThread {
                for index in 0..<count {
                    var sample = Media.sample([UInt8(index)])
                    sample.duration = 10_000_000_000
                    progress.begin()
                    guard let buffer = try? sample.makeBuffer(), harness.push(buffer) == .ok else { break }
                    progress.end()
                }
                progress.finish()
            }
            return progress
        }

        @Test func theQueueIsBounded() throws {
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
            harness.start(caps: Media.bareVideo)
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            let total = 12
            let pushed = push(total, into: harness)
            let request = try harness.bus.next(element: "latchkey-key-request")
            // The thread that waits holds one sample, three fill the queue with 30 s, and one is at the door.
            #expect(pushed.wait { $0.begun == 5 && $0.ended == 4 })
            let (count, duration) = decryptor.monitor.withLock {
                (decryptor.flow.queue.count, decryptor.flow.queue.duration)
            }
            #expect(count == 3)
            #expect(duration == Decryptor.queueDurationLimit)
            let id = try #require(request.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            #expect(harness.output.wait(samples: total))
            #expect(pushed.wait { $0.isFinished })
            #expect(harness.output.samples.map(\.bytes) == (0..<total).map { [UInt8($0)] })
        }

        @Test(arguments: [true, false])
        func whoWaitsAtTheDoorIsLetGo(byFlush: Bool) throws {
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
            harness.start(caps: Media.bareVideo)
            let pushed = push(12, into: harness)
            #expect(pushed.wait { $0.begun == 5 && $0.ended == 4 })
            if byFlush {
                #expect(harness.push(try Event.flushStart()))
            } else {
                #expect(harness.setState(GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
            }
            #expect(pushed.wait { $0.isFinished })
            #expect(harness.output.samples.isEmpty)
        }
    }
}

/// How far another thread got. Thread-safe.
final class Progress: @unchecked Sendable {
    // SAFETY: the counts are guarded by `condition`.
    private let condition = NSCondition()
    private var counts = Counts()

    struct Counts: Equatable {
        var begun = 0
        var ended = 0
        var isFinished = false
    }

    func begin() { change { $0.begun += 1 } }
    func end() { change { $0.ended += 1 } }
    func finish() { change { $0.isFinished = true } }

    /// False at the deadline.
    func wait(until fits: (Counts) -> Bool) -> Bool {
        let end = Date(timeIntervalSinceNow: Double(TestProcess.deadline) / 1e9)
        condition.lock()
        defer { condition.unlock() }
        while !fits(counts) {
            if !condition.wait(until: end) { return fits(counts) }
        }
        return true
    }

    private func change(_ body: (inout Counts) -> Void) {
        condition.lock()
        body(&counts)
        condition.broadcast()
        condition.unlock()
    }
}
