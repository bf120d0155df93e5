// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// Presentations whose segments are in envelopes.
    @Suite(.timeLimit(.minutes(8))) struct EnvelopeTests {}
}

/// A presentation of the corpus that is encrypted as a whole, clear and put into envelopes.
private struct EnvelopedPresentation: Sendable {
    static let keyID = KeyID(high: 0x0011_2233_4455_6677, low: 0x8899_AABB_CCDD_EEFF)
    static let key = ContentKey((0..<16).map { UInt8($0) * 3 })
    let media: CorpusCase
    let clear: [String: [UInt8]]
    let enveloped: [String: [UInt8]]

    init(_ name: String) throws {
        media = try CorpusCase(name)
        guard let key = Self.key, let old = ContentKey(try media.bytes("key.bin")),
            let vector = InitializationVector((0..<16).map { UInt8($0) * 0x11 })
        else { throw TestFailure("no key") }
        let header = try WRMHeader(
            version: .v4_0,
            keys: [
                .init(
                    Self.keyID, algorithm: .aesCTR,
                    checksum: PlayReadyChecksum.checksum(of: key, keyID: Self.keyID, algorithm: .aesCTR))
            ])
        var (clear, enveloped): ([String: [UInt8]], [String: [UInt8]]) = ([:], [:])
        for name in try FileManager.default.contentsOfDirectory(atPath: media.folder.path) {
            let isSegment = name.hasSuffix(".ts") || name.hasSuffix(".m4s")
            guard isSegment || name.contains(".m"), var bytes = try? media.bytes(name) else { continue }
            if isSegment { bytes = try SegmentCipher(key: old, initializationVector: vector).decrypt(whole: bytes) }
            if name.hasSuffix(".m3u8") {
                let lines = String(decoding: bytes, as: UTF8.self).components(separatedBy: "\n")
                bytes = Array(lines.filter { !$0.hasPrefix("#EXT-X-KEY") }.joined(separator: "\n").utf8)
            }
            clear[name] = bytes
            enveloped[name] =
                isSegment
                ? try LatchkeyEnvelope.seal(bytes, object: PlayReadyObject(header: header), key: key) : bytes
        }
        (self.clear, self.enveloped) = (clear, enveloped)
    }

    static var settings: ControlSettings {
        var settings = ControlSettings()
        settings.readsEnvelopes = true
        return settings
    }

    /// A session that knows the key, or another one.
    static func session(_ key: ContentKey? = key) -> KeySession {
        let entries = key.map { [KeysFile.Entry(subject: .keyID(keyID), key: $0)] } ?? []
        return KeySession(loaders: [StaticKeyLoader(StaticKeys(entries: entries))])
    }
}

/// Takes the requests down and knows no key.
private final class Listener: ResourceLoader {
    let name = "listener"
    private let data = Mutex<[InitializationData]>([])

    var initializationData: [InitializationData] { data.withLock { $0 } }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        data.withLock { $0 += request.initializationData }
        request.finishLoading(with: .noLoader("not here"))
        return true
    }
}

