// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Testing

@Suite struct HLSAudioTracksTests {
    private let master = """
        #EXTM3U
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="low",NAME="Deutsch",LANGUAGE="de",DEFAULT=YES,AUTOSELECT=YES,URI="l-de.m3u8"
        #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="low",NAME="English",LANGUAGE="en",URI="s.m3u8"
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="low",NAME="English",LANGUAGE="en",AUTOSELECT=NO,URI="l-en.m3u8"
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="high",NAME="Deutsch",LANGUAGE="de",DEFAULT=YES,URI="h-de.m3u8"
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="low",NAME="Commentary",LANGUAGE="en",URI="l-co.m3u8"
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="high",NAME="English",LANGUAGE="en",URI="h-en.m3u8"
        #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="low"
        low.m3u8
        #EXT-X-STREAM-INF:BANDWIDTH=2,AUDIO="high"
        high.m3u8
        """

    /// Of each audio rendition in the order of the result, the file, with a star for the default.
    private func renditions(choosing name: String?) throws -> (files: [String], sounds: [String]) {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        rewriter.audioTrack = name
        let routes = TestRoutes()
        let (text, result) = try rewriter.rewrite(master, routes: routes)
        #expect(text.split(separator: "\n").count == 11)
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("#EXT-X-MEDIA:TYPE=AUDIO") }
        let files = try lines.map { line in
            let list = try HLSAttributeList(parsing: line.dropFirst("#EXT-X-MEDIA:".count))
            #expect(list["DEFAULT"] != "YES" || list["AUTOSELECT"] != "NO")
            guard case .playlist(let url)? = routes.resource(list["URI"] ?? "") else { return "" }
            return String(url.split(separator: "/").last?.dropLast(5) ?? "") + (list["DEFAULT"] == "YES" ? "*" : "")
        }
        let sounds = result.defaultAudio.values.map { String($0.split(separator: "/").last?.dropLast(5) ?? "") }
        return (files, sounds.sorted())
    }

    @Test(arguments: [
        (nil, ["l-de*", "l-en", "h-de*", "l-co", "h-en"], ["h-de", "l-de"]),
        ("English", ["l-en*", "l-de", "h-en*", "l-co", "h-de"], ["h-en", "l-en"]),
        // Where a group does not have the name, its own default stays.
        ("Commentary", ["l-co*", "l-de", "h-de*", "l-en", "h-en"], ["h-de", "l-co"]),
        ("EN", ["l-en*", "l-de", "h-en*", "l-co", "h-de"], ["h-en", "l-en"]),
        ("Suomi", ["l-de*", "l-en", "h-de*", "l-co", "h-en"], ["h-de", "l-de"]),
    ])
    func theChosenRenditionIsTheFirstAndTheDefault(name: String?, files: [String], sounds: [String]) throws {
        let found = try renditions(choosing: name)
        #expect(found.files == files)
        #expect(found.sounds == sounds)
    }

    /// As for a demuxer that plays the last track of a language in the place of each.
    @Test(arguments: [
        (false, ["de", "en", "de", "en", "en"]), (true, ["de", "en", "de", "-", "en"]),
    ])
    func aLanguageIsToldOnceInAGroup(isOnce: Bool, languages: [String]) throws {
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        rewriter.tellsLanguagesOnce = isOnce
        let text = try rewriter.rewrite(master, routes: TestRoutes()).text
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("#EXT-X-MEDIA:TYPE=AUDIO") }
        let lists = try lines.map { try HLSAttributeList(parsing: $0.dropFirst("#EXT-X-MEDIA:".count)) }
        #expect(lists.map { $0["LANGUAGE"] ?? "-" } == languages)
        #expect(lists.map { $0["NAME"] } == ["Deutsch", "English", "Deutsch", "Commentary", "English"])
        rewriter.audioTrack = "Commentary"
        let chosen = try rewriter.rewrite(master, routes: TestRoutes()).text.split(separator: "\n")
        #expect(chosen[1].contains("LANGUAGE=\"en\"") && chosen[1].contains("NAME=\"Commentary\""))
        #expect(chosen[5].contains("NAME=\"English\"") && chosen[5].contains("LANGUAGE") != isOnce)
    }

    @Test func namesOfSeveralGroupsAreThereOnce() throws {
        let tracks = HLSAudioTracks(try HLSPlaylist(Array(master.utf8))).tracks
        #expect(tracks.map(\.name) == ["Deutsch", "English", "Commentary"])
        #expect(tracks.map(\.language) == ["de", "en", "en"])
        let media = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.ts\n"
        #expect(HLSAudioTracks(try HLSPlaylist(Array(media.utf8))).tracks.isEmpty)
    }
}
