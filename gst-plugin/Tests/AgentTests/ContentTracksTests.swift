// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import Latchkey

/// The tracks of content, and when which key is for them.
@Suite struct ContentTracksTests {
    private let base = "https://media.example/"

    private func inspect(
        _ name: String, _ type: ContentType, _ resources: [String: String]
    ) async throws(AgentError) -> InspectedContent {
        let all = Dictionary(uniqueKeysWithValues: resources.map { (base + $0.key, Array($0.value.utf8)) })
        return try await ContentInspector(source: ContentSource(transport: StubTransport(all))).inspect(
            base + name, type)
    }

    private func key(_ name: String) -> String {
        "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://\(name)?secret\",KEYFORMAT=\"com.apple.streamingkeydelivery\"\n"
    }

    private func fairPlay(_ name: String, _ start: Double, _ end: Double) -> KeyPeriod {
        KeyPeriod(
            start: start, end: end, method: "SAMPLE-AES", keyFormat: "com.apple.streamingkeydelivery",
            keyURI: "skd://\(name)")
    }

    /// Clear, two keys, and clear again; a tag that repeats the key begins nothing new.
    @Test func aPlaylistHasPeriodsOfKeys() async throws {
        let playlist =
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:4,\n1.mp4\n#EXTINF:2.5,\n2.mp4\n"
            + key("a") + "#EXTINF:4,\n3.mp4\n" + key("a") + "#EXTINF:4,\n4.mp4\n" + key("b") + "#EXTINF:4,\n5.mp4\n"
            + "#EXT-X-KEY:METHOD=NONE\n#EXTINF:1,\n6.mp4\n#EXT-X-ENDLIST\n"
        let content = try await inspect("a.m3u8", .hls, ["a.m3u8": playlist])
        let track = try #require(content.tracks.first)
        #expect(content.tracks.count == 1)
        #expect(
            track.keyPeriods == [
                KeyPeriod(start: 0, end: 6.5), fairPlay("a", 6.5, 14.5), fairPlay("b", 14.5, 18.5),
                KeyPeriod(start: 18.5, end: 19.5),
            ])
        #expect(track.keyPeriods.map(\.isClear) == [true, false, false, true])
    }

    @Test func aMasterPlaylistHasTracks() async throws {
        let master =
            "#EXTM3U\n#EXT-X-DEFINE:NAME=\"dir\",VALUE=\"v1\"\n"
            + "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"Deutsch\",LANGUAGE=\"de\",URI=\"{$dir}/de.m3u8\"\n"
            + "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"In the video\"\n"
            + "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"t\",NAME=\"Untertitel\",LANGUAGE=\"de\",URI=\"t.m3u8\"\n"
            + "#EXT-X-STREAM-INF:BANDWIDTH=800000,CODECS=\"avc1.4d401e,mp4a.40.2\",RESOLUTION=640x360,AUDIO=\"a\"\n"
            + "{$dir}/low.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS=\"mp4a.40.2\",AUDIO=\"a\"\nsound.m3u8\n"
        let clear = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\ns.ts\n#EXT-X-ENDLIST\n"
        let protected = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n" + key("x") + "#EXTINF:4,\ns.ts\n#EXT-X-ENDLIST\n"
        let content = try await inspect(
            "m.m3u8", .hls,
            ["m.m3u8": master, "v1/de.m3u8": clear, "v1/low.m3u8": protected, "sound.m3u8": clear])
        var sound = ContentTrack(.audio)
        (sound.name, sound.language) = ("Deutsch", "de")
        sound.keyPeriods = [KeyPeriod(start: 0, end: 4)]
        var text = ContentTrack(.text)
        (text.name, text.language) = ("Untertitel", "de")
        var video = ContentTrack(.video)
        (video.codecs, video.bitRate, video.width, video.height) = ("avc1.4d401e,mp4a.40.2", 800_000, 640, 360)
        video.keyPeriods = [fairPlay("x", 0, 4)]
        var variant = ContentTrack(.audio)
        (variant.codecs, variant.bitRate) = ("mp4a.40.2", 64_000)
        variant.keyPeriods = [KeyPeriod(start: 0, end: 4)]
        #expect(content.tracks == [sound, text, video, variant])
    }

    /// The same Representation in the next Period goes on; a change of its key is a new time.
    @Test func aManifestHasTracksOverPeriods() async throws {
        let keys = ["5ef5d7d4-385c-8a86-8582-7ce71131b939", "00112233-4455-6677-8899-aabbccddeeff"]
        func period(_ attributes: String, _ key: String?) -> String {
            let protection = key.map {
                "<ContentProtection schemeIdUri='urn:mpeg:dash:mp4protection:2011' value='cbcs' cenc:default_KID='\($0)'/>"
            }
            return "<Period \(attributes)><AdaptationSet contentType='video'>\(protection ?? "")"
                + "<Representation bandwidth='500000' codecs='avc1' width='640' height='360'/></AdaptationSet>"
                + "<AdaptationSet mimeType='audio/mp4' lang='fr'><Label>Français</Label><Representation/></AdaptationSet>"
                + "<AdaptationSet mimeType='application/mp4' codecs='wvtt'><Representation/></AdaptationSet></Period>"
        }
        let text =
            "<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' xmlns:cenc='urn:mpeg:cenc:2013' "
            + "mediaPresentationDuration='PT40S'>" + period("duration='PT10S'", nil)
            + period("duration='PT10S'", keys[0])
            + period("start='PT20S'", keys[0]) + period("start='PT30S'", keys[1]) + "</MPD>"
        let content = try await inspect("a.mpd", .dash, ["a.mpd": text])
        let identifiers = try keys.map { try #require(KeyID(hex: $0.filter { $0 != "-" })) }
        #expect(content.tracks.map(\.kind) == [.video, .audio, .text])
        let video = try #require(content.tracks.first)
        #expect(video.codecs == "avc1" && video.bitRate == 500_000 && video.width == 640 && video.height == 360)
        #expect(
            video.keyPeriods == [
                KeyPeriod(start: 0, end: 10), KeyPeriod(start: 10, end: 30, method: "cbcs", keyIDs: [identifiers[0]]),
                KeyPeriod(start: 30, end: 40, method: "cbcs", keyIDs: [identifiers[1]]),
            ])
        #expect(content.tracks[1].name == "Français" && content.tracks[1].language == "fr")
        #expect(content.tracks[1].keyPeriods == [KeyPeriod(start: 0, end: 40)])
    }

    /// A packager that encrypts and writes no EXT-X-KEY: what its init segments say counts.
    @Test func anInitSectionTellsWhatThePlaylistDoesNot() async throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../../Tests/Corpus/dash-cenc-keyrot")
        let playlist = try String(contentsOf: folder.appendingPathComponent("v.m3u8"), encoding: .utf8)
        #expect(!playlist.contains("EXT-X-KEY") && playlist.contains("EXT-X-MAP"))
        let content = try await ContentInspector(source: ContentSource(transport: StubTransport([:]))).inspect(
            folder.appendingPathComponent("v.m3u8").absoluteString, .hls)
        #expect(content.isProtected && !content.keyIDs.isEmpty && !content.needs.isEmpty)
        #expect(content.tracks.flatMap(\.keyPeriods).map(\.method) == ["cenc"])
    }

    @Test func aSmoothManifestHasAQualityEach() async throws {
        let text =
            "<SmoothStreamingMedia MajorVersion='2' MinorVersion='0' Duration='600000000'><StreamIndex Type='video'>"
            + "<QualityLevel FourCC='H264' Bitrate='300000' MaxWidth='320' MaxHeight='180'/>"
            + "<QualityLevel FourCC='AVC1' Bitrate='600000' MaxWidth='640' MaxHeight='360'/></StreamIndex>"
            + "<StreamIndex Type='audio' Name='x' Language='eng'><QualityLevel FourCC='AACL' Bitrate='64000'/>"
            + "</StreamIndex></SmoothStreamingMedia>"
        let content = try await inspect("Manifest", .smoothStreaming, ["Manifest": text])
        #expect(content.tracks.map(\.bitRate) == [300_000, 600_000, 64_000])
        #expect(content.tracks.map(\.codecs) == ["H264", "AVC1", "AACL"])
        #expect(content.tracks.map(\.width) == [320, 640, nil])
        #expect(content.tracks.map(\.language) == [nil, nil, "eng"])
        #expect(content.tracks.allSatisfy { $0.keyPeriods == [KeyPeriod(start: 0, end: 60)] })
    }
}