extension HLSDemuxTests.EnvelopeTests {
    @Test(arguments: ["hls-ts-aes128-shaka", "hls-fmp4-aes128-openssl"])
    func playsWithoutATagInThePlaylist(name: String) throws {
        let presentation = try EnvelopedPresentation(name)
        let files = presentation.enveloped
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: EnvelopedPresentation.session(), settings: EnvelopedPresentation.settings)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        if name.contains("ts") {
            // What leaves the transport stream's demuxer is not cut into packets yet.
            #expect(try playback.frames == presentation.media.frames("video"))
            #expect(playback.elements.contains("latchkeytsdec"))
        } else {
            #expect(try playback.packets("video", from: "qtdemux") == presentation.media.packets("video"))
            #expect(try playback.packets("audio", from: "qtdemux") == presentation.media.packets("audio"))
        }
    }

    /// Preroll is no play, whoever decrypts.
    @Test(arguments: ["hls-ts-aes128-shaka", "hls-fmp4-aes128-openssl"])
    func theFirstPlayIsNoted(name: String) async throws {
        let files = try EnvelopedPresentation(name).enveloped
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let session = EnvelopedPresentation.session()
        let listener = PlayListener()
        session.addLoader(listener)
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: session, settings: EnvelopedPresentation.settings)
        playback.setState(GST_STATE_PAUSED)
        _ = try playback.bus.next { $0.type == "async-done" || $0.type == "error" }
        #expect(await listener.keyIDs(in: session).isEmpty)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(await Set(listener.keyIDs(in: session)) == [EnvelopedPresentation.keyID])
    }

    /// With parsers, a clear presentation costs one request more for each playlist.
    @Test func theStartOfClearSegmentsIsFetchedToLookAtIt() throws {
        let presentation = try EnvelopedPresentation("hls-ts-aes128-shaka")
        let files = presentation.clear
        func requests(_ session: KeySession?) throws -> [LoopbackRequest] {
            let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
            let playback = try HLSPlayback(
                origin, "master.m3u8", session: session, settings: EnvelopedPresentation.settings)
            #expect(try playback.play().type == "eos")
            return origin.requests.filter { $0.path.hasSuffix(".ts") }
        }
        let ours = try requests(KeySession())
        let stock = try HLSPlayback.withStockDemuxer { try requests(nil) }
        let probes = ours.filter { $0.header("Range") == "bytes=0-4095" }
        #expect(Set(probes.map(\.path)) == ["v_1.ts", "a_1.ts"])
        #expect(probes.count == 2)
        let others = ours.filter { $0.header("Range") != "bytes=0-4095" }
        #expect(others.map(\.path).sorted() == stock.map(\.path).sorted())
    }

    @Test func theRequestHasThePlayReadyHeader() throws {
        let presentation = try EnvelopedPresentation("hls-ts-aes128-shaka")
        let files = presentation.enveloped
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let listener = Listener()
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: KeySession(loaders: [listener]), settings: EnvelopedPresentation.settings)
        let end = try playback.play()
        #expect(end.type == "error")
        #expect("\(end)".contains("\(EnvelopedPresentation.keyID)"), "\(end)")
        let data = try #require(listener.initializationData.first)
        #expect(data.origin == "hls/envelope")
        let object = try PlayReadyObject(initializationData: data.bytes)
        #expect(try object.header()?.keys.first?.keyID == EnvelopedPresentation.keyID)
    }

    @Test func aWrongKeyIsAnError() throws {
        let presentation = try EnvelopedPresentation("hls-ts-aes128-shaka")
        let files = presentation.enveloped
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let wrong = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        let end = try HLSPlayback(
            origin, "master.m3u8", session: EnvelopedPresentation.session(wrong),
            settings: EnvelopedPresentation.settings
        ).play()
        #expect(end.type == "error")
        #expect("\(end)".contains("key may be a wrong one"), "\(end)")
    }

    /// No decryptor sees a sample of these segments.
    @Test func theHeadersChecksumTellsAWrongKey() throws {
        let files = try EnvelopedPresentation("hls-fmp4-aes128-openssl").enveloped
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let wrong = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        let playback = try HLSPlayback(
            origin, "master.m3u8", session: EnvelopedPresentation.session(wrong),
            settings: EnvelopedPresentation.settings)
        playback.setState(GST_STATE_PLAYING)
        let message = try playback.bus.next { $0.name == "latchkey-wrong-key" }
        #expect(message.string("reason")?.contains("checksum") == true)
    }

    @Test(arguments: [28, 60, 200])
    func aCutEnvelopeIsAnError(size: Int) throws {
        let presentation = try EnvelopedPresentation("hls-ts-aes128-shaka")
        let files = presentation.enveloped.mapValues {
            $0.starts(with: LatchkeyEnvelope.magic) ? Array($0.prefix(size)) : $0
        }
        let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
        let end = try HLSPlayback(
            origin, "master.m3u8", session: EnvelopedPresentation.session(), settings: EnvelopedPresentation.settings
        ).play()
        #expect(end.type == "error")
        #expect("\(end)".contains("envelope"), "\(end)")
    }

    /// As many pictures come after a seek as they do where nothing is in an envelope.
    @Test func seeksAsClearMediaDoes() throws {
        let presentation = try EnvelopedPresentation("hls-ts-aes128-shaka")
        func picturesBehindASeek(_ files: [String: [UInt8]]) throws -> Int {
            let origin = try Origin { request in files[request.path].map { Self.answer(request, $0) } }
            let playback = try HLSPlayback(
                origin, "master.m3u8", session: EnvelopedPresentation.session(),
                settings: EnvelopedPresentation.settings)
            playback.setState(GST_STATE_PAUSED)
            _ = try playback.bus.next { $0.type == "async-done" || $0.type == "error" }
            // What comes behind a seek may depend on how much of the presentation is there.
            playback.waitUntilFetched()
            let before = playback.frames.count
            let flags = GstSeekFlags(GST_SEEK_FLAG_FLUSH.rawValue | GST_SEEK_FLAG_KEY_UNIT.rawValue)
            #expect(gst_element_seek_simple(playback.pipeline, GST_FORMAT_TIME, flags, 2_000_000_000) != 0)
            let end = try playback.play()
            #expect(end.type == "eos", "\(end)")
            return playback.frames.count - before
        }
        let enveloped = try picturesBehindASeek(presentation.enveloped)
        #expect(try enveloped == picturesBehindASeek(presentation.clear))
        #expect((25..<100).contains(enveloped))
    }

    private static func answer(_ request: LoopbackRequest, _ bytes: [UInt8]) -> LoopbackResponse {
        guard let range = request.header("Range"), let first = range.dropFirst(6).split(separator: "-").first,
            let start = Int(first), start < bytes.count
        else { return LoopbackResponse(body: bytes) }
        let end = range.split(separator: "-").last.flatMap { Int($0) } ?? bytes.count - 1
        return LoopbackResponse(status: 206, body: Array(bytes[start...min(end, bytes.count - 1)]))
    }
}
