// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyManifests
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import Latchkey

/// What content says before it plays, and what is no content.
@Suite struct ContentInspectorTests {
    private let base = "https://media.example/"

    private func inspect(
        _ name: String, _ type: ContentType, _ resources: [String: String], silent: Set<String> = []
    ) async throws(AgentError) -> InspectedContent {
        let all = Dictionary(uniqueKeysWithValues: resources.map { (base + $0.key, Array($0.value.utf8)) })
        let transport = StubTransport(all, silent: Set(silent.map { base + $0 }))
        return try await ContentInspector(source: ContentSource(transport: transport)).inspect(base + name, type)
    }

    private func failure(
        _ name: String, _ type: ContentType, _ resources: [String: String], silent: Set<String> = []
    ) async -> AgentError? {
        do throws(AgentError) {
            _ = try await inspect(name, type, resources, silent: silent)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: ContentType.allCases)
    func aWebPageIsNoContent(_ type: ContentType) async {
        for page in ["<!DOCTYPE html><title>x</title>", " \n<!-- x --><HTML>", "\u{FEFF}<html lang=en>"] {
            let error = await failure("a", type, ["a": page])
            #expect(error?.code == .invalidContent, "\(page)")
            #expect(error?.reason.contains("web page") == true, "\(error?.reason ?? "nothing")")
        }
    }

    @Test(arguments: ContentType.allCases)
    func namesWhatCameInItsPlace(_ type: ContentType) async {
        for (text, name) in [
            (#"{"error": "busy"}"#, "JSON"), ("Please log in", "plain text"), ("<Error/>", "an XML document"),
        ] {
            let error = await failure("a", type, ["a": text])
            #expect(error?.code == .invalidContent, "\(text)")
            #expect(error?.reason.contains(name) == true, "\(error?.reason ?? "nothing")")
        }
    }

    @Test(arguments: ContentType.allCases)
    func namesWhatTheServerSaid(_ type: ContentType) async {
        let missing = await failure("b", type, [:])
        #expect(missing?.code == .serverError && missing?.httpStatus == 404 && missing?.isTemporary == false)
        let silent = await failure("b", type, [:], silent: ["b"])
        #expect(silent?.code == .unreachable && silent?.isTemporary == true)
    }

    /// Playlists and manifests are read whatever the server calls them, and the log says so.
    @Test func logsTypesThatNoContentHas() async throws {
        func lines(_ url: String, as type: String) async -> [String] {
            let transport = StubTransport(
                [base + "a.mpd": [1]], headers: [HTTPHeader(name: "Content-Type", value: type)])
            let lines = Mutex<[String]>([])
            var source = ContentSource(transport: transport)
            source.onFetch = { line in lines.withLock { $0.append(line) } }
            _ = try? await source.whole(url, limit: 8)
            return lines.withLock { $0 }
        }
        let wrong = await lines(base + "a.mpd", as: "text/html; charset=utf-8")
        #expect(wrong.count == 1)
        #expect(wrong.first?.hasPrefix("\(base)a.mpd: HTTP 200, 1 bytes in ") == true, "\(wrong)")
        #expect(wrong.first?.hasSuffix(" ms, with the wrong type text/html") == true, "\(wrong)")
        let right = await lines(base + "a.mpd", as: "application/dash+xml")
        #expect(right.first?.hasSuffix(" ms") == true, "\(right)")
        // The page of an error is one.
        let missing = await lines(base + "b.mpd", as: "text/html")
        #expect(missing.first?.hasSuffix(" ms") == true, "\(missing)")
    }

    /// Also those of a redirect. A player that takes over what was fetched would not have them.
    @Test(arguments: ["", "first", "last"]) func tellsOfCookies(path: String) async throws {
        let server = try LoopbackServer { request in
            let cookie = request.path == path ? [HTTPHeader(name: "Set-Cookie", value: "k=v")] : []
            guard request.path == "first" else { return LoopbackResponse(headers: cookie, body: [1]) }
            return LoopbackResponse(status: 302, headers: cookie + [HTTPHeader(name: "Location", value: "last")])
        }
        defer { server.close() }
        let answer = try await ContentSource(transport: CurlTransport.shared).whole(server.url("first"), limit: 8)
        #expect(answer.url == server.url("last"))
        #expect(answer.setsCookies == !path.isEmpty)
    }

    // MARK: HLS

    private let media = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\ns1.mp4\n#EXT-X-ENDLIST\n"

    @Test func readsEachVariant() async throws {
        let master =
            "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"English\",URI=\"en.m3u8\"\n"
            + "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"b\",NAME=\"English\",URI=\"en.m3u8\"\n"
            + "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"Deutsch\",URI=\"de.m3u8\"\n"
            + "#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"a\"\nlow.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=2\nhigh.m3u8\n"
        let key =
            "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://film\","
            + "KEYFORMAT=\"com.apple.streamingkeydelivery\",KEYFORMATVERSIONS=\"1\"\n#EXT-X-MAP:URI=\"i.mp4\"\n"
            + "#EXTINF:4,\ns1.mp4\n#EXT-X-ENDLIST\n"
        var all = ["m.m3u8": master, "low.m3u8": media, "high.m3u8": key, "en.m3u8": media, "de.m3u8": media]
        let content = try await inspect("m.m3u8", .hls, all)
        #expect(content.isProtected)
        #expect(content.keySystems == [.fairPlay])
        #expect(content.audioTrackNames == ["English", "Deutsch"])
        #expect(content.needs.count == 1 && content.needs.first?.key?.uri == "skd://film")
        all["high.m3u8"] = nil
        #expect(await failure("m.m3u8", .hls, all)?.httpStatus == 404)
        all["high.m3u8"] = "<html>"
        #expect(await failure("m.m3u8", .hls, all)?.code == .invalidContent)
        all["high.m3u8"] = master
        #expect(await failure("m.m3u8", .hls, all)?.code == .invalidContent)
    }

    @Test func aPlaylistNeedsSegments() async throws {
        #expect(try await !inspect("a.m3u8", .hls, ["a.m3u8": media]).isProtected)
        for text in ["#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-ENDLIST\n", "WEBVTT\n", "", "#EXTM3U\n#EXT-X-KEY:\n"] {
            #expect(await failure("a.m3u8", .hls, ["a.m3u8": text])?.code == .invalidContent, "\(text)")
        }
    }

    // MARK: DASH

    @Test func readsAManifest() async throws {
        let kid = "5ef5d7d4-385c-8a86-8582-7ce71131b939"
        let protection =
            "<ContentProtection schemeIdUri='urn:mpeg:dash:mp4protection:2011' value='cenc' cenc:default_KID='\(kid)'/>"
            + "<ContentProtection schemeIdUri='urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e'>"
            + "<dashif:Laurl xmlns:dashif='https://dashif.org/CPS'>https://l.example/ck</dashif:Laurl></ContentProtection>"
        let text =
            "<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' xmlns:cenc='urn:mpeg:cenc:2013'><Period>"
            + "<AdaptationSet contentType='video'>\(protection)<Representation/></AdaptationSet>"
            + "<AdaptationSet contentType='audio' lang='en'><Representation/></AdaptationSet>"
            + "<AdaptationSet mimeType='audio/mp4' lang='en'><Representation/></AdaptationSet></Period>"
            + "<Period><AdaptationSet contentType='audio' lang='en'><Representation/></AdaptationSet></Period></MPD>"
        let content = try await inspect("a.mpd", .dash, ["a.mpd": text])
        #expect(content.isProtected)
        #expect(content.keyIDs == [try #require(KeyID(hex: kid.filter { $0 != "-" }))])
        #expect(content.keySystems == [.clearKey])
        #expect(content.audioTrackNames == ["en", "en 2"])
        #expect(content.licenseURLs == ["https://l.example/ck"])
        for broken in ["<MPD/>", "<MPD><Period><AdaptationSet/></Period></MPD>", "<a/>", "<MPD", ""] {
            #expect(await failure("a.mpd", .dash, ["a.mpd": broken])?.code == .invalidContent, "\(broken)")
        }
    }

    /// Sets with descriptors of their own, below those that all of them inherit: each is taken once, in order.
    @Test func takesManyDescriptors() async throws {
        let count = 300
        func uuid(_ number: Int) -> String {
            let digits = String(number, radix: 16)
            return "00000000-0000-0001-0000-" + String(repeating: "0", count: 12 - digits.count) + digits
        }
        func protection(_ number: Int) -> String {
            "<ContentProtection schemeIdUri='urn:mpeg:dash:mp4protection:2011' value='cbcs' "
                + "cenc:default_KID='\(uuid(number)) \(uuid(0))'/>"
                + "<ContentProtection schemeIdUri='urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e'>"
                + "<Laurl>https://l.example/\(number)</Laurl><Laurl>https://l.example/0</Laurl></ContentProtection>"
        }
        let sets = (1...count).map { number in
            "<AdaptationSet contentType='video'>\(protection(number))<Representation bandwidth='\(number)'/></AdaptationSet>"
        }
        let period =
            "<Period>\(protection(0))\(sets.joined())<AdaptationSet contentType='video'><Representation bandwidth='1'/>"
            + "</AdaptationSet></Period>"
        let text = "<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' xmlns:cenc='urn:mpeg:cenc:2013'>\(period)</MPD>"
        let content = try await inspect("a.mpd", .dash, ["a.mpd": text])
        let keyIDs = try (0...count).map { try #require(KeyID(uuid: uuid($0))) }
        #expect(content.keyIDs == keyIDs)
        #expect(content.licenseURLs == (0...count).map { "https://l.example/\($0)" })
        #expect(content.systems.count == 1 && content.keySystems == [.clearKey])
        #expect(content.needs.count == 64)
        #expect(content.tracks.map(\.bitRate) == (1...count).map { Optional(UInt64($0)) })
        #expect(content.tracks.allSatisfy { $0.keyPeriods.first?.method == "cbcs" })
        for (number, track) in zip(2...count, content.tracks.dropFirst()) {
            #expect(track.keyPeriods.map(\.keyIDs) == [[keyIDs[0], keyIDs[number]]])
        }
        // The last AdaptationSet has the same track as the first one.
        #expect(content.tracks.first?.keyPeriods.map(\.keyIDs) == [[keyIDs[0], keyIDs[1]], [keyIDs[0]]])
    }

    // MARK: Smooth Streaming

    private func smooth(_ streams: String) -> [String: String] {
        [
            "Manifest":
                "<SmoothStreamingMedia MajorVersion='2' MinorVersion='0' Duration='1'>\(streams)</SmoothStreamingMedia>"
        ]
    }

    private let video =
        "<StreamIndex Type='video'><QualityLevel FourCC='H264'/><QualityLevel FourCC='AVC1'/></StreamIndex>"
    private let audio = "<StreamIndex Type='audio' Name='x'><QualityLevel FourCC='AACL'/></StreamIndex>"

    @Test func aManifestNeedsVideoAndSound() async throws {
        #expect(try await inspect("Manifest", .smoothStreaming, smooth(video + audio)).audioTrackNames == ["x"])
        let tagged = "<StreamIndex Type='audio'><QualityLevel FourCC='' AudioTag='255'/></StreamIndex>"
        #expect(try await !inspect("Manifest", .smoothStreaming, smooth(video + tagged)).isProtected)
        for streams in ["", video, audio] {
            #expect(await failure("Manifest", .smoothStreaming, smooth(streams))?.code == .invalidContent, "\(streams)")
        }
        for broken in ["<SmoothStreamingMedia>\(video)\(audio)", "<MPD/>", "no XML"] {
            let error = await failure("Manifest", .smoothStreaming, ["Manifest": broken])
            #expect(error?.code == .invalidContent, "\(broken)")
        }
        let other = video.replacingWords("H264", "WVC1")
        let two = "<StreamIndex Type='audio'><QualityLevel FourCC='AACL'/><QualityLevel FourCC='AACL'/></StreamIndex>"
        let sound = audio.replacingWords("AACL", "WMAP")
        for streams in [other + audio, video + sound, video + two, video + "<StreamIndex Type='audio'/>"] {
            #expect(
                await failure("Manifest", .smoothStreaming, smooth(streams))?.code == .unsupportedContent, "\(streams)")
        }
        // One stream that is played is enough.
        #expect(try await inspect("Manifest", .smoothStreaming, smooth(video + two + audio)).audioTrackNames.count == 2)
    }

    @Test func aManifestMayNameNoKey() async throws {
        let protection =
            "<Protection><ProtectionHeader SystemID='EDEF8BA9-79D6-4ACE-A3C8-27DCD51D21ED'>CAESBHRlc3Q="
            + "</ProtectionHeader></Protection>"
        for (text, system) in [(protection, ProtectionSystem.widevine), ("<Protection/>", .common)] {
            let content = try await inspect("Manifest", .smoothStreaming, smooth(video + audio + text))
            #expect(content.isProtected && content.lacksKeyIDs)
            #expect(content.needs.map(\.system) == [system])
        }
        #expect(try await !inspect("Manifest", .smoothStreaming, smooth(video + audio)).lacksKeyIDs)
    }

    @Test func nothingTraps() async {
        var generator = SeededGenerator(seed: 35)
        let seeds = [
            media, "<MPD><Period><AdaptationSet><Representation/></AdaptationSet></Period></MPD>", video + audio,
        ]
        for round in 0..<300 {
            var bytes = Array(seeds[round % seeds.count].utf8)
            for _ in 0..<4 where !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0 ... .max, using: &generator)
            }
            bytes = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &generator)))
            for type in ContentType.allCases {
                let transport = StubTransport([base + "x": bytes])
                let inspector = ContentInspector(source: ContentSource(transport: transport))
                // Whatever comes out of it: it comes out.
                let content = try? await inspector.inspect(base + "x", type)
                #expect(content?.needs.count ?? 0 <= 64)
                #expect(transport.requests.count < 200)
            }
        }
    }
}

extension String {
    fileprivate func replacingWords(_ old: String, _ new: String) -> String {
        split(separator: old, omittingEmptySubsequences: false).joined(separator: new)
    }
}
