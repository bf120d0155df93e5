// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// Playlists that grow, and players of both kinds.
    @Suite(.timeLimit(.minutes(8))) struct LiveTests {}
}

/// A media playlist that shows one more segment with each request.
private final class GrowingPlaylist: Sendable {
    private let count = Mutex(1)
    private let lines: [String]
    private let head: String

    init(_ media: CorpusCase, _ name: String) throws {
        let text = String(decoding: try media.bytes(name), as: UTF8.self)
        let all = text.components(separatedBy: "\n")
        let first = try #require(all.firstIndex { $0.hasPrefix("#EXTINF") })
        head = all[..<first].filter { !$0.hasPrefix("#EXT-X-PLAYLIST-TYPE") }.joined(separator: "\n")
        lines = all[first...].filter { !$0.isEmpty && $0 != "#EXT-X-ENDLIST" }
    }

    func next() -> LoopbackResponse {
        let shown = count.withLock { count in
            count += 1
            return count
        }
        let isEnded = shown * 2 > lines.count
        let text = ([head] + lines.prefix(shown * 2) + (isEnded ? ["#EXT-X-ENDLIST"] : [])).joined(separator: "\n")
        return LoopbackResponse(body: Array((text + "\n").utf8))
    }
}

extension HLSDemuxTests.LiveTests {
    @Test func aLivePlaylistIsReadAgainThroughTheRewriter() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let playlist = try GrowingPlaylist(media, "v.m3u8")
        let origin = try Origin(media.folder) { $0.path == "v.m3u8" ? playlist.next() : nil }
        let playback = try HLSPlayback(
            origin, "v.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(origin.requests("v.m3u8").count >= 3)
        #expect(try playback.packets("video") == media.packets("video"))
    }

    /// Nothing said that the stream would not stay clear: its decryptor comes when it is needed.
    @Test func aLiveStreamWhoseSamplesBecomeEncryptedPlaysOn() throws {
        let whole = try CorpusCase("hls-ts-aes128-bento4"), samples = try CorpusCase("hls-ts-muxed-sampleaes-bento4")
        let asked = Mutex(0)
        func segments(_ letter: String) -> String { (0..<4).map { "#EXTINF:1,\n\(letter)\($0).ts\n" }.joined() }
        let first =
            "#EXTM3U\n#EXT-X-VERSION:5\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI=\"key.bin\"\n"
            + segments("w")
        let vectors = (0..<4).map { number in
            "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"samples.bin\",IV=0x\(String(repeating: "0", count: 31))\(number)\n"
                + "#EXTINF:1,\ns\(number).ts\n"
        }
        let more = "#EXT-X-DISCONTINUITY\n" + vectors.joined() + "#EXT-X-ENDLIST\n"
        let origin = try Origin(whole.folder) { request in
            if request.path == "live.m3u8" {
                let isFirst = asked.withLock { count in
                    count += 1
                    return count < 3
                }
                return LoopbackResponse(body: Array((isFirst ? first : first + more).utf8))
            }
            if request.path == "samples.bin" {
                return (try? samples.bytes("key.bin")).map { LoopbackResponse(body: $0) }
            }
            let folder = request.path.hasPrefix("w") ? whole : samples
            guard let number = request.path.dropFirst().first, request.path.hasSuffix(".ts") else { return nil }
            return (try? folder.bytes("segment-\(number).ts")).map { LoopbackResponse(body: $0) }
        }
        let playback = try HLSPlayback(origin, "live.m3u8")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeytsdec"))
        let expected = try whole.frames("video"), frames = playback.frames
        #expect(frames.count > expected.count && frames.suffix(expected.count) == expected[...])
    }

    /// The source fetched the playlist already, and nobody fetches it again.
    @Test func aMediaPlaylistAloneIsFetchedOnce() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin, "v.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(origin.requests("v.m3u8").count == 1)
        #expect(try playback.packets("video") == media.packets("video"))
    }

    /// decodebin handles no streams: GStreamer's older demuxer takes clear media there, as without this element.
    @Test func theOlderPlayerTakesTheOlderDemuxer() throws {
        let media = try CorpusCase("hls-ts-aes128-bento4")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin.url("stream.m3u8"), player: "playbin")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("hlsdemux"))
        #expect(try playback.frames == media.frames("video"))
    }

    @Test func aParentThatKnowsNoStreamsIsRefused() throws {
        TestProcess.prepare
        _ = try HLSPlayback("http://127.0.0.1:9/")
        let pipeline = try #require(gst_pipeline_new(nil))
        gst_object_ref_sink(pipeline)
        defer { gst_object_unref(pipeline) }
        let element = try #require(gst_element_factory_make("latchkeyhlsdemux", nil))
        gst_bin_add(ek_as_bin(pipeline), element)
        #expect(gst_element_set_state(element, GST_STATE_READY) == GST_STATE_CHANGE_FAILURE)
        let bus = MessageBus(owning: try #require(gst_element_get_bus(pipeline)))
        let error = try bus.nextError()
        #expect(error.text.contains("needs a player that handles streams"))
        #expect(error.debug.contains("playbin3"))
    }

    @Test func aMissingStockDemuxerIsNamed() async {
        await #expect(processExitsWith: .success) {
            let playback = try HLSPlayback("http://127.0.0.1:9/")
            let factory = try #require(gst_element_factory_find("hlsdemux2"))
            gst_registry_remove_feature(gst_registry_get(), factory)
            let element = try #require(gst_element_factory_make("latchkeyhlsdemux", nil))
            let bus = MessageBus()
            gst_element_set_bus(element, bus.pointer)
            #expect(gst_element_set_state(element, GST_STATE_READY) == GST_STATE_CHANGE_FAILURE)
            _ = try bus.next(element: "missing-plugin")
            let error = try bus.nextError()
            #expect(error.debug.contains("gstreamer1.0-plugins-good"))
            withExtendedLifetime(playback) {}
        }
    }
}
