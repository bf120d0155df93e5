// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyKeySession
import Testing

extension HLSDemuxTests {
    @Suite(.timeLimit(.minutes(8))) struct PlaybackTests {}
}

extension HLSDemuxTests.PlaybackTests {
    @Test(arguments: [
        "hls-fmp4-cbcs-identity", "hls-fmp4-cbcs-fairplay-skd", "hls-fmp4-cbcs-byterange", "hls-fmp4-cbcs-3drm",
        // SAMPLE-AES-CTR
        "dash-cenc-static-live", "dash-cenc-iv16-hevc-ac3",
    ])
    func encryptedSamplesOfFragmentedMP4(name: String) throws {
        let media = try CorpusCase(name)
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyhlsdemux"))
        for type in ["video", "audio"] {
            #expect(try playback.packets(type) == media.packets(type))
        }
    }

    /// A presentation whose playlists name keys of both tracks apart, with any of the formats.
    @Test(arguments: ["com.apple.streamingkeydelivery", "com.microsoft.playready"])
    func aKeyFormatOfChoice(format: String) throws {
        let media = try CorpusCase("hls-fmp4-cbcs-3drm")
        let origin = try Origin(media.folder)
        let asked = RecordingLoader(media.keys)
        let playback = try HLSPlayback(origin, "master.m3u8", session: KeySession(loaders: [asked]))
        playback.onDemuxer { $0.setProperty("key-formats", .string(format)) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(!asked.keyURIs.isEmpty)
        for uri in asked.keyURIs { #expect(uri.hasPrefix(format.hasPrefix("com.apple") ? "skd:" : "data:"), "\(uri)") }
        #expect(try playback.packets("video") == media.packets("video"))
    }

    @Test func wholeSegmentsOfFragmentedMP4() throws {
        let media = try CorpusCase("hls-fmp4-aes128-openssl")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin, "master.m3u8")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        for type in ["video", "audio"] {
            #expect(try playback.packets(type, from: "qtdemux") == media.packets(type))
        }
        #expect(origin.requests("key.bin").count == 1)
    }

    @Test(arguments: ["hls-fmp4-aes128-openssl", "hls-ts-aes128-shaka"])
    func theFirstPlayOfWholeSegmentsIsNoted(name: String) async throws {
        let origin = try Origin(CorpusCase(name).folder)
        let listener = PlayListener()
        let session = KeySession(loaders: [listener])
        let playback = try HLSPlayback(origin, "master.m3u8", session: session)
        playback.setState(GST_STATE_PAUSED)
        _ = try playback.bus.next { $0.type == "async-done" || $0.type == "error" }
        #expect(await listener.keyIDs(in: session).isEmpty)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(await Set(listener.keyIDs(in: session)) == [session.keyID(forURI: origin.url("key.bin"))])
    }

    @Test(arguments: [
        "hls-ts-aes128-bento4", "hls-ts-aes128-ffmpeg-iv", "hls-ts-aes128-ffmpeg-seqiv", "hls-ts-aes128-shaka",
    ])
    func wholeSegmentsOfTransportStreams(name: String) throws {
        let media = try CorpusCase(name)
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin, media.entry)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
    }

    @Test func aClearPresentation() throws {
        let media = try ClearPresentation()
        let origin = try Origin { media.answer($0) }
        let playback = try HLSPlayback(origin, "master.m3u8")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyhlsdemux"))
        #expect(try playback.packets("video", from: "qtdemux") == #require(media.packets["video"]))
        #expect(!playback.elements.contains { $0.hasPrefix("latchkey") && $0 != "latchkeyhlsdemux" })
        // The stock demuxer buffers. Another queue behind it would hold media twice.
        #expect(!playback.elements.contains("multiqueue") && !playback.elements.contains("queue2"))
    }
}
