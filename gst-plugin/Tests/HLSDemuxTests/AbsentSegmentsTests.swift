// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyElements
@testable import LatchkeyManifests

/// What becomes of live segments that the origin does not have.
@Suite struct AbsentSegmentsTests {
    private static func playlist(_ urls: String..., isEnded: Bool = false) -> HLSRewriting {
        var rewriting = HLSRewriting(kind: .media)
        rewriting.urls = Set(urls)
        rewriting.lastURLs = Set(urls.suffix(1))
        rewriting.targetDuration = 2
        rewriting.isEnded = isEnded
        return rewriting
    }

    @Test func onlyOldDemuxersAreKeptFromThem() {
        #expect(AbsentSegments.isNeeded((1, 22, 12)) && AbsentSegments.isNeeded((1, 24, 0)))
        #expect(!AbsentSegments.isNeeded((1, 26, 0)) && !AbsentSegments.isNeeded((1, 28, 1)))
    }

    /// What stands in front of others, and what has left the window, is gone. The last one may be to come, for two target
    /// durations.
    @Test func theLastOneMayBeToCome() {
        var absent = AbsentSegments()
        absent.update(Self.playlist("a", "b", "c"), of: "v")
        #expect(absent.verdict(on: "a", attempt: 0) == .isLeftOut)
        #expect(absent.verdict(on: "x", attempt: 0) == .isLeftOut)
        for attempt in 0..<8 { #expect(absent.verdict(on: "c", attempt: attempt) == .isToCome(.milliseconds(500))) }
        #expect(absent.verdict(on: "c", attempt: 8) == .isLeftOut)
        absent.update(Self.playlist("b", "c", "d"), of: "v")
        #expect(absent.verdict(on: "c", attempt: 1) == .isLeftOut)
    }

    /// The last one is not waited for, and few in a row are the end.
    @Test func oneThatIsRefusedIsLeftOut() {
        var absent = AbsentSegments()
        #expect(absent.verdict(on: "a", attempt: 0, isRefused: true) == nil)
        absent.update(Self.playlist("a", "b", "c"), of: "v")
        #expect(absent.verdict(on: "a", attempt: 0, isRefused: true) == .isLeftOut)
        #expect(absent.verdict(on: "c", attempt: 0, isRefused: true) == .isLeftOut)
        absent.didCome("b")
        for url in ["a", "c"] { #expect(absent.verdict(on: url, attempt: 0, isRefused: true) == .isLeftOut) }
        #expect(absent.verdict(on: "b", attempt: 0, isRefused: true) == .isTheEnd)
        absent.didCome("b")
        for _ in 0..<4 { #expect(absent.verdict(on: "a", attempt: 0) == .isLeftOut) }
        #expect(absent.verdict(on: "a", attempt: 0, isRefused: true) == .isLeftOut)
    }

    @Test func noTargetDurationIsTooLarge() {
        var absent = AbsentSegments()
        var playlist = Self.playlist("a", "b")
        playlist.targetDuration = 1e32
        absent.update(playlist, of: "v")
        #expect(absent.verdict(on: "b", attempt: 0) == .isToCome(.seconds(15)))
    }

    @Test func whatIsNotLiveIsAnError() {
        var absent = AbsentSegments()
        #expect(absent.verdict(on: "a", attempt: 0) == nil)
        absent.update(HLSRewriting(kind: .master), of: "m")
        absent.update(Self.playlist("a", isEnded: true), of: "v")
        #expect(absent.verdict(on: "a", attempt: 0) == nil)
        absent.update(Self.playlist("a", "b"), of: "v")
        #expect(absent.verdict(on: "a", attempt: 0) == .isLeftOut)
        absent.update(Self.playlist("a", "b", isEnded: true), of: "v")
        #expect(absent.verdict(on: "a", attempt: 0) == nil)
    }

    /// Of one playlist, whatever comes of another.
    @Test(arguments: ["v1", "gone"]) func manyInARowAreTheEnd(url: String) {
        var absent = AbsentSegments()
        absent.update(Self.playlist("v1", "v2", "v3"), of: "v")
        absent.update(Self.playlist("a1", "a2"), of: "a")
        for _ in 0..<8 { #expect(absent.verdict(on: url, attempt: 0) == .isLeftOut) }
        absent.didCome("v2")
        for _ in 0..<8 {
            #expect(absent.verdict(on: url, attempt: 0) == .isLeftOut)
            if url == "v1" { absent.didCome("a1") }
        }
        #expect(absent.verdict(on: url, attempt: 0) == .isTheEnd)
    }
}
