// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// What goes over the network, and through proxies.
    @Suite(.timeLimit(.minutes(8))) struct NetworkTests {}
}

extension HLSDemuxTests.NetworkTests {
    /// A request without what differs from time to time, and from client to client.
    private func shape(_ request: LoopbackRequest) -> [String] {
        let fields = request.headers.map { "\($0.name): \($0.value)" }
        let others = ["Accept:", "Connection:", "Host:", "Referer:"]
        let lasting = fields.filter { field in !others.contains { field.hasPrefix($0) } }.sorted()
        return ["\(request.method) \(request.path)"] + lasting + ["\(request.header("Referer")?.suffix(12) ?? "-")"]
    }

    /// Media segments that are decrypted on the way are fetched as the stock demuxer would: the same requests, with the same
    /// fields.
    @Test func segmentsAreFetchedAsByTheStockDemuxer() throws {
        let media = try CorpusCase("hls-ts-aes128-shaka")
        func segments() throws -> Set<[String]> {
            let origin = try Origin(media.folder)
            let playback = try HLSPlayback(origin, "master.m3u8")
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            for case let referrer? in origin.requests.map({ $0.header("Referer") }) {
                #expect(referrer.hasPrefix(origin.url("")))
            }
            return Set(origin.requests.filter { $0.path.hasSuffix(".ts") }.map(shape))
        }
        let ours = try segments()
        let stock = try HLSPlayback.withStockDemuxer { try segments() }
        #expect(ours == stock)
        #expect(ours.count == 9)
    }

    @Test func theOriginSeesTheSourcesFields() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-identity")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        playback.onSource { source in
            source.setProperty("user-agent", .string("Test/1"))
            source.setProperty("cookies", .strings(["id=7", "more=8"]))
            ekt_set_extra_headers(source, "extra, Authorization=(string)\"Bearer abc\", X-Own=(string)42;")
        }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        // Segments too, although the stock demuxer leaves out what it does not know.
        for path in ["v.m3u8", "a.m3u8", "v_init.mp4", "a_init.mp4", "v_1.m4s", "a_1.m4s"] {
            let request = try #require(origin.requests(path).first)
            #expect(request.header("User-Agent") == "Test/1", "\(path)")
            // The URL of the presentation, and never one of the loopback server.
            #expect(HLSPlayback.isReferrer(request.header("Referer"), of: origin.url("master.m3u8")), "\(path)")
            let cookies = request.headers.filter { $0.name == "Cookie" }.map(\.value)
            #expect(cookies.joined(separator: "; ") == "id=7; more=8", "\(path)")
            #expect(request.header("Authorization") == "Bearer abc", "\(path)")
            #expect(request.header("X-Own") == "42", "\(path)")
        }
    }

    @Test func aProxyThatCannotReachThisProcessIsNamed() async {
        await #expect(processExitsWith: .success) {
            let media = try CorpusCase("hls-fmp4-cbcs-identity")
            // Answers for the origin, and refuses what is on this machine, as a proxy elsewhere does.
            let proxy = try TestProxy { host, path in
                host == "origin.test" ? try? media.bytes(String(path.dropFirst())) : nil
            }
            setenv("http_proxy", proxy.url, 1)
            unsetenv("no_proxy")
            let playback = try HLSPlayback("http://origin.test/master.m3u8")
            let error = try playback.play()
            #expect(error.type == "error")
            #expect(error.source.hasPrefix("latchkeyhlsdemux"), "\(error)")
            #expect("\(error)".contains("no_proxy=127.0.0.1"), "\(error)")
            // And what GStreamer's demuxer said.
            #expect("\(error)".contains("ext/adaptivedemux2/"), "\(error)")
        }
    }

    @Test func withTheExceptionItPlaysThroughAProxy() async {
        await #expect(processExitsWith: .success) {
            let media = try CorpusCase("hls-fmp4-cbcs-identity")
            let proxy = try TestProxy { host, path in
                host == "origin.test" ? try? media.bytes(String(path.dropFirst())) : nil
            }
            setenv("http_proxy", proxy.url, 1)
            setenv("no_proxy", "127.0.0.1,localhost", 1)
            let playback = try HLSPlayback(
                "http://origin.test/master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            #expect(try playback.packets("video") == media.packets("video"))
        }
    }

    /// Through the relay comes what would come without it.
    @Test(arguments: ["hls-ts-sampleaes-identity-aac", "hls-fmp4-cbcs-identity", "hls-fmp4-cbcs-byterange"])
    func relayedSegmentsGiveTheSamePackets(_ name: String) throws {
        let media = try CorpusCase(name)
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        playback.onDemuxer { $0.setProperty("outage-limit", .uint(60_000)) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
    }

    /// A web page, a connection that breaks and one that ends in the middle, once each: nothing is missing at the end.
    @Test func playbackGoesOnBehindTrouble() throws {
        let media = try CorpusCase("hls-ts-sampleaes-identity-aac")
        let asked = Mutex<[String: Int]>([:])
        let page = LoopbackResponse(body: RelayTests.page)
        let origin = try Origin(media.folder) { request in
            let count = asked.withLock { asked in
                asked[request.path, default: 0] += 1
                return asked[request.path] ?? 0
            }
            switch (request.path, count) {
            case ("v_2.ts", 1), ("v_2.ts", 2), ("a_2.ts", 1): return page
            case ("v_3.ts", 1):
                guard let bytes = try? media.bytes("v_3.ts") else { return .notFound }
                let pieces = Mutex([Array(bytes.prefix(2000))])
                return LoopbackResponse(
                    status: 200, headers: [],
                    stream: LoopbackStream(length: UInt64(bytes.count)) { pieces.withLock { $0.popLast() } })
            default: return nil
            }
        }
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        playback.onDemuxer { $0.setProperty("outage-limit", .uint(60_000)) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
        #expect(asked.withLock { $0["v_2.ts"] } == 3)
    }
}
