// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Testing

@testable import LatchkeyElements

/// When a stock demuxer may be stopped.
@Suite struct StopMomentsTests {
    private static let millisecond: UInt64 = 1_000_000

    @Test func outputsAreMadeFromTheStreamsToTheSelection() {
        var moments = StopMoments()
        #expect(!moments.makesOutputs(at: 0))
        moments.didTellOfStreams(at: 0)
        #expect(moments.makesOutputs(at: 0) && moments.makesOutputs(at: 100 * Self.millisecond))
        moments.didTellOfOutputs(at: 100 * Self.millisecond)
        #expect(moments.makesOutputs(at: 101 * Self.millisecond))
        #expect(!moments.makesOutputs(at: 103 * Self.millisecond))
        // Of the next period.
        moments.didTellOfStreams(at: 500 * Self.millisecond)
        #expect(moments.makesOutputs(at: 501 * Self.millisecond))
    }

    @Test func theLogHasEachPartOfAStop() {
        var times = StopTimes(at: 5 * Self.millisecond)
        times.didEnd("answers", at: 7 * Self.millisecond)
        times.didEnd("servers", at: 8 * Self.millisecond - 1)
        #expect(times.line == "answers 2 ms, servers 0 ms")
    }

    /// A demuxer need not tell which streams it has selected.
    @Test func aSelectionThatNeverComesIsNotWaitedForLong() {
        var moments = StopMoments()
        moments.didTellOfStreams(at: 0)
        #expect(!moments.makesOutputs(at: 151 * Self.millisecond))
    }

    /// Of a track that takes over long after the demuxer told of its streams.
    @Test func whoHearsOfOutputsIsWaitedFor() {
        var moments = StopMoments()
        moments.didTellOfStreams(at: 0)
        #expect(!moments.makesOutputs(at: 1000 * Self.millisecond))
        moments.willTellOfOutputs(at: 1000 * Self.millisecond)
        #expect(moments.makesOutputs(at: 1100 * Self.millisecond))
        #expect(!moments.makesOutputs(at: 1151 * Self.millisecond))
        moments.didTellOfOutputs(at: 1100 * Self.millisecond)
        #expect(!moments.makesOutputs(at: 1103 * Self.millisecond))
    }

    /// It may get no processor for a while. This thread runs.
    @Test func aThreadThatHasToldOfOutputsIsWaitedForUntilItSleeps() {
        var moments = StopMoments()
        moments.didTellOfOutputs(on: .current, at: 0)
        #expect(moments.makesOutputs(at: 49 * Self.millisecond))
        #expect(!moments.makesOutputs(at: 50 * Self.millisecond))
        // One that has ended has nothing to do either.
        moments.didTellOfOutputs(on: KernelThreads([.max]), at: 100 * Self.millisecond)
        #expect(moments.makesOutputs(at: 101 * Self.millisecond))
        #expect(!moments.makesOutputs(at: 103 * Self.millisecond))
    }

    @Test func threadsThatCannotBeSeenGetSomeTime() {
        var moments = StopMoments()
        moments.didStart(KernelThreads([]), at: 10 * Self.millisecond)
        #expect(!moments.hasStarted(at: 60 * Self.millisecond))
        #expect(moments.hasStarted(at: 111 * Self.millisecond))
        #expect(moments.isIdle(at: 200 * Self.millisecond, sinceStopAt: 200 * Self.millisecond))
    }

    /// This thread runs.
    @Test func threadsThatWorkAreNotWaitedForLong() {
        var moments = StopMoments()
        moments.didStart(KernelThreads.now, at: 0)
        #expect(!moments.isIdle(at: 2049 * Self.millisecond, sinceStopAt: 2000 * Self.millisecond))
        #expect(moments.isIdle(at: 2050 * Self.millisecond, sinceStopAt: 2000 * Self.millisecond))
    }
}
