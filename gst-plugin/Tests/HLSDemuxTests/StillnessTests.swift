// SPDX-License-Identifier: MPL-2.0

import MediaFormats
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
        stillness.didRead("v", Self.refresh(isEnded: true, target: 6), at: 0)
        // Nothing was fetched yet.
        #expect(verdict(of: &stillness, from: 0) == nil)
        stillness.didFetch("http://a/1.ts", at: 100 * Self.second)
        #expect(verdict(of: &stillness, from: 100) == End(verdict: .hasStopped, time: 108))
    }

    @Test func nothingMoreIsAFailure() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(isEnded: true, target: 6), at: 0)
        stillness.didFetch("http://a/1.ts", at: Self.second)
        stillness.didMove(at: 5 * Self.second)
        #expect(verdict(of: &stillness, from: 5) == End(verdict: .hasStopped, time: 13))
    }

    @Test func whatIsWaitedForIsNot() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(isEnded: true, target: 6), at: 0)
        stillness.didFetch("http://a/1.ts", at: 0)
        #expect(verdict(of: &stillness, from: 0) { $0 < 30 } == End(verdict: .hasStopped, time: 37))
    }

    @Test func aLivePresentationMayWaitForItsNextSegment() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(target: 6), at: 0)
        stillness.didFetch("http://a/1.ts", at: 0)
        stillness.didMove(at: 0)
        for time in stride(from: 6 as UInt64, to: 600, by: 6) {
            #expect(stillness.verdict(isBusy: false, at: time * Self.second) == .none)
            stillness.didAsk(for: "v", at: time * Self.second)
        }
        // The demuxer asks for the playlist no more, which has not ended.
        #expect(verdict(of: &stillness, from: 594) == End(verdict: .hasStopped, time: 612))
    }

    @Test func aLivePresentationOfWhichNothingComesIsAFailure() {
        var stillness = Stillness()
        stillness.didFetch("http://a/1.ts", at: 0)
        for time in 0...(7 as UInt64) {
            stillness.didRead("v", Self.refresh(target: 1), at: time * Self.second)
            #expect(stillness.verdict(isBusy: false, at: time * Self.second) == .none)
        }
        stillness.didRead("v", Self.refresh(target: 1), at: 8 * Self.second)
        #expect(stillness.verdict(isBusy: false, at: 8 * Self.second) == .hasStopped)
    }

    @Test func aLivePresentationThatHasEndedIsAtItsEnd() {
        var stillness = Self.ended()
        stillness.didFetch("http://a/2.ts", at: 11 * Self.second)
        stillness.didMove(at: 11 * Self.second)
        // The other playlist was not asked for again: its stream is not wanted.
        #expect(verdict(of: &stillness, from: 11) == End(verdict: .isAtEnd, time: 13))
        // The demuxer does not take the end.
        #expect(verdict(of: &stillness, from: 13) == End(verdict: .hasStopped, time: 21))
    }

    /// The last part was fetched in the place of its segment, and the last refresh names it no more.
    @Test func theLastPartIsAnEnd() {
        var stillness = Stillness()
        for (isEnded, number, name) in [(false, 1, "1.ts"), (false, 2, "2.part.ts"), (true, 2, "2.ts")] {
            var refresh = Self.refresh(isEnded: isEnded, name)
            refresh.lastNumber = UInt64(number)
            stillness.didRead("v", refresh, at: 0)
        }
        stillness.didMove(at: 0)
        stillness.didFetch("http://a/1.ts", at: 0)
        #expect(verdict(of: &stillness, from: 0)?.verdict == .hasStopped)
        stillness.didFetch("http://a/2.part.ts", at: 20 * Self.second)
        #expect(verdict(of: &stillness, from: 20)?.verdict == .isAtEnd)
    }

    @Test func theEndIsToldAgainAfterASeek() {
        var stillness = Self.ended()
        stillness.didFetch("http://a/2.ts", at: 11 * Self.second)
        #expect(verdict(of: &stillness, from: 11)?.verdict == .isAtEnd)
        stillness.didFetch("http://a/1.ts", at: 20 * Self.second)
        stillness.didFetch("http://a/2.ts", at: 21 * Self.second)
        #expect(!stillness.wasEndTold)
        #expect(verdict(of: &stillness, from: 21) == End(verdict: .isAtEnd, time: 23))
    }

    /// A stop in the middle is no end, even if the end was fetched before a seek.
    @Test func whatStopsBeforeTheLastSegmentIsAFailure() {
        var stillness = Self.ended()
        #expect(verdict(of: &stillness, from: 10) == End(verdict: .hasStopped, time: 18))
        stillness = Self.ended()
        stillness.didFetch("http://a/2.ts", at: 11 * Self.second)
        stillness.didFetch("http://a/1.ts", at: 12 * Self.second)
        #expect(verdict(of: &stillness, from: 12) == End(verdict: .hasStopped, time: 20))
    }

    @Test func eachRoleHasToBeAtItsEnd() {
        var stillness = Self.ended(role: .variant)
        // The end of another variant counts, but not that of the sound.
        for (name, role) in [("w", .variant), ("en", .audio)] as [(String, HLSRewriting.Child.Role)] {
            stillness.didRead(name, Self.refresh(role: role, name), at: 9 * Self.second)
            stillness.didRead(name, Self.refresh(isEnded: true, role: role, name), at: 9 * Self.second)
        }
        stillness.didFetch("http://a/w", at: 10 * Self.second)
        #expect(verdict(of: &stillness, from: 10)?.verdict == .hasStopped)
        stillness.didFetch("http://a/en", at: 30 * Self.second)
        #expect(verdict(of: &stillness, from: 30)?.verdict == .isAtEnd)
    }

    /// The first segment answers 404 for one target duration, and hlsdemux2 waits for it.
    @Test func beforeTheFirstOutputTheTargetDurationCounts() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(target: 10), at: 0)
        stillness.didFetch("http://a/init.mp4", at: 0)
        #expect(verdict(of: &stillness, from: 0) == End(verdict: .hasStopped, time: 30))
    }

    @Test func theLimitsCanBeOthers() {
        var stillness = Stillness(limit: 3 * Self.second)
        stillness.didFetch("http://a/1.ts", at: 0)
        #expect(verdict(of: &stillness, from: 0) == End(verdict: .hasStopped, time: 3))
    }

    @Test func playlistsNameURLsForAWhile() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh("a%20b.ts?x=%2F"), at: 0)
        #expect(stillness.names("http://a/a%20b.ts?x=/"))
        #expect(!stillness.names("http://a/a%20b.ts"))
        stillness.didRead("v", Self.refresh(isDelta: true, "2.ts"), at: 0)
        stillness.didRead("v", Self.refresh("3.ts"), at: 0)
        stillness.didRead("v", Self.refresh("4.ts"), at: 0)
        #expect(stillness.names("http://a/a%20b.ts?x=/"))
        stillness.didRead("v", Self.refresh("5.ts"), at: 0)
        #expect(!stillness.names("http://a/a%20b.ts?x=/"))
        #expect(!stillness.names("http://a/2.ts"))
        #expect(["3.ts", "4.ts", "5.ts"].allSatisfy { stillness.names("http://a/\($0)") })
    }

    private static func refresh(
        isEnded: Bool = false, target: Double = 1, role: HLSRewriting.Child.Role? = nil, isDelta: Bool = false,
        _ names: String...
    ) -> Stillness.Refresh {
        let urls = names.map { "http://a/\($0)" }
        return Stillness.Refresh(
            isEnded: isEnded, target: target, role: role, urls: Set(urls), last: Set(urls.suffix(1)),
            lastNumber: UInt64(urls.count), isDelta: isDelta)
    }

    /// A presentation that has ended at second 10, and of which all but the last segment was fetched.
    private static func ended(role: HLSRewriting.Child.Role? = nil) -> Stillness {
        var stillness = Stillness()
        stillness.didRead("other", refresh(role: .audio, "0.aac"), at: 0)
        stillness.didRead("v", refresh(role: role, "1.ts"), at: 8 * second)
        stillness.didFetch("http://a/1.ts", at: 9 * second)
        stillness.didMove(at: 9 * second)
        stillness.didRead("v", refresh(isEnded: true, role: role, "1.ts", "2.ts"), at: 10 * second)
        return stillness
    }
}
