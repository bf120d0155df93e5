// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// DASH and Smooth Streaming whose media comes through the relay.
    @Suite(.timeLimit(.minutes(3))) struct RelayedManifestTests {}
}

extension HLSDemuxTests.RelayedManifestTests {
    private static func playback(
        _ origin: Origin, _ path: String, _ media: CorpusCase, isPaced: Bool = false
    ) throws -> HLSPlayback {
        let playback = try HLSPlayback(
            origin, path, session: KeySession(loaders: [StaticKeyLoader(media.keys)]), isPaced: isPaced)
        playback.onDemuxer { $0.setProperty("outage-limit", .uint(60_000)) }
        return playback
    }

    /// The stock demuxer of GStreamer 1.22 leaves out the end of media on demand: what comes without the relay counts.
    private static func directFrames(_ media: CorpusCase) throws -> [String] {
        let playback = try HLSPlayback(
            Origin(media.folder), "stream.mpd", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        _ = try playback.play()
        return playback.frames
    }

    private static func done(_ playback: HLSPlayback) -> Set<String> {
        Set(
            playback.bus.all().filter { $0.name == "latchkey-fetch" && $0.string("outcome") == "done" }.compactMap {
                $0.string("url").flatMap { $0.split(separator: "/").last }.map(String.init)
            })
    }

    /// Through the relay comes what would come without it.
    @Test(arguments: ["dash-cenc-static-live", "dash-cenc-keyrot", "shaka-cenc-clearlead", "shaka-cbcs-alldrm"])
    func dash(name: String) throws {
        let media = try CorpusCase(name)
        let origin = try Origin(media.folder)
        let playback = try Self.playback(origin, "stream.mpd", media)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try !playback.frames.isEmpty && playback.frames == Self.directFrames(media))
        let done = Self.done(playback)
        let asked = Set(origin.requests.map(\.path)).subtracting(["stream.mpd"])
        #expect(done == asked && !asked.isEmpty, "\(done) \(asked)")
    }

