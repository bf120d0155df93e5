// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Testing

@Suite struct DASHAudioTracksTests {
    private func set(_ attributes: String, _ content: String = "") -> String {
        "<AdaptationSet \(attributes)>\(content)</AdaptationSet>"
    }

    private var twoPeriods: [UInt8] {
        let video = set("contentType='video' lang='en' id='v'")
        let first =
            video + set("contentType='audio' lang='en' id='1'") + set("mimeType='audio/mp4' lang='en' id='2'")
            + set("lang='en' id='3'", "<Label> Commentary </Label><Representation mimeType='audio/mp4'/>")
            + set("contentType='audio' id='4'") + set("contentType='audio'")
        let second = set("contentType='audio' lang='de' id='5'") + video + set("contentType='audio' lang='en' id='6'")
        return Array("<MPD><Period>\(first)</Period><BaseURL>x/</BaseURL><Period>\(second)</Period></MPD>".utf8)
    }

    private func ids(_ bytes: [UInt8]) throws -> [[String]] {
        try XMLElement(reading: bytes, limits: .manifest).children.filter { $0.localName == "Period" }.map { period in
            period.children.map { $0[attribute: "id"] ?? "-" }
        }
    }

    @Test func eachTrackOfAPeriodHasANameOfItsOwn() throws {
        let tracks = DASHAudioTracks(try XMLElement(reading: twoPeriods, limits: .manifest))
        #expect(tracks.periods.map { $0.map(\.name) } == [["en", "en 2", "Commentary", "4", "audio"], ["de", "en"]])
        #expect(tracks.names == ["en", "en 2", "Commentary", "4", "audio", "de"])
        #expect(try DASHManifest(twoPeriods).audioTracks == tracks.periods.first)
    }

    @Test func aNameMayBeThatOfAnotherTrackWithItsNumber() throws {
        let sets = ["en", "en", "en 2", "en", "en 2", "de"].map { set("contentType='audio'", "<Label>\($0)</Label>") }
        let text = "<MPD><Period>\(sets.joined())</Period></MPD>"
        let tracks = DASHAudioTracks(try XMLElement(reading: Array(text.utf8), limits: .manifest))
        #expect(tracks.names == ["en", "en 2", "en 2 2", "en 3", "en 2 3", "de"])
    }

    @Test(arguments: [
        ("en 2", [["v", "2", "1", "3", "4", "-"], ["5", "v", "6"]]),
        ("Commentary", [["v", "3", "1", "2", "4", "-"], ["5", "v", "6"]]),
        ("audio", [["v", "-", "1", "2", "3", "4"], ["5", "v", "6"]]),
        // The first of the language.
        ("EN", [["v", "1", "2", "3", "4", "-"], ["6", "5", "v"]]),
        ("en", [["v", "1", "2", "3", "4", "-"], ["6", "5", "v"]]),
    ])
    func theChosenTrackIsInFront(name: String, order: [[String]]) throws {
        let chosen = try #require(DASHAudioTracks.manifest(twoPeriods, withFirst: name))
        #expect(try ids(chosen) == order)
    }

    @Test func whatChangesNothingIsLeftAlone() {
        for name in ["fr", "de", "v", ""] { #expect(DASHAudioTracks.manifest(twoPeriods, withFirst: name) == nil) }
        #expect(DASHAudioTracks.manifest(Array("<MPD".utf8), withFirst: "en") == nil)
        #expect(DASHAudioTracks.manifest(Array("<MPD/>".utf8), withFirst: "en") == nil)
    }
}
