// SPDX-License-Identifier: MPL-2.0

import LatchkeyDiagnosis
import Foundation
import LatchkeyContainers
import Testing

/// What a clip says of its streams.
@Suite struct ClipStreamTests {
    private func box(_ type: String, _ body: [UInt8]) -> [UInt8] {
        let size = UInt32(body.count + 8)
        return [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: size >> $0) } + Array(type.utf8) + body
    }

    private func track(_ handler: String, _ entries: [UInt8]) -> [UInt8] {
        let description = box("stsd", [UInt8](repeating: 0, count: 8) + entries)
        let handler = box("hdlr", [UInt8](repeating: 0, count: 8) + Array(handler.utf8) + [0])
        return box("trak", box("mdia", handler + box("minf", box("stbl", description))))
    }

    @Test func theEntriesOfAMovieAreRead() throws {
        let protected = box("encv", [UInt8](repeating: 0, count: 78) + box("sinf", box("frma", Array("hvc1".utf8))))
        let bytes = box(
            "moov",
            track("vide", protected) + track("soun", box("mp4a", [UInt8](repeating: 0, count: 28)))
                + track("text", box("tx3g", [])) + track("vide", box("abcd", [])))
        let streams = try ClipStream.streams(ofMovie: bytes)
        #expect(streams.map(\.name) == ["hvc1", "mp4a", "abcd"])
        #expect(streams.map(\.isProtected) == [true, false, false])
        #expect(streams[0].caps?.hasPrefix("video/x-h265") == true)
        #expect(streams[1].caps?.hasPrefix("audio/mpeg") == true)
        #expect(streams[2].caps == nil)
    }

    @Test func brokenMoviesThrowAndNeverTrap() {
        let good = box("moov", track("vide", box("avc1", [UInt8](repeating: 7, count: 20))))
        for count in 0..<good.count { _ = try? ClipStream.streams(ofMovie: Array(good.prefix(count))) }
        for index in good.indices {
            for value: UInt8 in [0, 1, 0x7f, 0xff] {
                var bytes = good
                bytes[index] = value
                _ = try? ClipStream.streams(ofMovie: bytes)
            }
        }
        #expect(throws: FormatError.self) { try ClipStream.streams(ofMovie: [0, 0, 0, 9, 1, 1, 1, 1]) }
    }

    @Test func manifestsNameTheirCodecs() throws {
        let hls = """
            #EXTM3U
            #EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI="skd://x"
            #EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1x1
            a.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=2,CODECS="hvc1.1.6.L93.B0,mp4a.40.2"
            b.m3u8
            """
        let streams = try #require(ClipStream.streams(ofManifest: hls))
        #expect(streams.map(\.name) == ["avc1.64001f", "mp4a.40.2", "hvc1.1.6.L93.B0"])
        #expect(streams.allSatisfy { $0.isProtected })
        let dash = #"<MPD xmlns="u"><Representation id="1" codecs="av01.0.04M.08" /></MPD>"#
        #expect(ClipStream.streams(ofManifest: dash)?.map(\.name) == ["av01.0.04M.08"])
        #expect(ClipStream.streams(ofManifest: dash)?.first?.isProtected == false)
        let smooth = #"<SmoothStreamingMedia><QualityLevel FourCC="H264"/><QualityLevel FourCC="AACL"/>"#
        #expect(ClipStream.streams(ofManifest: smooth)?.compactMap(\.caps).count == 2)
        #expect(ClipStream.streams(ofManifest: "#EXTM3U\n#EXTINF:1,\na.ts") == [])
        #expect(ClipStream.streams(ofManifest: "ftypmp42") == nil)
    }

    @Test(arguments: [
        ("h264", "h264"), ("AVC1.64001f", "h264"), ("hev1.1.6", "h265"), ("av01.0", "av1"), ("vp09.00", "vp9"),
        ("Opus", "opus"), ("fLaC", "flac"), ("ec-3", "eac3"), (".mp3", "mp3"), ("mp4a.40.2", "aac"),
    ])
    func codecsHaveManyNames(code: String, name: String) {
        #expect(ClipCodec.of(code)?.name == name)
    }

    @Test func everyCodecKnowsItsOwnName() {
        for codec in ClipCodec.all { #expect(ClipCodec.of(codec.name) == codec) }
        #expect(ClipCodec.of("") == nil)
        #expect(ClipCodec.of("theora") == nil)
    }

    @Test func devicesAreListed() throws {
        let folder = NSTemporaryDirectory() + "latchkey-devices-\(ProcessInfo.processInfo.globallyUniqueString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: "\(folder)/dri", withIntermediateDirectories: true)
        for name in ["dri/renderD128", "dri/card0", "nvidia0", "nvidiactl", "nvidia-uvm", "video3", "videos"] {
            try Data().write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
        }
        let nodes = DeviceNodes(folder: folder)
        #expect(nodes.renderNodes.map(\.path) == ["\(folder)/dri/renderD128"])
        #expect(nodes.nvidia.map(\.path) == ["\(folder)/nvidia0"])
        #expect(nodes.video.map(\.path) == ["\(folder)/video3"])
        #expect(nodes.section.findings.map(\.level) == [.fact, .fact, .fact])
        let nothing = DeviceNodes(folder: "\(folder)/none").section.findings
        #expect(nothing.count == 3 && nothing.allSatisfy { $0.text.hasPrefix("no ") })
    }
}