    /// The same with the media on another server, whose URLs are signed.
    @Test func mediaElsewhere() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let server = try Origin { request in
            // The stock demuxer leaves it away from init segments.
            guard request.query == "sig=1a2b" || request.path.hasSuffix("_init.mp4"), request.path.hasPrefix("cdn/"),
                let bytes = try? media.bytes(String(request.path.dropFirst(4)))
            else { return nil }
            return LoopbackResponse(body: bytes)
        }
        let text = String(decoding: try media.bytes("stream.mpd"), as: UTF8.self)
        let moved = text.replacingOccurrences(
            of: "<Period id=\"0\">", with: "<BaseURL>\(server.url("cdn/"))?sig=1a2b</BaseURL><Period id=\"0\">")
        let origin = try Origin { request in
            request.path == "stream.mpd" ? LoopbackResponse(body: Array(moved.utf8)) : nil
        }
        let playback = try Self.playback(origin, "stream.mpd", media)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
        #expect(Self.done(playback).contains("v_3.m4s"))
        // The referrer is the presentation's origin, without the secret in the path.
        let referrer = try #require(URIReference(origin.url("")).origin) + "/"
        #expect(server.requests.allSatisfy { HLSPlayback.isReferrer($0.header("Referer"), of: referrer) })
        playback.waitUntilFetched()
    }

    /// Each version of a live manifest comes through the relay, from where the first redirected to.
    @Test func live() throws {
        let media = try ClearPresentation()
        // From the first request on: a busy machine takes a while until then.
        let begun = Mutex<Date?>(nil)
        let origin = try Origin { request in
            switch request.path {
            case "live.mpd":
                return LoopbackResponse(status: 302, headers: [HTTPHeader(name: "Location", value: "b/now.mpd")])
            case "b/now.mpd":
                let start = begun.withLock { begun -> Date in
                    let start = begun ?? Date(timeIntervalSinceNow: -2)
                    begun = start
                    return start
                }
                return LoopbackResponse(body: Array(Self.liveManifest(since: start).utf8))
            default:
                guard request.path.hasPrefix("b/") else { return .notFound }
                return media.answer(LoopbackRequest(path: String(request.path.dropFirst(2))))
            }
        }
        let playback = try HLSPlayback(origin.url("live.mpd"))
        playback.onDemuxer { $0.setProperty("outage-limit", .uint(60_000)) }
        playback.setState(GST_STATE_PLAYING)
        // What only a later version has.
        _ = try playback.bus.next {
            $0.name == "latchkey-fetch" && $0.string("outcome") == "done"
                && $0.string("url") == origin.url("b/v_4.m4s")
        }
        // The stock demuxer's own requests for the manifest are those of the relay.
        #expect(origin.requests("live.mpd").count >= 2)
        let segments = origin.requests.filter { $0.path.hasSuffix(".m4s") }
        #expect(segments.allSatisfy { HLSPlayback.isReferrer($0.header("Referer"), of: origin.url("live.mpd")) })
    }

    /// A second more each second, until all four are there.
    private static func liveManifest(since start: Date) -> String {
        let count = max(1, min(4, Int(-start.timeIntervalSinceNow)))
        // The stock demuxer of GStreamer 1.22 mixes them up at the next version where the sound is the first.
        let sets = [("video", "v"), ("audio", "a")].map { kind, letter in
            """
            <AdaptationSet contentType="\(kind)" segmentAlignment="true"><Representation id="\(letter)" \
            mimeType="\(kind)/mp4" bandwidth="100000">
            <SegmentTemplate timescale="1" initialization="\(letter)_init.mp4" media="\(letter)_$Number$.m4s" \
            startNumber="1"><SegmentTimeline><S t="0" d="1" r="\(count - 1)"/></SegmentTimeline></SegmentTemplate>
            </Representation></AdaptationSet>
            """
        }
        let time = ISO8601DateFormatter().string(from: start)
        return """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" type="dynamic" \
            availabilityStartTime="\(time)" publishTime="\(time)" suggestedPresentationDelay="PT2S" \
            timeShiftBufferDepth="PT60S" minimumUpdatePeriod="PT1S" minBufferTime="PT1S">\
            <Period id="0" start="PT0S">\(sets.joined())</Period></MPD>
            """
    }

    @Test func smooth() throws {
        let media = try CorpusCase("smooth-piff-ctr")
        let presentation = try SmoothPresentation()
        let origin = try Origin { presentation.answer($0) }
        let playback = try Self.playback(origin, "Manifest", media)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.packets("video", from: "qtdemux") == media.packets("video"))
        #expect(try playback.frames == media.frames("video"))
        #expect(Self.done(playback).count >= 8, "\(Self.done(playback))")
    }

    /// A connection that breaks, one that ends in the middle, and a web page, once each: nothing is missing at the end.
    @Test(arguments: [true, false]) func playbackGoesOnBehindTrouble(_ isSmooth: Bool) throws {
        let media = try CorpusCase(isSmooth ? "smooth-piff-ctr" : "dash-cenc-static-live")
        let paths =
            isSmooth
            ? ["QualityLevels(200000)/Fragments(video=10000000)", "QualityLevels(200000)/Fragments(video=20000000)"]
            : ["v_2.m4s", "v_3.m4s"]
        let asked = Mutex<[String: Int]>([:])
        let origin = try Origin(media.folder) { request in
            let path = request.path.removingPercentEncoding ?? ""
            let count = asked.withLock { asked in
                asked[path, default: 0] += 1
                return asked[path] ?? 0
            }
            guard let bytes = try? media.bytes(path) else { return nil }
            if path == paths[0], count == 1 { return LoopbackResponse(body: RelayTests.page) }
            guard path == paths[1], count == 1 else { return LoopbackResponse(body: bytes) }
            let pieces = Mutex([Array(bytes.prefix(2000))])
            let stream = LoopbackStream(length: UInt64(bytes.count)) {
                pieces.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            }
            return LoopbackResponse(status: 200, headers: [], stream: stream)
        }
        let playback = try Self.playback(origin, isSmooth ? "Manifest" : "stream.mpd", media)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
        let outcomes = playback.bus.all().filter { $0.name == "latchkey-fetch" }.compactMap { $0.string("outcome") }
        #expect(Set(outcomes) == ["done", "invalid-content", "no-network"], "\(outcomes)")
    }

    @Test(arguments: [true, false]) func aSegmentThatIsMissingEndsByName(_ isSmooth: Bool) throws {
        let media = try CorpusCase(isSmooth ? "smooth-piff-ctr" : "dash-cenc-static-live")
        let missing = isSmooth ? "QualityLevels(200000)/Fragments(video=20000000)" : "v_3.m4s"
        let origin = try Origin(media.folder) { request in
            let path = request.path.removingPercentEncoding ?? ""
            guard path != missing, let bytes = try? media.bytes(path) else { return .notFound }
            return LoopbackResponse(body: bytes)
        }
        let playback = try Self.playback(origin, isSmooth ? "Manifest" : "stream.mpd", media)
        let error = try playback.play()
        #expect(error.type == "error" && error.isResourceError(GST_RESOURCE_ERROR_NOT_FOUND), "\(error)")
        #expect(error.text.contains("404"), "\(error)")
        #expect((error.text.removingPercentEncoding ?? "").contains(origin.url(missing)), "\(error)")
    }

    /// Where the stock demuxer would go through a proxy even to this process, it plays as without the relay.
    @Test(arguments: [
        (["http_proxy": "http://p:1"], false), (["HTTP_PROXY": "http://p:1", "no_proxy": "localhost"], false),
        (["all_proxy": "http://p:1", "NO_PROXY": "localhost, 127.0.0.1"], true), ([:], true),
        (["http_proxy": "http://p:1", "no_proxy": "*"], true), (["https_proxy": "http://p:1"], true),
    ])
    func proxies(_ environment: [String: String], _ isDirect: Bool) {
        #expect(LoopbackReach.isDirect { environment[$0] } == isDirect)
    }
}
