// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import Elements

/// When the stock demuxer counts as stopped.
@Suite struct StillnessTests {
    private static let second: UInt64 = 1_000_000_000

    private struct End: Equatable {
        var verdict: Stillness.Verdict
        /// In seconds.
        var time: UInt64
    }

    /// The first verdict that says something, asked each second from `start` on; nil: there is none in a minute.
    private func verdict(
        of stillness: inout Stillness, from start: UInt64, isBusy: (UInt64) -> Bool = { _ in false }
    ) -> End? {
        for time in start...(start + 60) {
            let verdict = stillness.verdict(isBusy: isBusy(time), at: time * Self.second)
            if verdict != .none { return End(verdict: verdict, time: time) }
        }
        return nil
    }

    @Test func segmentsOfWhichNothingComesAreAFailure() {
        var stillness = Stillness()
        stillness.didRead("v", isEnded: true, target: 6, at: 0)
        // Nothing was fetched yet.
        #expect(verdict(of: &stillness, from: 0) == nil)
        stillness.didFetch(at: 100 * Self.second)
        #expect(verdict(of: &stillness, from: 100) == End(verdict: .hasStopped, time: 108))
    }

    @Test func nothingMoreIsAFailure() {
        var stillness = Stillness()
        stillness.didRead("v", isEnded: true, target: 6, at: 0)
        stillness.didFetch(at: Self.second)
        stillness.didMove(at: 5 * Self.second)
        #expect(verdict(of: &stillness, from: 5) == End(verdict: .hasStopped, time: 13))
    }

    @Test func whatIsWaitedForIsNot() {
        var stillness = Stillness()
        stillness.didRead("v", isEnded: true, target: 6, at: 0)
        stillness.didFetch(at: 0)
        #expect(verdict(of: &stillness, from: 0) { $0 < 30 } == End(verdict: .hasStopped, time: 37))
    }

    @Test func aLivePresentationMayWaitForItsNextSegment() {
        var stillness = Stillness()
        stillness.didRead("v", isEnded: false, target: 6, at: 0)
        stillness.didFetch(at: 0)
        stillness.didMove(at: 0)
        for time in stride(from: 6 as UInt64, to: 600, by: 6) {
            #expect(stillness.verdict(isBusy: false, at: time * Self.second) == .none)
            stillness.didAsk(for: "v", at: time * Self.second)
        }
        // Nobody asks for the playlist any more, which has not ended.
        #expect(verdict(of: &stillness, from: 594) == End(verdict: .hasStopped, time: 612))
    }

    @Test func aLivePresentationOfWhichNothingComesIsAFailure() {
        var stillness = Stillness()
        stillness.didFetch(at: 0)
        for time in 0...(7 as UInt64) {
            stillness.didRead("v", isEnded: false, target: 1, at: time * Self.second)
            #expect(stillness.verdict(isBusy: false, at: time * Self.second) == .none)
        }
        stillness.didRead("v", isEnded: false, target: 1, at: 8 * Self.second)
        #expect(stillness.verdict(isBusy: false, at: 8 * Self.second) == .hasStopped)
    }

    @Test func aLivePresentationThatHasEndedIsAtItsEnd() {
        var stillness = Stillness()
        for time in 0...(9 as UInt64) {
            stillness.didRead("v", isEnded: false, target: 1, at: time * Self.second)
            stillness.didRead("other", isEnded: false, target: 4, at: 0)
            stillness.didFetch(at: time * Self.second)
            stillness.didMove(at: time * Self.second)
        }
        stillness.didRead("v", isEnded: true, target: 1, at: 10 * Self.second)
        // The other playlist was not asked for again: its stream is not wanted.
        #expect(verdict(of: &stillness, from: 10) == End(verdict: .isAtEnd, time: 12))
        stillness.didRead("other", isEnded: false, target: 4, at: 12 * Self.second)
        #expect(verdict(of: &stillness, from: 12) == End(verdict: .isAtEnd, time: 24))
    }
}
