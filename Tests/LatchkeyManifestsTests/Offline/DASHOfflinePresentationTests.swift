// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

struct DASHOfflinePresentationTests {
    private let url = "https://media.example/a/stream.mpd"

    private func read(_ text: String, _ selection: TrackSelection = TrackSelection()) throws -> DASHOfflinePresentation
    {
        try DASHOfflinePresentation(Array(text.utf8), from: url, selection: selection)
    }

    private func period(_ content: String, _ attributes: String = "", kind: String = "video") -> String {
        "<Period \(attributes)><AdaptationSet contentType=\"\(kind)\">\(content)</AdaptationSet></Period>"
    }

    private func manifest(_ content: String, length: String = "PT10S") -> String {
        "<MPD type=\"static\" mediaPresentationDuration=\"\(length)\">\(content)</MPD>"
    }

    @Test func numbersAndTimesOfATemplate() throws {
        let template = """
            <SegmentTemplate timescale="10" duration="40" startNumber="7" initialization="/i/$RepresentationID$" \
            media="$Number%05d$-$Time$-$Bandwidth$-$$.m4s"/><Representation id="a" bandwidth="5"/>
            """
        let presentation = try read(manifest(period(template)))
        #expect(
            presentation.pieces.map(\.url) == [
                "https://media.example/i/a", "https://media.example/a/00007-0-5-$.m4s",
                "https://media.example/a/00008-40-5-$.m4s", "https://media.example/a/00009-80-5-$.m4s",
            ])
        #expect(presentation.pieces.map(\.begin) == [.zero, .zero, .seconds(4), .seconds(8)])
        #expect(presentation.pieces.last?.duration == .seconds(2))
        #expect(presentation.duration == .seconds(10))
    }

    @Test func aTimelineRepeats() throws {
        let template = """
            <Representation id="a"><SegmentTemplate timescale="1" media="$Time$"><SegmentTimeline><S t="5" d="2" r="1"/>\
            <S d="3" r="-1"/></SegmentTimeline></SegmentTemplate></Representation>
            """
        let presentation = try read(manifest(period(template)))
        #expect(presentation.pieces.map { String($0.url.split(separator: "/").last ?? "") } == ["5", "7", "9"])
    }

    /// ISO/IEC 23009-4, at any level. Common encryption leaves the boxes as they are.
    @Test(arguments: ["urn:mpeg:dash:sea:2012", "urn:mpeg:dash:mp4protection:2011"], [false, true])
    func segmentsThatAreEncryptedAsAWholeAreKnown(_ scheme: String, _ isOfSet: Bool) throws {
        let protection = "<ContentProtection schemeIdUri=\"\(scheme)\"/>"
        let base = "<BaseURL>1.mp4</BaseURL>"
        let presentation = try read(
            manifest(
                period(
                    isOfSet
                        ? "\(protection)<Representation id=\"a\">\(base)</Representation>"
                        : "<Representation id=\"a\">\(protection)\(base)</Representation>")))
        #expect(presentation.pieces.map(\.isEncryptedAsWhole) == [scheme.contains(":sea:")])
    }

    @Test func periodsFollowEachOther() throws {
        let one = "<Representation id=\"a\"><BaseURL>1.mp4</BaseURL></Representation>"
        let two = "<Representation id=\"b\"><BaseURL>https://else.example/2.mp4</BaseURL></Representation>"
        let presentation = try read(manifest(period(one, "duration=\"PT4S\"") + period(two)))
        #expect(presentation.pieces.map(\.url) == ["https://media.example/a/1.mp4", "https://else.example/2.mp4"])
        #expect(presentation.pieces.map(\.begin) == [.zero, .seconds(4)])
        #expect(presentation.pieces.map(\.duration) == [.seconds(4), .seconds(6)])
        let text = String(decoding: presentation.serialized(until: .seconds(4)) { "loop:\($0)" }, as: UTF8.self)
        #expect(text.contains("<BaseURL>loop:https://media.example/a/1.mp4</BaseURL>"))
        #expect(!text.contains("2.mp4"))
    }

    @Test func aListHasRanges() throws {
        let list = """
            <Representation id="a"><SegmentList duration="5"><Initialization sourceURL="f" range="0-9"/>\
            <SegmentURL media="f" mediaRange="10-19"/><SegmentURL media="g"/></SegmentList></Representation>
            """
        let pieces = try read(manifest(period(list))).pieces
        #expect(pieces.map(\.byteRange?.text) == ["10@0", "10@10", nil])
        #expect(pieces.map(\.duration) == [.zero, .seconds(5), .seconds(5)])
    }

    /// GStreamer's demuxer asks for segments with the query of the nearest BaseURL, which is not at their URLs.
    @Test(arguments: [
        ("", "stream.mpd", "<SegmentTemplate duration=\"5\" media=\"$Number$\"/>"),
        ("c/d?t=1", "c/d", "<SegmentTemplate duration=\"5\" media=\"$Number$\" initialization=\"i?t=2\"/>"),
        ("c?t=1", "c", "<SegmentList duration=\"9\"><SegmentURL media=\"f?t=2\"/></SegmentList>"),
        (
            "c?t=1", "c",
            "<SegmentList duration=\"5\"><SegmentURL mediaRange=\"1-9\"/><SegmentURL media=\"f\"/></SegmentList>"
        ),
        (
            "c?t=1", "c",
            "<SegmentList duration=\"9\"><Initialization range=\"0-9\"/><SegmentURL media=\"\"/></SegmentList>"
        ),
        (
            "c?t=1", "c",
            "<SegmentTemplate duration=\"5\" media=\"$Number$?t=2\"><Initialization range=\"0-9\"/></SegmentTemplate>"
        ),
        ("c?t=1", "c?t=1", "<SegmentBase indexRange=\"10-19\"/>"), ("c?t=1", "c?t=1", ""),
    ])
    func theQueryOfTheManifestIsNotThatOfSegments(base: String, written: String, segments: String) throws {
        let base = base.isEmpty ? "" : "<BaseURL>\(base)</BaseURL>"
        let text = manifest(period("<Representation id=\"a\">\(base)\(segments)</Representation>"))
        let presentation = try DASHOfflinePresentation(
            Array(text.utf8), from: url + "?user=anna", selection: TrackSelection())
        let served = presentation.serialized(until: nil) { $0 }
        let found = String(decoding: served, as: UTF8.self)
        #expect(found.contains("<BaseURL>https://media.example/a/\(written)</BaseURL>"), "\(found)")
        // It means the same to a reader that resolves references as they are (RFC 3986).
        let again = try DASHOfflinePresentation(served, from: url + "?user=anna", selection: TrackSelection())
        #expect(again.pieces == presentation.pieces && !presentation.pieces.contains { $0.url.contains("user") })
    }

    @Test func bitRatesAndLanguagesChoose() throws {
        func set(_ kind: String, _ language: String, _ rates: [Int]) -> String {
            "<AdaptationSet contentType=\"\(kind)\" lang=\"\(language)\">"
                + rates.map {
                    "<Representation id=\"\(language)\($0)\" bandwidth=\"\($0)\"><BaseURL>\(language)\($0)</BaseURL></Representation>"
                }
                .joined() + "</AdaptationSet>"
        }
        let text = manifest(
            "<Period>\(set("video", "v", [300, 100, 200]))\(set("audio", "en", [1, 2]))\(set("audio", "de", [3]))</Period>"
        )
        func chosen(_ selection: TrackSelection) throws -> [String] {
            try read(text, selection).pieces.map { String($0.url.split(separator: "/").last ?? "") }
        }
        #expect(try chosen(TrackSelection()) == ["v300", "en2"])
        #expect(try chosen(TrackSelection(maximumBitRate: 250, audioTracks: ["de"])) == ["v200", "de3"])
        #expect(try chosen(TrackSelection(maximumBitRate: 10, audioTracks: ["en", "de"])) == ["v100", "en2", "de3"])
        #expect(try chosen(TrackSelection(audioTracks: ["fr"])) == ["v300", "en2"])
    }

    /// By the names that an application is shown, one track each; by a language that is no name, all of it.
    @Test(arguments: [
        (["en"], ["1"]), (["en 2"], ["2"]), (["Film"], ["3"]), (["fi"], ["3", "4"]), (["Film 2", "en"], ["1", "4"]),
        (["none"], ["1"]),
    ])
    func eachNameChoosesItsTrack(names: [String], kept: [String]) throws {
        func set(_ language: String, _ id: String, _ label: String = "") -> String {
            """
            <AdaptationSet contentType="audio" lang="\(language)" id="x">\(label)<Representation id="\(id)" \
            bandwidth="1"><BaseURL>\(id)</BaseURL></Representation></AdaptationSet>
            """
        }
        let label = "<Label>Film</Label>"
        let text = manifest(
            "<Period>\(set("en", "1"))\(set("en", "2"))\(set("fi", "3", label))\(set("fi", "4", label))</Period>")
        let pieces = try read(text, TrackSelection(audioTracks: names)).pieces
        #expect(pieces.map { String($0.url.split(separator: "/").last ?? "") } == kept)
    }

    @Test(
        arguments: [
            ("<MPD type=\"dynamic\"><Period/></MPD>", "unsupported"), ("<html/>", "malformed"), ("<MPD/>", "malformed"),
        ]) func refuses(text: String, kind: String)
    {
        #expect(throws: FormatError.self) { try read(text) }
        do { _ = try read(text) } catch { #expect("\(error)".contains(kind)) }
    }
}
