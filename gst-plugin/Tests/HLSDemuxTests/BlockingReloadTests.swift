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
}
