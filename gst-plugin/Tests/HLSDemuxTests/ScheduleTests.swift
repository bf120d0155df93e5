// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyElements
@testable import LatchkeyManifests

/// Which keys are asked for when, and how long they are needed.
@Suite(.timeLimit(.minutes(8)))
struct HLSScheduleTests {
    /// Segments of two seconds, `size` of them under each key.
    private func rewriting(
        keys: Range<Int>, size: Int = 1, first: UInt64 = 0, isEnded: Bool = true, prefix: String = "skd://"
    ) -> HLSRewriting {
        var rewriting = HLSRewriting(kind: .media)
        rewriting.firstSegment = first
        rewriting.durations = Array(repeating: 2, count: keys.count * size)
        rewriting.targetDuration = 2
        rewriting.isEnded = isEnded
        for (index, key) in keys.enumerated() {
            let number = first + UInt64(index * size)
            rewriting.keys.append(
                HLSRewriting.KeyUse(
                    key: self.key(key, prefix), decryptor: .element, segments: number...(number + UInt64(size) - 1),
                    start: Double(2 * index * size), end: Double(2 * (index + 1) * size)))
        }
        return rewriting
    }

    private func key(_ number: Int, _ prefix: String = "skd://") -> HLSKey {
        HLSKey(method: .sampleAES, uri: "\(prefix)\(number)", keyFormat: HLSKeyFormat.fairPlay.name)
    }

    private func uris(_ keys: [HLSKey]) -> [String] { keys.compactMap(\.uri) }

    /// The key that a complete presentation begins with, and all at the end of a live one.
    @Test func whatAPlaylistCannotBePlayedWithout() {
        var schedule = HLSKeySchedule()
        #expect(schedule.firstKeys(of: "v").isEmpty)
        _ = schedule.update(rewriting(keys: 0..<9), of: "v")
        #expect(uris(schedule.firstKeys(of: "v")) == ["skd://0"])
        _ = schedule.didFetch(key(2))
        _ = schedule.update(rewriting(keys: 0..<9), of: "v")
        #expect(uris(schedule.firstKeys(of: "v")) == ["skd://2"])
        _ = schedule.update(rewriting(keys: 0..<9, isEnded: false), of: "live")
        #expect(uris(schedule.firstKeys(of: "live")) == ["skd://5", "skd://6", "skd://7", "skd://8"])
    }

    @Test func aCompletePresentationNamesItsKeysLittleByLittle() {
        var schedule = HLSKeySchedule()
        #expect(uris(schedule.update(rewriting(keys: 0..<200), of: "v")) == ["skd://0", "skd://1", "skd://2"])
        #expect(schedule.didFetch(key(0)).isEmpty)
        #expect(uris(schedule.didFetch(key(1))) == ["skd://3"])
        // A seek.
        #expect(uris(schedule.didFetch(key(100))) == ["skd://101", "skd://102"])
        #expect(uris(schedule.didFetch(key(199))) == [])
        #expect(schedule.didFetch(key(500)).isEmpty)
    }

    @Test func anotherRenditionBeginsWhereTheLastOneIs() {
        var schedule = HLSKeySchedule()
        _ = schedule.update(rewriting(keys: 0..<50), of: "v")
        _ = schedule.didFetch(key(20))
        let keys = schedule.update(rewriting(keys: 0..<50, prefix: "skd://b/"), of: "b")
        #expect(uris(keys) == ["skd://b/20", "skd://b/21", "skd://b/22"])
    }

    @Test func aLivePlaylistNamesTheKeysAtItsEnd() {
        var schedule = HLSKeySchedule()
        let keys = schedule.update(rewriting(keys: 0..<100, isEnded: false), of: "v")
        #expect(uris(keys) == (96..<100).map { "skd://\($0)" })
        // The next refresh has one segment more; nothing is asked for again.
        var next = rewriting(keys: 1..<101, first: 1, isEnded: false)
        #expect(uris(schedule.update(next, of: "v")) == ["skd://100"])
        next.upcomingKey = key(101)
        #expect(uris(schedule.update(next, of: "v")) == ["skd://101"])
        #expect(schedule.update(next, of: "v").isEmpty)
        // Who goes back in the window needs the next keys there.
        #expect(uris(schedule.didFetch(key(10))) == ["skd://11", "skd://12"])
    }

