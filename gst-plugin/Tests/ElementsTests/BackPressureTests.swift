// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// What waits for a key is bounded, and a thread that waits to get in is let go.
    @Suite struct BackPressureTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// Pushes samples of ten seconds each, on a thread of its own; with a size, clear ones after the first.
        private func push(_ count: Int, into harness: Harness, clearSize: Int? = nil) -> Progress {
            let progress = Progress()
            Thread.detachNewThread {
                for index in 0..<count {
                    var sample = Media.sample([UInt8(index)])
                    sample.duration = 10_000_000_000
                    progress.begin()
                    let clear = clearSize.flatMap {
                        index > 0 ? Buffer(copying: [UInt8](repeating: 0, count: $0)) : nil
                    }
                    clear?.withPointer { $0.pointee.duration = 10_000_000_000 }
                    guard let buffer = clear ?? (try? sample.makeBuffer()), harness.push(buffer) == .ok else { break }
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

        /// Inside an adaptive demuxer, whose only thread must come out before the demuxer flushes, bytes count and not
        /// time, and a seek lets the thread in.
        @Test func aSeekFreesTheThreadOfAnAdaptiveDemuxer() throws {
            let demuxer = try #require(gst_element_factory_make("dashdemux2", nil))
            gst_object_ref_sink(demuxer)
            defer {
                gst_element_set_state(demuxer, GST_STATE_NULL)
                gst_object_unref(demuxer)
            }
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
            gst_element_set_state(demuxer, GST_STATE_PAUSED)
            // The bin itself would take the links to the harness apart.
            #expect(gst_object_set_parent(ek_as_object(harness.element), ek_as_object(demuxer)) != 0)
            defer { gst_object_unparent(ek_as_object(harness.element)) }
            let pad = try #require(gst_pad_new("src", GST_PAD_SRC))
            gst_pad_set_active(pad, 1)
            #expect(gst_element_add_pad(demuxer, pad) != 0)
            harness.start(caps: Media.bareVideo)
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            let pushed = push(14, into: harness, clearSize: 4 << 20)
            // One is with the thread that waits, and one at the door.
            let full = Decryptor.queueByteLimit / (4 << 20)
            #expect(pushed.wait { $0.begun == full + 2 && $0.ended == full + 1 })
            #expect(decryptor.monitor.withLock { decryptor.flow.queue.duration } > Decryptor.queueDurationLimit)
            let seek = gst_event_new_seek(
                1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_NONE, -1)
            // The thread may not have put its probe there yet.
            while !pushed.wait(upTo: 0.05, until: { $0.isFinished }) { gst_pad_send_event(pad, gst_event_ref(seek)) }
            ek_mini_object_unref(seek)
            #expect(decryptor.monitor.withLock { decryptor.flow.isSeekExpected })
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(decryptor.monitor.withLock { !decryptor.flow.isSeekExpected && decryptor.flow.queue.isEmpty })
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
        wait(upTo: Double(TestProcess.deadline) / 1e9, until: fits)
    }

    func wait(upTo seconds: Double, until fits: (Counts) -> Bool) -> Bool {
        let end = Date(timeIntervalSinceNow: seconds)
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
