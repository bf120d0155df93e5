// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// No URL of the loopback server comes to the application.
    @Suite(.timeLimit(.minutes(8))) struct URLTests {}
}

extension HLSDemuxTests.URLTests {
    /// The URLs of the statistics that the stock demuxer posts, seen from the origin's folder.
    private func statistics(_ media: CorpusCase) throws -> [(manifest: String, uri: String)] {
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin, "master.m3u8")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        let base = origin.url("")
        return playback.bus.all().filter { $0.name == "adaptive-streaming-statistics" }.map { message in
            let (manifest, uri) = (message.string("manifest-uri") ?? "", message.string("uri") ?? "")
            return (manifest.replacing(base, with: ""), uri.replacing(base, with: ""))
        }
    }

    /// Whole segments of fragmented MP4 pass the loopback server. GStreamer 1.22 posts statistics of the manifest alone.
    @Test(arguments: ["hls-fmp4-aes128-openssl", "hls-ts-aes128-shaka"])
    func statisticsNameTheOrigin(name: String) throws {
        let media = try CorpusCase(name)
        let ours = try statistics(media)
        #expect(!ours.isEmpty)
        #expect(ours.allSatisfy { $0 == ("master.m3u8", "master.m3u8") }, "\(ours)")
    }

    private func presentation() throws -> HLSPresentation {
        let session = KeySession()
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared),
            keys: HLSKeys(session: session, timeout: .seconds(1)), keyFormats: [.identity])
        try presentation.open { _ in }
        let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8?token=t\n"
        _ = try presentation.start(Array(master.utf8), from: "https://me:secret@a.test/master.m3u8?s=1")
        return presentation
    }

    /// What comes from the playlist's own server is named by references, but for other playlists.
    @Test func mediaPlaylistsHaveReferences() throws {
        let presentation = try presentation()
        defer { presentation.close() }
        let url = "https://a.test/v.m3u8?token=t"
        _ = presentation.route(.playlist(url: url))
        let media = """
            #EXTM3U
            #EXT-X-TARGETDURATION:2
            #EXT-X-KEY:METHOD=AES-128,URI="key"
            #EXTINF:2,
            1.ts
            #EXTINF:2,
            https://b.test/2.ts
            #EXT-X-RENDITION-REPORT:URI="w.m3u8"
            #EXT-X-ENDLIST
            """
        let rewriting = try presentation.rewrite(Array(media.utf8), from: url)
        let lines = String(decoding: rewriting.bytes, as: UTF8.self).split(separator: "\n")
        let segments = lines.filter { !$0.hasPrefix("#") }
        try #require(segments.count == 2)
        #expect(presentation.table.resource(String(segments[0]))?.originURL == "https://a.test/1.ts")
        #expect(segments[1].hasPrefix("http://127.0.0.1:"))
        #expect(lines.contains { $0.hasPrefix("#EXT-X-RENDITION-REPORT:URI=\"http://127.0.0.1:") })
        // As the first playlist, before it has a name: so it counts as much as later.
        let other = try presentation.rewrite(Array(media.utf8), from: "https://a.test/other.m3u8")
        #expect(other.bytes == rewriting.bytes)
    }

    /// The stock demuxer has two connections to each server, which the playlists of pictures and sound may keep for long.
    @Test(arguments: [true, false]) func nothingWaitsForPlaylistsThatBlock(blocks: Bool) throws {
        let presentation = try presentation()
        defer { presentation.close() }
        func port(_ text: some StringProtocol) -> String {
            String(text).split(separator: "127.0.0.1:").last.map { String($0.prefix { $0 != "/" }) } ?? ""
        }
        let url = "https://a.test/v.m3u8?token=t"
        let playlist = presentation.route(.playlist(url: url))
        let media = """
            #EXTM3U
            #EXT-X-TARGETDURATION:2
            #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=\(blocks ? "YES" : "NO")
            #EXT-X-KEY:METHOD=SAMPLE-AES,URI="key"
            #EXTINF:2,
            1.ts
            #EXT-X-KEY:METHOD=AES-128,URI="key"
            #EXTINF:2,
            2.ts
            #EXT-X-RENDITION-REPORT:URI="w.m3u8"
            """
        var last: [UInt8]?
        for _ in 0..<2 {
            let rewriting = try presentation.rewrite(Array(media.utf8), from: url)
            if let last { #expect(rewriting.bytes == last) }
            last = rewriting.bytes
            let lines = String(decoding: rewriting.bytes, as: UTF8.self).split(separator: "\n")
            let segments = lines.filter { !$0.hasPrefix("#") }
            #expect(segments.count == 2 && segments.allSatisfy { $0.hasPrefix("http") == blocks })
            if blocks { #expect(segments.allSatisfy { port($0) != port(playlist) }) }
            let map = try #require(lines.first { $0.hasPrefix("#EXT-X-MAP") })
            if blocks { #expect(port(map) == port(segments[0])) }
            let report = try #require(lines.first { $0.hasPrefix("#EXT-X-RENDITION-REPORT") })
            #expect(report.contains(port(playlist)))
        }
    }

    @Test func textsNameTheOrigin() throws {
        let presentation = try presentation()
        defer { presentation.close() }
        let playlist = presentation.route(.playlist(url: "https://a.test/v.m3u8?token=t"))
        let segment = presentation.route(
            .segment(
                HLSEncryptedSegment(
                    url: "https://b.test/1.m4s", decryption: HLSSegmentDecryption(key: .none, initializationVector: nil)
                )))
        let gone = presentation.route(.playlist(url: "x")).replacing("/p", with: "/p99")
        func text(_ text: String, _ isForPeople: Bool = true) -> String {
            presentation.withOriginURLs(text, isForPeople: isForPeople)
        }
        #expect(text("Failed to fetch \(playlist): 404.") == "Failed to fetch https://a.test/v.m3u8: 404.")
        #expect(text(playlist, false) == "https://a.test/v.m3u8?token=t")
        #expect(text("\(playlist)?_HLS_msn=7", false) == "https://a.test/v.m3u8?token=t&_HLS_msn=7")
        #expect(text("a “\(segment)” and (\(playlist)).") == "a “https://b.test/1.m4s” and (https://a.test/v.m3u8).")
        #expect(text("at \(segment).") == "at https://b.test/1.m4s.")
        // What is forgotten, or was made here, has the presentation's.
        #expect(text(gone) == "https://a.test/master.m3u8")
        #expect(text("nothing, http://127.0.0.1:9/p1.m3u8, é") == "nothing, http://127.0.0.1:9/p1.m3u8, é")
        #expect(text("") == "")
    }

    /// An error of the stock demuxer that has a loopback URL in it.
    @Test func errorsNameTheOrigin() throws {
        TestProcess.prepare
        let presentation = try presentation()
        defer { presentation.close() }
        let playlist = presentation.route(.playlist(url: "https://a.test/v.m3u8"))
        let error = g_error_new_literal(gst_resource_error_quark(), 5, "Cannot open \(playlist)")
        let made = try #require(gst_message_new_error(nil, error, "while at \(playlist)?x"))
        g_error_free(error)
        let number = gst_message_get_seqnum(made)
        let changed = Message(owning: made)
            .mapTexts { presentation.withOriginURLs($0, isForPeople: true) }.release()
        defer { gst_message_unref(changed) }
        let read = BusMessage(changed)
        #expect(read.isResourceError(GST_RESOURCE_ERROR_OPEN_READ))
        #expect(read.text == "Cannot open https://a.test/v.m3u8")
        #expect(read.debug == "while at https://a.test/v.m3u8")
        #expect(gst_message_get_seqnum(changed) == number)
    }
}