    @Test func twoKeysInTurnDoNotLeadToTheEnd() {
        var schedule = HLSKeySchedule()
        var playlist = HLSRewriting(kind: .media)
        playlist.isEnded = true
        for number in 0..<40 {
            playlist.keys.append(
                HLSRewriting.KeyUse(
                    key: key(number % 2 == 0 ? 0 : number), decryptor: .element,
                    segments: UInt64(number)...UInt64(number), start: Double(number), end: Double(number + 1)))
        }
        #expect(uris(schedule.update(playlist, of: "v")) == ["skd://0", "skd://1"])
        #expect(schedule.didFetch(key(0)).isEmpty)
        #expect(uris(schedule.didFetch(key(1))) == ["skd://3"])
        #expect(schedule.didFetch(key(0)).isEmpty)
        #expect(uris(schedule.didFetch(key(3))) == ["skd://5"])
    }

    @Test func aMasterPlaylistsSessionKeysAreAskedForUnlessTheyAreFetchedInNoTime() {
        var schedule = HLSKeySchedule()
        var master = HLSRewriting(kind: .master)
        master.sessionKeys = [key(1), HLSKey(method: .aes128, uri: "https://a.test/key")]
        #expect(uris(schedule.update(master, of: "m")) == ["skd://1"])
    }

    @Test func aKeyIsNeededUntilItsLastSegmentIsShown() {
        var timeline = HLSTimeline()
        timeline.update(rewriting(keys: 0..<3, size: 2), of: "v")
        #expect(timeline.needs("skd://0", at: 4.9))
        // A second is left for playlists that are not exact.
        #expect(!timeline.needs("skd://0", at: 5.1))
        #expect(timeline.needs("skd://1", at: 5.1))
        #expect(!timeline.needs("skd://2", at: 13.5))
        // Who knows.
        #expect(timeline.needs("skd://9", at: 1000))
    }

    @Test func aLivePlaylistSlidesOn() {
        var timeline = HLSTimeline()
        timeline.update(rewriting(keys: 0..<5, first: 100, isEnded: false), of: "v")
        timeline.update(rewriting(keys: 3..<8, first: 103, isEnded: false), of: "v")
        #expect(!timeline.needs("skd://2", at: 7.1))
        #expect(timeline.needs("skd://7", at: 16.9))
        #expect(!timeline.needs("skd://7", at: 17.1))
        // A gap: nobody knows when that is.
        timeline.update(rewriting(keys: 50..<55, first: 150, isEnded: false), of: "v")
        #expect(timeline.needs("skd://50", at: 1e9))
    }

    /// A live playlist with other keys of long URIs at each refresh.
    @Test func longURIsThatChangeDoNotGrow() {
        var timeline = HLSTimeline()
        let prefix = "skd://" + String(repeating: "a", count: 60_000)
        for refresh in 0..<200 {
            let keys = refresh * 5..<refresh * 5 + 5
            timeline.update(
                rewriting(keys: keys, first: UInt64(keys.lowerBound), isEnded: false, prefix: prefix), of: "v")
            #expect(timeline.size <= HLSTimeline.sizeLimit + 5 * 61_000)
        }
        // Those of the last refreshes are known still; what was forgotten counts as needed.
        #expect(!timeline.needs("\(prefix)999", at: 2_002))
        #expect(timeline.needs("\(prefix)0", at: 2_002))
        // What is named again at each refresh counts once.
        let size = timeline.size
        for _ in 0..<9 {
            timeline.update(rewriting(keys: 995..<1_000, first: 995, isEnded: false, prefix: prefix), of: "v")
        }
        #expect(timeline.size == size)
    }
}

/// Which playlist is given in the place of one whose keys are refused.
@Suite struct HLSVariantChoiceTests {
    /// The bit rates of the variants, whose playlists have these names; those of sound have an `a` behind. The playlists of
    /// `sounds` are for other variants, too.
    private static func choice(_ names: String, refused: String, sounds: String = "") -> HLSVariantChoice {
        var choice = HLSVariantChoice()
        choice.setVariants(
            names.split(separator: " ").map { name in
                HLSRewriting.Variant(
                    url: String(name), bitRate: UInt32(name.filter(\.isNumber)) ?? 0, hasPictures: name.last != "a")
            }, among: sounds.split(separator: " ").map { HLSRewriting.Child(url: String($0), role: .audio) })
        for name in refused.split(separator: " ") { choice.refuse(String(name)) }
        return choice
    }

