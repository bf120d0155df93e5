// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyManifests
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

/// What all playlists of a presentation may take together.
@Suite(.timeLimit(.minutes(8)))
struct HLSPlaylistBudgetTests {
    @Test func aPlaylistMayTakeWhatTheOthersLeave() {
        var budget = HLSPlaylistBudget(limit: 100)
        #expect(budget.room(for: "v", as: .variant) == 100)
        _ = budget.didRead("v", as: .variant, size: 70)
        #expect(budget.room(for: "a", as: .audio) == 30)
        // A refresh takes the place of the version before, and one of the same role may do so.
        #expect(budget.room(for: "v", as: .variant) == 100 && budget.room(for: "w", as: .variant) == 100)
        _ = budget.didRead("v", as: .variant, size: 20)
        _ = budget.didRead("a", as: .audio, size: 60)
        #expect(budget.room(for: "t", as: .subtitles) == 20)
        _ = budget.didRead("t", as: .subtitles, size: 200)
        #expect(budget.room(for: "v", as: .variant) == 0)
    }

    /// Those that were read longest ago go first, and none goes without need.
    @Test func playlistsOfTheSameRoleMakeRoom() {
        var budget = HLSPlaylistBudget(limit: 100)
        func forgotten(by name: String, _ role: HLSRewriting.Child.Role?, _ size: Int) -> [String] {
            budget.didRead(name, as: role, size: size)
        }
        for (name, size) in [("1", 20), ("2", 30), ("1", 20)] { #expect(forgotten(by: name, .variant, size) == []) }
        #expect(forgotten(by: "a", .audio, 30) == [])
        #expect(forgotten(by: "3", .variant, 40) == ["2"])
        #expect(forgotten(by: "4", .variant, 70) == ["1", "3"])
        #expect(budget.room(for: "4", as: .variant) == 70)
        #expect(budget.room(for: "x", as: nil) == 0)
        #expect(forgotten(by: "x", nil, 10) == [])
        #expect(budget.room(for: "4", as: .variant) == 60)
    }

    private func media(_ letter: String, _ count: Int) -> [UInt8] {
        var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=AES-128,URI=\"key\"\n"
        for number in 0..<count { text += "#EXTINF:2,\n\(letter)\(number).ts\n" }
        return Array((text + "#EXT-X-ENDLIST\n").utf8)
    }

    /// A variant takes the place of another one, and the sound has none to take.
    @Test func whatDoesNotFitTakesAPlaceOrIsRefused() throws {
        // Of some 230 segments.
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(1)), keyFormats: [.identity],
            memoryLimit: 1 << 16)
        try presentation.open { _ in }
        defer { presentation.close() }
        let master = """
            #EXTM3U
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="g",NAME="n",URI="a.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=2,AUDIO="g"
            v.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="g"
            w.m3u8
            """
        _ = try presentation.rewrite(Array(master.utf8), from: "https://a.test/master.m3u8")
        func read(_ letter: String, _ count: Int) throws -> HLSRewriting {
            try presentation.rewrite(media(letter, count), from: "https://a.test/\(letter).m3u8")
        }
        func isServed(_ rewriting: HLSRewriting) -> Bool {
            rewriting.resources.allSatisfy { presentation.table.knownName(of: $0) != nil }
        }
        let (first, sound) = (try read("v", 100), try read("a", 100))
        #expect(isServed(first) && isServed(sound))
        let second = try read("w", 100)
        #expect(isServed(second) && isServed(sound))
        #expect(first.resources.allSatisfy { presentation.table.knownName(of: $0) == nil })
        let count = presentation.table.count
        let error = #expect(throws: HLSFailure.self) { _ = try read("a", 200) }
        #expect(error?.text.contains("a.m3u8") == true && error?.text.contains("playlist-memory") == true)
        // The one that plays goes on if another one would not even fit in its place.
        #expect(throws: HLSFailure.self) { _ = try read("v", 300) }
        #expect(presentation.table.count == count)
        #expect(isServed(second) && isServed(sound))
        // The first one comes back.
        let third = try read("v", 100)
        #expect(isServed(third) && isServed(sound))
    }

    @Test func aResourceHasOneName() {
        let table = HLSResourceTable()
        let resource = HLSResource.playlist(url: "https://a.test/1")
        #expect(table.knownName(of: resource) == nil)
        #expect(table.name(of: resource) == "p1" && table.knownName(of: resource) == "p1")
        #expect(table.resource("p1") == resource)
        for name in ["", "p", "1", "s1", "p01", "p+1", "p-1", "p1 ", "pp1", "p2", "p99999999999999999999"] {
            #expect(table.resource(name) == nil, "\(name)")
        }
        table.forgetUnused()
        #expect(table.resource("p1") == nil && table.count == 0)
        #expect(table.name(of: resource) == "p2")
    }

    @Test func aPlaylistThatIsForgottenLeavesWhatAnotherHas() {
        let table = HLSResourceTable()
        let resources = [1, 2].map { HLSResource.playlist(url: "https://a.test/\($0)") }
        let names = resources.map { table.name(of: $0) }
        for _ in 0..<2 { table.keep(resources, of: "a") }
        table.keep([resources[1]], of: "b")
        table.forget("a")
        #expect(table.resource(names[0]) == nil)
        #expect(table.resource(names[1]) == resources[1])
        table.forget("a")
        #expect(table.count == 1)
    }
}
