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

    /// As secure memory needs it.
    @Test func decryptionBehindTheDemuxerOnRequest() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let playback = try HLSPlayback(
            try Origin(media.folder), "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        playback.onDemuxer { $0.setProperty("iso-path", .string("sample")) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(!playback.elements.contains("latchkeyisodec"))
        for type in ["video", "audio"] {
            #expect(try playback.packets(type) == media.packets(type))
        }
    }

    /// GStreamer's demuxer may hand it on in pieces, of which the first one does not tell that samples are encrypted.
    @Test func anInitSegmentThatComesInPieces() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let video = try Self.lengthened(media.bytes("v_init.mp4"), by: 100_000)
        let audio = try Self.lengthened(media.bytes("a_init.mp4"), by: 100_000)
        let origin = try Origin(media.folder) { request in
            switch request.path {
            case "v_init.mp4": LoopbackResponse(body: video)
            case "a_init.mp4": LoopbackResponse(body: audio)
            default: nil
            }
        }
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyisodec"))
        for type in ["video", "audio"] {
            #expect(try playback.packets(type) == media.packets(type))
        }
    }

    /// The init segment with a box of so many bytes of nothing behind the first box of its `moov`.
    private static func lengthened(_ section: [UInt8], by count: Int) throws -> [UInt8] {
        func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }
        var place = 0
        while place + 8 <= section.count {
            let size = section[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }
            guard Array(section[place + 4..<place + 8]) != Array("moov".utf8) else {
                let header = section[place + 8..<place + 12].reduce(0) { $0 << 8 | Int($1) }
                let end = place + 8 + header
                var longer = Array(section[..<place])
                longer += number(size + count)
                longer += section[place + 4..<end]
                longer += number(count)
                longer += Array("free".utf8)
                longer += [UInt8](repeating: 0, count: count - 8)
                longer += section[end...]
                return longer
            }
            guard size >= 8 else { break }
            place += size
        }
        throw TestFailure("no moov")
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
