// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// `latchkeydashdemux` under playbin3.
    @Suite(.timeLimit(.minutes(3))) struct DASHTests {}
}

extension HLSDemuxTests.DASHTests {
    /// Sample groups that change keys, which qtdemux of 1.22 does not see, are among them.
    @Test(arguments: ["dash-cenc-static-live", "dash-cenc-keyrot", "dash-cenc-iv16-hevc-ac3", "hls-fmp4-cbcs-3drm"])
    func encryptedSegments(name: String) throws {
        let media = try CorpusCase(name)
        let playback = try HLSPlayback(
            try Origin(media.folder), "stream.mpd", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeydashdemux") && playback.elements.contains("latchkeyisodec"))
        for type in ["video", "audio"] {
            #expect(try playback.packets(type, from: "qtdemux") == media.packets(type))
        }
    }

    /// All of a kind in one request, which names what the manifest has.
    @Test func keysAreAskedForBeforeAnySegment() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let asked = RecordingLoader(media.keys)
        let origin = try Origin(media.folder) { request in
            guard request.path != "stream.mpd" else { return nil }
            // No segment comes before the keys do.
            for _ in 0..<6000 where asked.requests.isEmpty { try? await Task.sleep(for: .milliseconds(10)) }
            return asked.requests.isEmpty ? .notFound : nil
        }
        let playback = try HLSPlayback(origin, "stream.mpd", session: KeySession(loaders: [asked]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        let request = try #require(asked.requests.first)
        #expect(asked.requests.count == 1)
        #expect(Set(request.keyIDs.map(\.description)) == Set(media.keys.keysByID.keys.map(\.description)))
        #expect(request.initializationData.first?.origin == "dash/mpd")
        #expect(request.keySystem == .clearKey)
        let messages = playback.bus.all().filter { $0.source.hasPrefix("latchkeydashdemux") }
        #expect(messages.contains { $0.name == "latchkey-key-request" })
        #expect(messages.contains { $0.name == "latchkey-key-usable" })
    }

    /// The KID is in the media alone, and where its license comes from in the manifest alone.
    @Test func aLicenseURLOfAManifestWithoutKIDs() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let asked = RecordingLoader(media.keys)
        let text = String(decoding: try media.bytes("stream.mpd"), as: UTF8.self)
        let system = "<ContentProtection schemeIdUri=\"urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e\">"
        let silent = text.replacing(/\scenc:default_KID="[^"]*"/, with: "")
            .replacing(/<ContentProtection [^>]*urn:uuid:.*?<\/ContentProtection>/.dotMatchesNewlines(), with: "")
            .replacing(
                "<Representation ", with: "\(system)<Laurl>license?a=1</Laurl></ContentProtection><Representation ")
        let origin = try Origin(media.folder) { request in
            request.path == "stream.mpd" ? LoopbackResponse(body: Array(silent.utf8)) : nil
        }
        let playback = try HLSPlayback(origin, "stream.mpd", session: KeySession(loaders: [asked]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(Set(asked.requests.flatMap(\.keyIDs)) == Set(media.keys.keysByID.keys))
        #expect(asked.requests.allSatisfy { $0.suggestedURL == origin.url("license?a=1") && $0.keySystem == .clearKey })
        #expect(try playback.packets("video", from: "qtdemux") == media.packets("video"))
    }

    @Test func decryptionBehindTheDemuxerOnRequest() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let playback = try HLSPlayback(
            try Origin(media.folder), "stream.mpd", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        playback.onDemuxer { $0.setProperty("iso-path", .string("sample")) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(!playback.elements.contains("latchkeyisodec"))
        #expect(try playback.packets("video") == media.packets("video"))
    }

    /// The init segment tells that media is encrypted, of which the manifest says nothing.
    @Test func encryptedMediaOfASilentManifest() throws {
        let folder = CorpusCase.all.appendingPathComponent("broken-mpd-contentprotection")
        let media = try CorpusCase("broken-mpd-contentprotection")
        let playback = try HLSPlayback(
            try Origin(folder), "no-contentprotection.mpd",
            session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyisodec"))
        #expect(try playback.packets("video", from: "qtdemux") == CorpusCase("dash-cenc-static-live").packets("video"))
    }

    /// The same with keys that change in sample groups.
    @Test func rotatingKeysOfASilentManifest() throws {
        let media = try CorpusCase("dash-cenc-keyrot")
        let text = String(decoding: try media.bytes("stream.mpd"), as: UTF8.self)
        let silent = text.replacing(/<ContentProtection\b[^>]*\/>/, with: "")
            .replacing(/<ContentProtection\b.*?<\/ContentProtection>/.dotMatchesNewlines(), with: "")
        #expect(silent != text && !silent.contains("ContentProtection"))
        let origin = try Origin(media.folder) { request in
            request.path == "stream.mpd" ? LoopbackResponse(body: Array(silent.utf8)) : nil
        }
        let playback = try HLSPlayback(
            origin, "stream.mpd", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyisodec"))
        #expect(try playback.packets("video", from: "qtdemux") == media.packets("video"))
    }

    /// What is in front of it comes out right. The manifest tells no such key, so nothing is left out for one.
    @Test func aKeyOfASampleGroupThatIsRefusedEndsByName() throws {
        let media = try CorpusCase("dash-cenc-keyrot")
        // That of the last second of pictures.
        let refused = try #require(KeyID(hex: "2cd640236a33ffaef51e70ab5c4c3eaa"))
        let denying = CallbackLoader { request in
            guard request.keyIDs.contains(refused) else { return false }
            request.finishLoading(with: .denied("no rights"))
            return true
        }
        let playback = try HLSPlayback(
            try Origin(media.folder), "stream.mpd",
            session: KeySession(loaders: [denying, StaticKeyLoader(media.keys)]))
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains(refused.description) && error.text.contains("no rights"), "\(error)")
        let (packets, expected) = (playback.packets("video", from: "qtdemux"), try media.packets("video"))
        #expect(!packets.isEmpty && packets.count < expected.count && expected.starts(with: packets))
    }

    @Test func aClearPresentation() throws {
        let media = try ClearPresentation()
        let times = ["video": "v", "audio": "a"].map { kind, letter in
            """
            <AdaptationSet contentType="\(kind)"><Representation id="\(letter)" mimeType="\(kind)/mp4" bandwidth="1000">
            <SegmentTemplate timescale="1" initialization="\(letter)_init.mp4" media="\(letter)_$Number$.m4s" \
            startNumber="1"><SegmentTimeline><S t="0" d="1" r="3"/></SegmentTimeline></SegmentTemplate>
            </Representation></AdaptationSet>
            """
        }
        let manifest = """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" \
            type="static" mediaPresentationDuration="PT4S" minBufferTime="PT2S"><Period>\(times.joined())</Period></MPD>
            """
        let origin = try Origin { request in
            request.path == "stream.mpd" ? LoopbackResponse(body: Array(manifest.utf8)) : media.answer(request)
        }
        let playback = try HLSPlayback(origin, "stream.mpd")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeydashdemux"))
        #expect(!playback.elements.contains { $0.hasPrefix("latchkey") && $0 != "latchkeydashdemux" })
        #expect(try playback.packets("video", from: "qtdemux") == #require(media.packets["video"]))
    }

    // MARK: Errors

    private static let brokenManifests = [
        "kid-malformed", "kid-missing", "pssh-bad-base64", "pssh-empty", "scheme-missing", "uuid-uppercase",
        "no-contentprotection",
    ]

    @Test(arguments: brokenManifests) func theMediaOfABrokenManifestPlays(name: String) throws {
        let media = try CorpusCase("broken-mpd-contentprotection")
        let playback = try HLSPlayback(
            try Origin(media.folder), "\(name).mpd", session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == CorpusCase("dash-cenc-static-live").frames("video"))
    }

    @Test(arguments: brokenManifests) func aBrokenManifestWithoutKeysEndsByName(name: String) throws {
        let media = try CorpusCase("broken-mpd-contentprotection")
        let loader = CallbackLoader { $0.finishLoading(with: .denied("no rights")) }
        let playback = try HLSPlayback(
            try Origin(media.folder), "\(name).mpd", session: KeySession(loaders: [loader]))
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains("no rights"), "\(error)")
        #expect(media.keys.keysByID.keys.contains { error.text.contains($0.description) }, "\(error)")
    }

    @Test(arguments: [("<Period>", "not well-formed"), ("<!-- - -- -->", "not well-formed")])
    func aManifestThatIsNone(text: String, reason: String) throws {
        let body = Self.start + text
        let origin = try Origin { _ in LoopbackResponse(body: Array(body.utf8)) }
        let playback = try HLSPlayback(origin, "stream.mpd")
        let error = try playback.play()
        #expect(error.type == "error" && error.isStreamError(GST_STREAM_ERROR_DEMUX), "\(error)")
        #expect(error.text.contains("/stream.mpd cannot be used") && error.text.contains(reason), "\(error)")
    }

    private static let start =
        "<?xml version=\"1.0\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" minBufferTime=\"PT2S\">"

    // MARK: The gate and the end

    @Test func theEndOfTheSessionStopsThePicture() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let origin = try Origin(media.folder)
        let session = KeySession(loaders: [StaticKeyLoader(media.keys)])
        let playback = try HLSPlayback(origin, "stream.mpd", session: session, isPaced: true)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.frameRecorder.wait(samples: 5))
        playback.waitUntilFetched()
        session.close(.denied("somebody else plays now"))
        let error = try playback.bus.next { $0.type == "error" && $0.source.hasPrefix("latchkeydashdemux") }
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
        #expect(error.text.contains("somebody else plays now"))
        #expect(playback.frameRecorder.wait(event: "flush-stop"))
        let count = playback.frameRecorder.samples.count
        usleep(600_000)
        #expect(playback.frameRecorder.samples.count <= count + 1)
    }

    @Test func stoppingBeforeTheKeyComes() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin, "stream.mpd", session: KeySession(loaders: [CallbackLoader { _ in true }]))
        playback.setState(GST_STATE_PLAYING)
        _ = try playback.bus.next(element: "latchkey-key-request")
        let end = MonotonicTime.now + TestProcess.deadline
        while !playback.elements.contains("latchkeyisodec"), MonotonicTime.now < end { usleep(2000) }
        playback.waitUntilFetched()
        let start = MonotonicTime.now
        playback.setState(GST_STATE_NULL)
        #expect(Double(MonotonicTime.now - start) / 1e6 < 200 * TestProcess.patience)
    }
    /// The demuxer waits for the answers before anything is fetched, where qualities have keys of their own.
    @Test func stoppingBeforeTheQualitiesAreKnown() throws {
        let media = try CorpusCase("dash-cenc-static-live")
        let text = String(decoding: try media.bytes("stream.mpd"), as: UTF8.self)
        let whole = try #require(text.firstMatch(of: /<Representation .*?<\/Representation>/.dotMatchesNewlines()))
        let first = String(whole.output)
        let protection =
            "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" "
            + "cenc:default_KID=\"01234567-89ab-cdef-0123-456789abcdef\"/>"
        let end = try #require(first.firstIndex(of: ">"))
        let other =
            first[...end].replacing(/\sid="[^"]*"/, with: " id=\"other\"") + protection + first[end...].dropFirst()
        let manifest = text.replacing(first, with: first + other, maxReplacements: 1)
        let origin = try Origin(media.folder) { request in
            request.path == "stream.mpd" ? LoopbackResponse(body: Array(manifest.utf8)) : nil
        }
        let playback = try HLSPlayback(
            origin.url("stream.mpd"), session: KeySession(loaders: [CallbackLoader { _ in true }]))
        playback.setState(GST_STATE_PLAYING)
        _ = try playback.bus.next(element: "latchkey-key-request")
        #expect(!playback.elements.contains("latchkeyisodec"))
        let start = MonotonicTime.now
        playback.setState(GST_STATE_NULL)
        #expect(Double(MonotonicTime.now - start) / 1e6 < 200 * TestProcess.patience)
        #expect(origin.requests("v_init.mp4").isEmpty)
    }
}
