// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Testing

@testable import LatchkeyElements

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

    /// Segments of `duration` come to their ends without end from second 1 on. Those up to `good` come out.
    private func noise(_ duration: UInt64, good: UInt64, isBusy: Bool = false) -> UInt64? {
        var stillness = Stillness()
        for time in 0...(60 as UInt64) {
            stillness.didRead("v", Self.refresh(target: Double(duration)), at: time * Self.second)
            if time % duration == 1 % duration {
                stillness.didFetch("http://a/\(time).ts", at: time * Self.second)
                stillness.didComplete()
                if time <= good { stillness.didMove(at: time * Self.second) }
            }
            if stillness.verdict(isBusy: isBusy, at: time * Self.second) == .hasStopped { return time }
        }
        return nil
    }

    @Test(arguments: [1, 2, 6] as [UInt64]) func segmentsThatBecomeNoMediaAreAFailure(duration: UInt64) {
        #expect(noise(duration, good: 0).map { $0 <= 10 } == true)
        // The last good one is at second 19 at the latest.
        #expect(noise(duration, good: 19).map { 20...(19 + duration + 10) ~= $0 } == true)
        #expect(noise(duration, good: 60) == nil)
        #expect(noise(duration, good: 0, isBusy: true) == nil)
    }

    /// An init segment has come to its end, and the first segment is waited for.
    @Test func oneSegmentIsNotEnough() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(target: 10), at: 0)
        stillness.didFetch("http://a/init.mp4", at: 0)
        stillness.didComplete()
        #expect(verdict(of: &stillness, from: 0) == End(verdict: .hasStopped, time: 30))
    }

    @Test func aRefreshThatIsAwaitedIsNoReason() {
        var stillness = Stillness()
        for _ in 0..<2 { stillness.didComplete() }
        for time in 1...(7 as UInt64) {
            #expect(stillness.verdict(isBusy: true, isRefreshAwaited: true, at: time * Self.second) == .none)
        }
        #expect(stillness.verdict(isBusy: true, isRefreshAwaited: true, at: 8 * Self.second) == .hasStopped)
    }

    /// Output waits for any other playlist, also if it was read before and is asked for again.
    @Test func whatIsLiveIsAskedForAgain() {
        var stillness = Stillness()
        #expect(!stillness.isLive("v"))
        stillness.didRead("v", Self.refresh(target: 6), at: 0)
        #expect(stillness.isLive("v") && !stillness.isLive("a"))
        stillness.didRead("v", Self.refresh(isEnded: true), at: Self.second)
        #expect(!stillness.isLive("v"))
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

    /// A player that pauses until enough is buffered takes nothing, and waits for the end.
    @Test(arguments: [(true, "2.ts", 14), (false, "2.ts", nil), (true, "1.ts", nil)] as [(Bool, String, UInt64?)])
    func theEndIsToldToAPlayerThatTakesNothing(isHeldUp: Bool, last: String, expected: UInt64?) {
        var stillness = Self.ended()
        var verdicts = (10...40 as ClosedRange<UInt64>).map { time in
            if time == 11 { stillness.didFetch("http://a/\(last)", at: 11 * Self.second) }
            return stillness.verdict(isBusy: true, isHeldUp: isHeldUp, at: time * Self.second)
        }
        #expect(verdicts.firstIndex(of: .isAtEnd).map { UInt64($0) + 10 } == expected)
        verdicts.removeAll { $0 == .none }
        #expect(verdicts.count == (expected == nil ? 0 : 1), "told once")
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

    /// What a live manifest has next comes when it comes, also before anything has come out.
    @Test(arguments: [false, true]) func aLiveManifestMayStandStill(hasOutput: Bool) {
        var stillness = Stillness()
        stillness.setOpenEnded()
        stillness.didFetch("http://a/1.m4s", at: 0)
        stillness.didComplete()
        if hasOutput { stillness.didMove(at: 0) }
        #expect(verdict(of: &stillness, from: 1) == nil)
        // One that has come to its end still has to become media.
        stillness.didComplete()
        #expect(hasOutput || verdict(of: &stillness, from: 61)?.verdict == .hasStopped)
    }

    /// If segments are there, the first one is asked for.
    @Test func aLiveManifestWithSegmentsHasToBegin() {
        var stillness = Stillness()
        stillness.setOpenEnded()
        stillness.expectStart()
        // A request that is under way, such as for a slow first segment, is a reason.
        #expect(verdict(of: &stillness, from: 0) { $0 == 10 } == End(verdict: .hasNotBegun, time: 30))
        stillness.didFetch("http://a/1.m4s", at: 31 * Self.second)
        #expect(verdict(of: &stillness, from: 31) == nil)
    }

    /// Segments of a live presentation that come to their ends have to become something.
    @Test func segmentsOfALiveManifestMustBecomeMedia() {
        var stillness = Stillness()
        stillness.setOpenEnded()
        for time in 0...7 {
            stillness.didFetch("http://a/\(time).m4s", at: UInt64(time) * Self.second)
            stillness.didComplete()
            #expect(stillness.verdict(isBusy: false, at: UInt64(time) * Self.second) == .none)
        }
        #expect(verdict(of: &stillness, from: 8) == End(verdict: .hasStopped, time: 8))
    }

    /// A live presentation with long segments comes to noise: each role's first one is enough.
    @Test func oneWholeSegmentOfEachRoleIsEnough() {
        var stillness = Stillness()
        let start = 20 * Self.second
        for (name, role) in [("v", .variant), ("en", .audio)] as [(String, HLSRewriting.Child.Role)] {
            stillness.didRead(name, Self.refresh(target: 10, role: role, inits: ["init"], "init", name), at: start)
        }
        stillness.didMove(at: start)
        stillness.didFetch("http://a/v", at: start)
        stillness.didComplete("http://a/v", since: stillness.moves)
        var other = stillness
        // The sound may be late, and the pictures wait for it.
        #expect(verdict(of: &other, from: 21)?.time == 50)
        stillness.didComplete("http://a/en", since: stillness.moves)
        #expect(verdict(of: &stillness, from: 21) == End(verdict: .hasStopped, time: 27))
    }

    /// What came out may be of the segment itself, or the segment an init segment.
    @Test(arguments: ["init", "v"]) func oneSegmentThatMayHavePlayedIsNotEnough(name: String) {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(target: 60, inits: ["init"], "init", "v"), at: 20 * Self.second)
        let begin = stillness.moves
        stillness.didMove(at: 20 * Self.second)
        stillness.didFetch("http://a/\(name)", at: 20 * Self.second)
        stillness.didComplete("http://a/\(name)", since: name == "init" ? stillness.moves : begin)
        #expect(verdict(of: &stillness, from: 21) == nil)
    }

    /// The demuxer fetches three segments again and again.
    @Test func whatIsFetchedAgainAndAgainIsAFailure() {
        var stillness = Stillness()
        stillness.didRead("v", Self.refresh(isEnded: true, "1.ts", "2.ts", "3.ts"), at: 0)
        #expect(Self.fetches(of: &stillness, count: 1000) { ("http://a/\($0 % 3).ts", nil) } == .isRepeating)
        // With a seek now and then, it may.
        var sought = Stillness()
        sought.didRead("v", Self.refresh(isEnded: true, "1.ts", "2.ts", "3.ts"), at: 0)
        for _ in 0..<20 {
            #expect(Self.fetches(of: &sought, count: 60) { ("http://a/\($0 % 3).ts", nil) } == .none)
            sought.didSeek()
        }
    }

    @Test func rangesOfOneFileAreSegmentsOfTheirOwn() {
        func verdict(ranges: Int) -> Stillness.Verdict {
            var stillness = Stillness()
            var refresh = Self.refresh(isEnded: true, inits: ["v.mp4"], "v.mp4")
            refresh.count = 100
            stillness.didRead("v", refresh, at: 0)
            return Self.fetches(of: &stillness, count: 1000) { ("http://a/v.mp4", "bytes \($0 % ranges)-/1000") }
        }
        #expect(verdict(ranges: 1000) == .none)
        #expect(verdict(ranges: 3) == .isRepeating)
    }

    /// A playlist may name one segment many times, and init segments come again with each change.
    @Test func aPlaylistMayRepeatItself() {
        var stillness = Stillness()
        var refresh = Self.refresh(isEnded: true, inits: ["init"], "init", "slate.ts")
        refresh.count = 500
        stillness.didRead("v", refresh, at: 0)
        #expect(Self.fetches(of: &stillness, count: 498) { _ in ("http://a/slate.ts", nil) } == .none)
        for url in ["http://a/init", "http://127.0.0.1/note"] {
            #expect(Self.fetches(of: &stillness, count: 5000) { _ in (url, nil) } == .none)
        }
        #expect(Self.fetches(of: &stillness, count: 5000) { _ in ("http://a/slate.ts", nil) } == .isRepeating)
    }

    /// In DASH, they are segments as any others. A long film may change to and fro all the time.
    @Test func initSegmentsComeAgainWithEachChangeOfTheRepresentation() {
        var stillness = Stillness()
        let film = Self.fetches(of: &stillness, count: 16_000) {
            ("http://a/\($0 % 16 == 15 ? "init-1" : $0 % 16 == 7 ? "init-2" : "\($0)").m4s", nil)
        }
        #expect(film == .none)
        #expect(Self.fetches(of: &stillness, count: 30_000) { ("http://a/\($0 % 16).m4s", nil) } == .isRepeating)
    }

    @Test(arguments: [false, true]) func aLivePresentationMayRepeatItself(isOpenEnded: Bool) {
        var stillness = Stillness()
        if isOpenEnded {
            stillness.setOpenEnded()
        } else {
            stillness.didRead("v", Self.refresh("slate.ts"), at: 0)
        }
        #expect(Self.fetches(of: &stillness, count: 5000) { _ in ("http://a/slate.ts", nil) } == .none)
        // But something has to come of it.
        for _ in 0...200 { stillness.didComplete("http://a/slate.ts") }
        #expect(stillness.verdict(isBusy: true, at: Self.second) == .isRepeating)
    }

    /// On a machine that is busy, time counts as a part of it.
    @Test func slowTimeIsLonger() {
        func time(isSlow: (UInt64) -> Bool) -> UInt64? {
            var stillness = Stillness()
            stillness.didRead("v", Self.refresh(isEnded: true), at: 0)
            stillness.didFetch("http://a/1.ts", at: 0)
            stillness.didComplete()
            return (0...100 as ClosedRange<UInt64>).first {
                stillness.verdict(isBusy: false, isSlow: isSlow($0), at: $0 * Self.second) == .hasStopped
            }
        }
        #expect(time { _ in false } == 8)
        #expect(time { _ in true } == 32)
        #expect(time { $0 <= 20 } == 23)
    }

    @Test func slowLooksCountLess() {
        func looks(isSlow: Bool) -> Int? {
            var looks = MuteLooks()
            return (1...100).first { _ in
                looks.look(isMute: true, completed: 2, isEnded: false, isOpenEnded: false, isSlow: isSlow)
            }
        }
        #expect(looks(isSlow: false) == MuteLooks.limit + 1)
        #expect(looks(isSlow: true) == MuteLooks.limit * ProcessorWait.factor + 1)
    }

    /// The verdict after so many fetches, each as `one` says, within a second, while something comes out.
    private static func fetches(
        of stillness: inout Stillness, count: Int, _ one: (Int) -> (url: String, range: String?)
    ) -> Stillness.Verdict {
        for number in 0..<count {
            let (url, range) = one(number)
            stillness.didFetch(url, at: second)
            stillness.didComplete(url, range: range)
        }
        stillness.didMove(at: second)
        return stillness.verdict(isBusy: false, at: second)
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
        inits: [String] = [], _ names: String...
    ) -> Stillness.Refresh {
        let urls = names.map { "http://a/\($0)" }
        return Stillness.Refresh(
            isEnded: isEnded, target: target, role: role, urls: Set(urls), inits: Set(inits.map { "http://a/\($0)" }),
            count: names.count - inits.count, last: Set(urls.suffix(1)), lastNumber: UInt64(urls.count),
            isDelta: isDelta)
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

extension StillnessTests {
    // MARK: What a presentation's requests are

    @Test func theThreadWithAnswersAtEachInputIsTheOwn() {
        var threads = OwnThreads()
        threads.look([1, 2], hasInput: true)
        #expect(threads.known == [1, 2])
        #expect(threads.only(among: [1]) == nil)
        threads.look([1], hasInput: false)
        #expect(threads.known == [1, 2])
        threads.look([], hasInput: true)
        #expect(threads.known == [1])
        #expect(threads.only(among: [1, 2]) == 1)
    }

    /// The answer comes in one look and its bytes in the next one, in which another player has an answer.
    @Test func anAnswerMayComeALookBeforeItsInput() {
        var threads = OwnThreads()
        threads.look([1], hasInput: false)
        #expect(threads.known == nil)
        threads.look([2], hasInput: true)
        #expect(threads.known == [1, 2])
        threads.look([1], hasInput: true)
        threads.look([], hasInput: false)
        threads.look([1], hasInput: true)
        #expect(threads.known == [1])
        // A demuxer may get another thread.
        threads.look([], hasInput: false)
        threads.look([3], hasInput: false)
        threads.look([2], hasInput: true)
        #expect(threads.known == [2, 3])
    }

    @Test func beforeTheFirstInputOneThreadMayBeTheOnlyOne() {
        var threads = OwnThreads()
        #expect(threads.only(among: []) == nil)
        #expect(threads.only(among: [1]) == 1)
        #expect(threads.only(among: [1, 2]) == nil)
        threads.look([2], hasInput: false)
        #expect(threads.only(among: [1]) == nil)
    }

    @Test(arguments: [
        ("application/dash+xml", true), ("Application/DASH+XML; charset=utf-8", true),
        ("application/vnd.ms-sstr+xml", true), ("video/mp4", false), (nil, false),
    ]) func manifestsAreToldByTheirType(type: String?, isManifest: Bool) {
        #expect(StillnessWatch.Request.isManifest(type: type) == isManifest)
    }

    // MARK: Streams of which nothing comes out

    /// The number of the first look, of twenty, that says so.
    private func firstMuteLook(
        isOpenEnded: Bool, isEnded: Bool = false, completed: (Int) -> Int, isMute: (Int) -> Bool = { _ in true }
    ) -> Int? {
        var looks = MuteLooks()
        return (1...20).first {
            looks.look(isMute: isMute($0), completed: completed($0), isEnded: isEnded, isOpenEnded: isOpenEnded)
        }
    }

    @Test func aStreamMayBeMuteForEightLooks() {
        #expect(firstMuteLook(isOpenEnded: false, completed: { _ in 2 }) == 9)
        #expect(firstMuteLook(isOpenEnded: false, completed: { _ in 1 }) == nil)
        // A reason at the fifth look.
        #expect(firstMuteLook(isOpenEnded: false, completed: { _ in 2 }, isMute: { $0 != 5 }) == 14)
        for isOpenEnded in [false, true] {
            #expect(firstMuteLook(isOpenEnded: isOpenEnded, isEnded: true, completed: { _ in 0 }) == 2)
        }
    }

    /// Two init segments come to their ends, and the first segment is waited for at the live edge.
    @Test func atALiveEdgeSegmentsHaveToCome() {
        #expect(firstMuteLook(isOpenEnded: true, completed: { _ in 2 }) == nil)
        #expect(firstMuteLook(isOpenEnded: true, completed: { $0 + 1 }) == 9)
        #expect(firstMuteLook(isOpenEnded: true, completed: { 1 + ($0 + 1) / 2 }) == 17)
    }

    @Test func whatAnElementInsideHasSaidIsTheCauseForAWhile() {
        let error = InsideError(text: "x", time: 100 * Self.second)
        #expect(error.text(at: 114 * Self.second) == "x")
        #expect(error.text(at: 115 * Self.second) == nil)
    }
}

/// When a thread counts as one that waits for a processor.
@Suite struct ProcessorWaitTests {
    private static let second: UInt64 = 1_000_000_000

    @Test func aThreadThatWaitsMostOfTheTimeIsTold() {
        var wait = ProcessorWait()
        // What was before the first look says nothing.
        #expect(!wait.look(at: 0) { [1: 9 * Self.second] })
        #expect(!wait.look(at: Self.second) { [1: 9 * Self.second + Self.second / 2] })
        #expect(wait.look(at: 2 * Self.second) { [1: 9 * Self.second, 2: 0] } == false)
        #expect(wait.look(at: 3 * Self.second) { [1: 9 * Self.second, 2: 600_000_000] })
        // A new thread, and one that has gone.
        #expect(!wait.look(at: 4 * Self.second) { [3: 50 * Self.second] })
    }

    @Test func looksThatAreCloseHaveOneAnswer() {
        var wait = ProcessorWait()
        _ = wait.look(at: 0) { [1: 0] }
        #expect(wait.look(at: Self.second) { [1: Self.second] })
        #expect(
            wait.look(at: Self.second + 1) {
                Issue.record("it looks again"); return [:]
            })
    }

    @Test func looksThatAreFarApartSayNothing() {
        var wait = ProcessorWait()
        _ = wait.look(at: 0) { [1: 0] }
        #expect(!wait.look(at: 10 * Self.second) { [1: 10 * Self.second] })
        #expect(wait.look(at: 11 * Self.second) { [1: 11 * Self.second] })
    }

    @Test func theSecondNumberIsTheWait() {
        #expect(ProcessorWait.wait(in: Array("12 51196 3\n".utf8)) == 51196)
        for text in ["", "12", "a b c", "1 99999999999999999999999 2"] {
            #expect(ProcessorWait.wait(in: Array(text.utf8)) == nil)
        }
    }
}
