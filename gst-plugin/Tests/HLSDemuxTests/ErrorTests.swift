// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Testing

extension HLSDemuxTests {
    /// Every failure is an error on the bus that names the URL, without its query, and what to do.
    @Suite(.timeLimit(.minutes(8))) struct ErrorTests {}
}

extension HLSDemuxTests.ErrorTests {
    private static let page = "<!DOCTYPE html><html><body>Log in</body></html>"
    private static let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\nv.m3u8?token=secret\n"

    private func failure(
        of path: String = "master.m3u8?token=secret", session: KeySession? = nil,
        _ files: [String: LoopbackResponse]
    ) throws -> BusMessage {
        let origin = try Origin { files[$0.path] }
        let playback = try HLSPlayback(origin, path, session: session)
        let error = try playback.play()
        #expect(error.type == "error")
        #expect(!"\(error)".contains("secret"))
        #expect(error.source.hasPrefix("latchkey"), "\(error)")
        return error
    }

    private static func text(_ text: String) -> LoopbackResponse { LoopbackResponse(body: Array(text.utf8)) }

    private static func media(_ lines: String) -> LoopbackResponse {
        text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n\(lines)\n#EXTINF:1,\nv_1.m4s\n#EXT-X-ENDLIST\n")
    }

    @Test(arguments: [
        (page, "a web page"), (#"{"error": "busy"}"#, "JSON"), ("<Error>busy</Error>", "an XML document"),
        ("Please log in", "plain text"),
    ])
    func foreignContentInPlaceOfAMediaPlaylist(_ content: String, _ name: String) throws {
        let error = try failure(["master.m3u8": Self.text(Self.master), "v.m3u8": Self.text(content)])
        #expect(error.isStreamError(GST_STREAM_ERROR_DEMUX))
        #expect(error.text.contains("/v.m3u8 is no playlist but \(name)"))
        #expect(error.debug.contains("log-in page"))
    }

    /// GStreamer takes what starts with #EXTM3U for a playlist, whatever follows.
    @Test func aFirstPlaylistThatIsNone() throws {
        let error = try failure(["master.m3u8": Self.media("#EXT-X-KEY:METHOD=AES-128")])
        #expect(error.isStreamError(GST_STREAM_ERROR_DEMUX))
        #expect(error.text.contains("/master.m3u8: line 3"))
        #expect(error.text.contains("no URI"))
    }

    @Test(arguments: [404, 403, 500])
    func aMediaPlaylistThatIsNotThere(status: Int) throws {
        let error = try failure(["master.m3u8": Self.text(Self.master), "v.m3u8": LoopbackResponse(status: status)])
        let code =
            switch status {
            case 404: GST_RESOURCE_ERROR_NOT_FOUND
            case 403: GST_RESOURCE_ERROR_NOT_AUTHORIZED
            default: GST_RESOURCE_ERROR_OPEN_READ
            }
        #expect(error.isResourceError(code), "\(error)")
        #expect(error.text.contains("/v.m3u8 cannot be had: HTTP status \(status)"))
        #expect(!error.debug.isEmpty)
    }

    /// With a status of success, the stock demuxer of GStreamer 1.22 would abort the process.
    @Test(arguments: [204, 206]) func aMediaPlaylistWithoutContent(status: Int) throws {
        let error = try failure(["master.m3u8": Self.text(Self.master), "v.m3u8": LoopbackResponse(status: status)])
        #expect(error.isStreamError(GST_STREAM_ERROR_DEMUX), "\(error)")
        #expect(error.text.contains("/v.m3u8 cannot be used: HTTP status \(status)"))
        #expect(!error.debug.isEmpty)
    }

    /// Neither fetched for a playlist of whatever origin, nor tried again for ever.
    @Test func aSegmentInAFile() throws {
        let error = try failure([
            "master.m3u8": Self.text(Self.master),
            "v.m3u8": Self.text(
                "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x1\n"
                    + "#EXT-X-MAP:URI=\"file:///nowhere/init.mp4\"\n#EXTINF:1,\nfile:///nowhere/v.m4s\n#EXT-X-ENDLIST\n"
            ),
            "k": LoopbackResponse(body: [UInt8](repeating: 1, count: 16)),
        ])
        #expect(error.isResourceError(GST_RESOURCE_ERROR_OPEN_READ), "\(error)")
        #expect(error.text.contains("file:///nowhere/") && error.debug.contains("http and https"), "\(error)")
    }

    @Test func anInitSegmentThatIsNotThere() throws {
        let key = #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://a",KEYFORMAT="com.apple.streamingkeydelivery""#
        let error = try failure([
            "master.m3u8": Self.text(Self.master), "v.m3u8": Self.media("#EXT-X-MAP:URI=\"v_init.mp4\"\n\(key)"),
        ])
        #expect(error.isResourceError(GST_RESOURCE_ERROR_NOT_FOUND), "\(error)")
        #expect(error.text.contains("init segment") && error.text.contains("/v_init.mp4"))
    }

    @Test func anInitSegmentThatIsNone() throws {
        let key = #"#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://a",KEYFORMAT="com.apple.streamingkeydelivery""#
        let error = try failure([
            "master.m3u8": Self.text(Self.master), "v.m3u8": Self.media("#EXT-X-MAP:URI=\"v_init.mp4\"\n\(key)"),
            "v_init.mp4": Self.text(Self.page),
        ])
        #expect(error.isStreamError(GST_STREAM_ERROR_DEMUX), "\(error)")
        #expect(error.text.contains("/v_init.mp4"))
    }

    @Test(arguments: [
        (#"METHOD=SAMPLE-AES,URI="x:y",KEYFORMAT="org.example.unknown""#, "org.example.unknown"),
        (#"METHOD=AES-512,URI="key.bin""#, "METHOD AES-512"),
        (#"METHOD=SAMPLE-AES,URI="skd://a",KEYFORMAT="com.apple.streamingkeydelivery",KEYFORMATVERSIONS="9""#, "9"),
    ])
    func aKeyThatCannotBeUsed(key: String, named: String) throws {
        let error = try failure([
            "master.m3u8": Self.text(Self.master),
            "v.m3u8": Self.media("#EXT-X-VERSION:7\n#EXT-X-MAP:URI=\"v_init.mp4\"\n#EXT-X-KEY:\(key)"),
        ])
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
        #expect(error.text.contains("/v.m3u8") && error.text.contains(named), "\(error)")
        #expect(error.debug.contains("key-formats"))
    }

    @Test(arguments: [nil, 15, 48])
    func aKeyAtItsURIThatIsNone(size: Int?) throws {
        let media = try CorpusCase("hls-fmp4-aes128-openssl")
        let origin = try Origin(media.folder) { request in
            guard request.path == "key.bin" else { return nil }
            return size.map { LoopbackResponse(body: [UInt8](repeating: 7, count: $0)) } ?? .notFound
        }
        let playback = try HLSPlayback(origin, "master.m3u8")
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains("/key.bin"))
        #expect(
            error.text.contains(
                size.map {
                    "malformed response: The key \(origin.url("key.bin")) cannot be used: "
                        + "it has \($0) bytes"
                } ?? "server status"))
        #expect(!error.text.contains(".."), "\(error)")
    }

    @Test func aWrongKeyOfWholeSegments() throws {
        let media = try CorpusCase("hls-fmp4-aes128-openssl")
        let origin = try Origin(media.folder) { request in
            request.path == "key.bin" ? LoopbackResponse(body: [UInt8](repeating: 7, count: 16)) : nil
        }
        let error = try HLSPlayback(origin, "master.m3u8").play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DEMUX), "\(error)")
        #expect(error.text.contains("what the key decrypts is no media"), "\(error)")
    }

    @Test func aKeyThatIsDenied() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let loader = CallbackLoader { $0.finishLoading(with: .denied("no rights")) }
        let playback = try HLSPlayback(origin, "master.m3u8", session: KeySession(loaders: [loader]))
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains("no rights"))
    }
}
