// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyOutputs
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Flushes of an application's beside those of the guard.
    @Suite struct GuardFlushTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func aCloseWithinASeeksFlushLeavesThatAlone() throws {
            let bench = try GuardBench()
            try bench.start()
            #expect(try bench.pushFrame() == GST_FLOW_OK)
            #expect(bench.shows(GuardTests.white, from: 0))
            bench.flushStart()
            bench.outputGuard.obey(GuardTests.blocked)
            #expect(bench.flushes == ["flush-start"])
            // Refused, as everything is within a flush.
            #expect(try bench.pushFrame() == GST_FLOW_FLUSHING)
            let shown = bench.frames.count
            bench.flushStop()
            #expect(bench.flushes == ["flush-start", "flush-stop"])
            bench.push(try GuardBench.segment())
            // The screen still has the frame from before: no other comes until upstream has found its place.
            #expect(bench.shows(GuardTests.black, from: shown))
            #expect(try bench.pushFrame(at: 1000) == GST_FLOW_OK)
            #expect(bench.frames.all[shown...].allSatisfy { $0.luma == GuardTests.black })
            #expect(bench.outputGuard.counters.withLock { $0.closings } == 1)
        }

        @Test func aBlankThatASeekTakesAwayComesAgain() throws {
            let bench = try GuardBench(sink: "")
            try bench.start(GST_STATE_PAUSED)
            let source = TestThread { _ = try? bench.pushFrame() }
            #expect(bench.shows(GuardTests.white, from: 0))
            let closed = bench.frames.count
            bench.outputGuard.obey(GuardTests.blocked)
            #expect(bench.shows(GuardTests.black, from: closed))
            source.join()
            bench.flushStart()
            bench.flushStop()
            let flushed = bench.frames.count
            bench.push(try GuardBench.segment())
            #expect(bench.shows(GuardTests.black, from: flushed))
            #expect(bench.frames.all[closed...].allSatisfy { $0.luma == GuardTests.black })
        }

        @Test func whereNothingIsBlockedASeekBringsNoBlank() throws {
            let bench = try GuardBench()
            try bench.start()
            #expect(try bench.pushFrame() == GST_FLOW_OK)
            bench.flushStart()
            bench.flushStop()
            bench.push(try GuardBench.segment())
            #expect(try bench.pushFrame(at: 1000) == GST_FLOW_OK)
            #expect(bench.frames.wait { $0.count { !$0.isPreroll } == 2 })
            #expect(bench.frames.all.allSatisfy { $0.luma == GuardTests.white })
        }

        /// Neither waits for the other for good, whatever the order.
        @Test func closesAndSeeksMayCross() throws {
            let bench = try GuardBench()
            try bench.start()
            let isOver = Atomic(false)
            let closer = TestThread {
                while !isOver.load(ordering: .acquiring) {
                    bench.outputGuard.obey(GuardTests.blocked)
                    bench.outputGuard.obey(.allow)
                }
            }
            for round in 0..<500 as Range<UInt64> {
                bench.flushStart()
                bench.flushStop()
                bench.push(try GuardBench.segment())
                let result = try bench.pushFrame(at: round)
                #expect(result == GST_FLOW_OK || result == GST_FLOW_FLUSHING)
            }
            isOver.store(true, ordering: .releasing)
            closer.join()
            bench.outputGuard.obey(.allow)
            let before = bench.frames.count
            #expect(try bench.pushFrame(at: 1_000_000) == GST_FLOW_OK)
            #expect(bench.shows(GuardTests.white, from: before))
            // What the sink heard of is paired.
            let pairs = bench.flushes
            #expect(pairs.count.isMultiple(of: 2))
            for index in stride(from: 0, to: pairs.count - 1, by: 2) {
                #expect(Array(pairs[index...index + 1]) == ["flush-start", "flush-stop"])
            }
        }
    }
}