    @Test(arguments: [
        // The next lower one, or else the next higher one.
        ("1 2 4", "4", "4", "2"), ("4 2 1", "4", "4", "2"), ("1 2 4", "4 2", "4", "1"), ("1 2 4", "1", "1", "2"),
        ("1 2 4", "1 2", "1", "4"),
        // None is refused, or all are.
        ("1 2 4", "", "2", "2"), ("1 2 4", "4", "2", "2"), ("1 2 4", "1 2 4", "2", "2"),
        // Pictures before sound, and sound before nothing.
        ("1a 2 4", "2", "2", "4"), ("1a 2 4", "2 4", "2", "1a"),
        // Others are no variants.
        ("1 2", "other", "other", "other"), ("1", "1", "1", "1"),
    ])
    func theOthersArePlayed(names: String, refused: String, asked: String, given: String) {
        #expect(Self.choice(names, refused: refused).playlist(for: asked) == given)
    }

    @Test(arguments: [
        ("1 2", "1", true), ("1", "1", false), ("1 1", "1", false), ("1 2", "3", false), ("", "1", false),
    ])
    func aChoiceNeedsTwo(names: String, asked: String, isOpen: Bool) {
        #expect(Self.choice(names, refused: "").isOpen(for: asked) == isOpen)
    }

    /// An error, and no pictures in the place of sound, or the other way round.
    @Test func theSoundOfOthersIsLeftAlone() {
        let choice = Self.choice("1a 2 4", refused: "1a", sounds: "1a")
        #expect(!choice.isOpen(for: "1a") && choice.isOpen(for: "2"))
        #expect(choice.playlist(for: "1a") == "1a")
        #expect(Self.choice("1a 2 4", refused: "2 4", sounds: "1a").playlist(for: "4") == "4")
        #expect(!Self.choice("1a 2", refused: "", sounds: "1a").isOpen(for: "2"))
    }

    /// Groups of sound, of which `v` is also a variant, and the playlists of refused keys: what is given. A name stands behind a
    /// colon, else all are different.
    @Test(arguments: [
        // The first of the group that is left.
        ("a b c", "a", "a", "b"), ("a b c", "b", "b", "a"), ("a b c", "a b", "b", "c"), ("a b c", "a", "c", "c"),
        // None is left, or there is none.
        ("a b", "a b", "a", "a"), ("a", "a", "a", "a"), ("a b, c d", "a b c d", "b", "b"), ("a, a", "a", "a", "a"),
        // That of the same name in another group, or else the own group, or else another one.
        ("a:en b:de, c:en d:de", "b", "b", "d"), ("a:en b:de, c:en d:de", "b d", "b", "a"),
        ("a:en b:de, c:en d:de", "a b d", "b", "c"), ("a:en b:de, c:en d:de", "c d", "d", "b"),
        ("a b, c d", "c", "c", "d"), ("a b, c d", "a b", "a", "c"), ("a, b", "a", "a", "b"), ("a, b", "b", "b", "a"),
        // One of several groups is of the first.
        ("a b, a c", "a", "a", "b"), ("b, a c, a", "a", "a", "c"),
        // Pictures are no sound, and sound is no variant.
        ("a v", "a", "a", "a"), ("a b v", "v", "v", "v"), ("a b", "w", "w", "v"), ("a b", "a b", "a", "a"),
    ])
    func otherSoundIsPlayed(groups: String, refused: String, asked: String, given: String) {
        let sounds = groups.split(separator: ",").map { group in
            group.split(separator: " ").map { sound in
                let parts = sound.split(separator: ":").map(String.init)
                return HLSRewriting.Sound(url: parts[0], name: parts[parts.count - 1])
            }
        }
        let groups = sounds.map { $0.map(\.url) }
        var choice = HLSVariantChoice()
        choice.setVariants(
            ["v", "w", "x"].map { HLSRewriting.Variant(url: $0, bitRate: 1) },
            among: groups.joined().map { HLSRewriting.Child(url: $0, role: .audio) }, soundGroups: sounds)
        for name in refused.split(separator: " ") { choice.refuse(String(name)) }
        #expect(choice.playlist(for: asked) == given)
        // It is no variant.
        #expect(groups.joined().allSatisfy { !choice.kept.contains($0) })
        #expect(choice.isSound("a") == (Set(groups.joined()).subtracting(["v"]).count > 1) && !choice.isSound("v"))
    }

    /// As a presentation searches, whose variants all have keys that are refused.
    @Test(arguments: [(10, 10), (1000, 65)]) func aSearchHasAnEnd(count: Int, expected: Int) {
        var choice = Self.choice((1...count).map(String.init).joined(separator: " "), refused: "")
        var searched: Set<String> = []
        while true {
            let source = choice.playlist(for: "5")
            searched.insert(source)
            choice.refuse(source)
            if choice.playlist(for: "5") == source { break }
        }
        #expect(searched.count == expected)
    }
}
