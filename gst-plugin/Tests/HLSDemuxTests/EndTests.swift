// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// Stopping and seeking while something is missing, and the gate.
    @Suite(.timeLimit(.minutes(8))) struct EndTests {}
}

/// Takes every request and never answers.
private func silentLoader() -> CallbackLoader { CallbackLoader { _ in true } }

/// A server whose answer to some paths never comes.
private func hangingOrigin(_ media: CorpusCase, _ hangs: @escaping @Sendable (String) -> Bool) throws -> Origin {
    try Origin(media.folder) { request in
        guard hangs(request.path) else { return nil }
        let (never, _) = AsyncStream.makeStream(of: Void.self)
        for await _ in never {}
        return .notFound
    }
}

extension HLSDemuxTests.EndTests {
    /// How long `set_state(NULL)` takes, in milliseconds.
    private func timeToStop(_ playback: HLSPlayback) -> Double {
        let start = MonotonicTime.now
        playback.setState(GST_STATE_NULL)
        return Double(MonotonicTime.now - start) / 1e6
    }

    private func wait(_ what: String, until isThere: () -> Bool) throws {
        let end = MonotonicTime.now + TestProcess.deadline
        while !isThere() {
            guard MonotonicTime.now < end else { throw TestFailure("no \(what)") }
            usleep(2000)
        }
    }

