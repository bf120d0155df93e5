// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import Synchronization
import Testing

@testable import LatchkeyElements

/// Live playlists that are asked for by the number of a segment that is to come.
@Suite(.timeLimit(.minutes(8))) struct BlockingReloadTests {
    /// Refuses numbers that are too high, as draft-pantos-hls-rfc8216bis, 6.2.5.2 has it.
    private final class Server: HTTPTransport {
        let first = Mutex<UInt64>(100)
        let sent = Mutex<[String]>([])

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            sent.withLock { $0.append(request.url) }
            let first = first.withLock(\.self)
            let number = request.url.split(separator: "_HLS_msn=").dropFirst().first.flatMap { UInt64($0) }
            if let number, number > first + 5 { return HTTPResponse(status: 400, body: [], url: request.url) }
            let segments = (first..<first + 4).map { "#EXTINF:2,\n\($0)-\(first < 50 ? "b" : "a").ts\n" }.joined()
            let text =
                "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,HOLD-BACK=6\n"
                + "#EXT-X-MEDIA-SEQUENCE:\(first)\n\(segments)"
            return HTTPResponse(status: 200, body: Array(text.utf8), url: request.url)
        }
    }

    /// The number is that of the encoder before.
    @Test func aNumberThatIsTooHighIsAskedForWithout() async throws {
        let (server, time) = (Server(), RelayTests.Time())
        let origin = HLSOrigin(transport: server)
        let presentation = HLSPresentation(
            origin: origin, keys: HLSKeys(session: KeySession(), timeout: .seconds(1)), keyFormats: [.identity],
            plainRelay: SegmentRelay(origin, limit: .zero, now: { time.now }, sleep: { try time.sleep($0) }) { _ in })
        try presentation.open { _ in }
        defer { presentation.close() }
        let url = "https://a.test/v.m3u8?t=1"
        let playlist = HLSResource.playlist(url: url)
        _ = presentation.route(playlist)
        presentation.table.keep([playlist], of: "")
        let path = try #require(presentation.table.knownName(of: playlist))
        func ask(_ query: String?) async -> (status: Int, text: String) {
            let answer = await presentation.answer(LoopbackRequest(path: "\(path).m3u8", query: query))
            return (answer.status, String(decoding: answer.body, as: UTF8.self))
        }
        #expect(await ask(nil).text.contains("CAN-BLOCK-RELOAD"))
        server.first.withLock { $0 = 101 }
        #expect(await ask("_HLS_msn=104").text.contains("#EXT-X-MEDIA-SEQUENCE:101\n"))
        server.first.withLock { $0 = 0 }
        let anew = await ask("_HLS_msn=105")
        // Behind the last three of before.
        #expect(anew.status == 200 && anew.text.contains("#EXT-X-MEDIA-SEQUENCE:102\n"))
        #expect(anew.text.contains("3-b.ts") && !anew.text.contains("CAN-BLOCK-RELOAD"))
        #expect(time.elapsed == .seconds(1))
        #expect(server.sent.withLock { $0 } == [url, "\(url)&_HLS_msn=104", "\(url)&_HLS_msn=105", url])
    }

    /// Leaves out segments if it may.
    private final class DeltaServer: HTTPTransport {
        let first = Mutex(0)
        let sent = Mutex<[String]>([])

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            sent.withLock { $0.append(request.url) }
            let first = first.withLock(\.self)
            let skipped = request.url.contains("_HLS_skip=YES") ? 6 : 0
            let segments = (first + skipped..<first + 10).map { "#EXTINF:2,\n\($0).ts\n" }.joined()
            let skip = skipped > 0 ? "#EXT-X-SKIP:SKIPPED-SEGMENTS=\(skipped)\n" : ""
            let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:\(first)\n\(skip)\(segments)"
            return HTTPResponse(status: 200, body: Array(text.utf8), url: request.url)
        }
    }

    /// As behind an outage of the network, for which the request waited.
    @Test func aDeltaUpdateThatComesTooLateIsAskedForAsAWhole() async throws {
        let server = DeltaServer()
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: server), keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        let url = "https://a.test/v.m3u8?t=1"
        let playlist = HLSResource.playlist(url: url)
        _ = presentation.route(playlist)
        presentation.table.keep([playlist], of: "")
        let path = try #require(presentation.table.knownName(of: playlist))
        var skips: [Bool] = []
        let asked: [(first: Int, query: String?)] = [
            (0, nil), (40, "_HLS_msn=10&_HLS_skip=YES"), (41, "_HLS_msn=50&_HLS_skip=YES"),
        ]
        for (first, query) in asked {
            server.first.withLock { $0 = first }
            let answer = await presentation.answer(LoopbackRequest(path: "\(path).m3u8", query: query))
            let text = String(decoding: answer.body, as: UTF8.self)
            #expect(answer.status == 200 && text.contains("#EXT-X-MEDIA-SEQUENCE:\(first)\n"))
            skips.append(text.contains("#EXT-X-SKIP"))
        }
        #expect(skips == [false, false, true])
        let queries = ["", "&_HLS_msn=10&_HLS_skip=YES", "&_HLS_msn=10", "&_HLS_msn=50&_HLS_skip=YES"]
        #expect(server.sent.withLock { $0 } == queries.map { url + $0 })
    }

    /// The stock demuxer has it from before, and asks for it behind a seek. What has left the window is forgotten.
    @Test func whatDeltaUpdatesLeaveOutIsServed() throws {
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: Server()), keys: HLSKeys(session: KeySession(), timeout: .seconds(1)),
            keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        func rewrite(_ first: Int, skipping skipped: Int = 6) throws -> HLSRewriting {
            let start =
                skipped > 0
                ? "#EXT-X-SKIP:SKIPPED-SEGMENTS=\(skipped)\n" : "#EXT-X-KEY:METHOD=AES-128,URI=\"1.key\"\n"
            let segments = (first + skipped..<first + 10).map { "#EXTINF:2,\n\($0).ts\n" }.joined()
            let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:\(first)\n\(start)\(segments)"
            return try presentation.rewrite(Array(text.utf8), from: "https://a.test/v.m3u8")
        }
        let whole = try rewrite(0, skipping: 0)
        #expect(whole.resources.count == 10)
        for first in 1...4 {
            let delta = try rewrite(first)
            #expect(delta.isDelta && delta.resources.count == 4)
            #expect(delta.resourceSize > whole.resourceSize / 2)
        }
        for resource in whole.resources.dropFirst(4) { #expect(presentation.table.knownName(of: resource) != nil) }
        for first in 5..<30 { _ = try rewrite(first) }
        #expect(whole.resources.allSatisfy { presentation.table.knownName(of: $0) == nil })
        #expect(presentation.table.count <= 2 * 6 + 4 + HLSResourceTable.generations)
    }

    /// No more than the memory that is left for the playlist.
    @Test func whatDeltaUpdatesLeaveOutHasALimit() {
        let table = HLSResourceTable()
        let all = (0..<10).map { HLSResource.relayedSegment(url: "https://a.test/\($0)") }
        for resource in all { _ = table.name(of: resource) }
        table.keep(all, of: "v")
        let room = all[0].size * 3
        for _ in 0..<HLSResourceTable.generations {
            #expect(table.keep([], of: "v", skipped: 8, room: room) == room)
        }
        #expect(table.count == 3 && table.knownName(of: all[9]) != nil && table.knownName(of: all[6]) == nil)
        #expect(table.keep([], of: "v", skipped: 8, room: -1) == 0)
    }
}