    @Test func stoppingBeforeTheKeyComes() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin, "master.m3u8", session: KeySession(loaders: [silentLoader()]))
        playback.setState(GST_STATE_PLAYING)
        _ = try playback.bus.next(element: "latchkey-key-request")
        try wait("decryptor") { playback.elements.contains("latchkeyisodec") }
        playback.waitUntilFetched()
        #expect(timeToStop(playback) < 200 * TestProcess.patience)
    }

    /// The key of whole segments; and a playlist, for which the stock demuxer waits on the very thread that it stops
    /// first.
    @Test(arguments: [("hls-fmp4-aes128-openssl", "key.bin"), ("hls-fmp4-cbcs-identity", "v.m3u8")])
    func stoppingBeforeAnAnswerComes(name: String, path: String) throws {
        let origin = try hangingOrigin(try CorpusCase(name)) { $0 == path }
        let playback = try HLSPlayback(origin.url("master.m3u8"))
        playback.setState(GST_STATE_PLAYING)
        try wait("request") { !origin.requests(path).isEmpty }
        #expect(timeToStop(playback) < 200 * TestProcess.patience)
    }

    @Test func theLoopbackPortIsClosedAfterNull() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(origin, "master.m3u8", session: KeySession(loaders: [silentLoader()]))
        playback.setState(GST_STATE_PLAYING)
        _ = try playback.bus.next(element: "latchkey-key-request")
        let url = try #require(playback.demuxer?.run?.presentation.route(.playlist(url: "x")))
        let port = try #require(URLComponents(string: url)?.port.flatMap { UInt16(exactly: $0) })
        #expect(isOpen(port))
        playback.waitUntilFetched()
        playback.setState(GST_STATE_NULL)
        #expect(!isOpen(port))
    }

    private func isOpen(_ port: UInt16) -> Bool {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    @Test func aSeekWhileTheKeyIsMissingReturnsAtOnce() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let loader = HeldLoader(media.keys)
        let playback = try HLSPlayback(origin, "master.m3u8", session: KeySession(loaders: [loader]))
        playback.setState(GST_STATE_PLAYING)
        try wait("decryptor") { playback.elements.contains("latchkeyisodec") }
        playback.waitUntilFetched()
        let demuxer = try #require(playback.demuxer)
        let start = MonotonicTime.now
        let seek = try #require(
            gst_event_new_seek(
                1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 2_000_000_000, GST_SEEK_TYPE_NONE, 0))
        _ = demuxer.send(Event(owning: seek))
        #expect(Double(MonotonicTime.now - start) / 1e6 < 1000 * TestProcess.patience)
        loader.release()
        let end = try playback.waitForEnd()
        #expect(end.type == "eos", "\(end)")
    }

    /// GStreamer 1.22 may crash when a seek ends a download, and here one waits for the key.
    @Test(arguments: [
        ("hls-ts-muxed-sampleaes-bento4", "stream"), ("hls-fmp4-aes128-openssl", "master"),
        ("hls-ts-aes128-bento4", "stream"),
    ])
    func aSeekWhileADownloadWaitsForTheKeyIsRefused(name: String, playlist: String) throws {
        let media = try CorpusCase(name)
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let origin = try Origin(media.folder) { request in
            guard !request.path.hasSuffix(".m3u8"), request.path.contains("key") else { return nil }
            for await _ in gate {}
            return nil
        }
        let playback = try HLSPlayback(origin, "\(playlist).m3u8")
        playback.setState(GST_STATE_PLAYING)
        try wait("download that waits") { playback.demuxer?.run?.keys.isAwaited == true }
        let demuxer = try #require(playback.demuxer)
        let seek = try #require(
            gst_event_new_seek(
                1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 2_000_000_000, GST_SEEK_TYPE_NONE, 0))
        let isTaken = demuxer.send(Event(owning: seek))
        #expect(!isTaken)
        opener.finish()
        let end = try playback.waitForEnd()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.frames.count >= 90)
    }

    @Test func theEndOfTheSessionStopsThePicture() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-fairplay-skd")
        let origin = try Origin(media.folder)
        let session = KeySession(loaders: [StaticKeyLoader(media.keys)])
        let playback = try HLSPlayback(origin, "master.m3u8", session: session, isPaced: true)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.frameRecorder.wait(samples: 5))
        playback.waitUntilFetched()
        let shown = playback.frameRecorder.samples.count
        session.close(.denied("somebody else plays now"))
        let error = try playback.bus.next { $0.type == "error" && $0.source.hasPrefix("latchkeyhlsdemux") }
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
        #expect(error.text.contains("somebody else plays now"))
        // Whatever was on its way is gone: all the rest of the second passes without a picture.
        #expect(playback.frameRecorder.wait(event: "flush-stop"))
        let count = playback.frameRecorder.samples.count
        usleep(1_200_000)
        #expect(playback.frameRecorder.samples.count <= count + 1)
        // On a busy machine, more may have been shown before. Pictures go on for a second at most.
        #expect(count < max(60, shown + 25))
    }

    @Test func theGateOpensAgainForASeek() throws {
        let media = try ClearPresentation()
        let origin = try Origin { media.answer($0) }
        let playback = try HLSPlayback(origin, "master.m3u8", isPaced: true)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.frameRecorder.wait(samples: 3))
        let demuxer = try #require(playback.demuxer)
        demuxer.closeGate(.denied("a pause"))
        _ = try playback.bus.nextError()
        #expect(playback.frameRecorder.wait(event: "flush-stop"))
        let count = playback.frameRecorder.samples.count
        usleep(500_000)
        #expect(playback.frameRecorder.samples.count <= count + 1)
        demuxer.openGate()
        #expect(
            gst_element_seek_simple(
                playback.pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 1_000_000_000) != 0)
        // An error ends GStreamer's way back to PLAYING: the application decides whether to go on.
        playback.setState(GST_STATE_PAUSED)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.frameRecorder.wait(samples: count + 20))
    }
}

/// Static keys that are handed out when the test says so.
final class HeldLoader: ResourceLoader {
    let name = "held"
    private let keys: StaticKeyLoader
    private let lock = NSLock()
    nonisolated(unsafe) private var held: [KeyLoadingRequest]? = []

    init(_ keys: StaticKeys) { self.keys = StaticKeyLoader(keys) }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        guard held != nil else { return keys.shouldWaitForLoading(of: request) }
        held?.append(request)
        return true
    }

    /// Answers what waits and what comes.
    func release() {
        lock.lock()
        let requests = held ?? []
        held = nil
        lock.unlock()
        for request in requests {
            if !keys.shouldWaitForLoading(of: request) { request.finishLoading(with: .noLoader("no such key")) }
        }
    }
}
