// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// `latchkeymssdemux` under playbin3.
    @Suite(.timeLimit(.minutes(3))) struct SmoothTests {}
}

extension HLSDemuxTests.SmoothTests {
    private func play(
        _ presentation: SmoothPresentation, keys name: String = "smooth-piff-ctr", isPaced: Bool = false
    ) throws -> (HLSPlayback, Origin) {
        let origin = try Origin { presentation.answer($0) }
        let loader = StaticKeyLoader(try CorpusCase(name).keys)
        let playback = try HLSPlayback(origin, "Manifest", session: KeySession(loaders: [loader]), isPaced: isPaced)
        return (playback, origin)
    }

    @Test func counterMode() throws {
        let media = try CorpusCase("smooth-piff-ctr")
        let (playback, _) = try play(SmoothPresentation())
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeymssdemux") && playback.elements.contains("latchkeyisodec"))
        #expect(try playback.packets("video", from: "qtdemux") == media.packets("video"))
        // The manifest names the first fragment of audio last.
        let audio = playback.packets("audio", from: "qtdemux")
        let expected = try media.packets("audio")
        let first = audio.firstIndex(of: try #require(expected.first)) ?? 0
        let inOrder = Array(audio[first...]) + Array(audio[..<first])
        #expect(inOrder == expected)
        #expect(try playback.frames == media.frames("video"))
    }

    /// The PlayReady header says that it is CBC. Fragments of Smooth Streaming do not.
    @Test(arguments: [(1, "44637f42f96a65ebe16a9164ff9f1fbd"), (2, "6e9773ed02bb31c2edf0c2d2454c806d")])
    func chainingMode(track: Int, keyID: String) throws {
        let media = try CorpusCase("bento4-piff-cbc-ismv")
        let header = try WRMHeader(version: .v4_3, keys: [.init(#require(KeyID(hex: keyID)), algorithm: .aesCBC)])
        let object = Base64.encode(try PlayReadyObject(header: header).serialized())
        let presentation = try SmoothPresentation(track: track, of: "bento4-piff-cbc-ismv", header: object)
        let (playback, _) = try play(presentation, keys: "bento4-piff-cbc-ismv")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyisodec"))
        let kind = track == 1 ? "video" : "audio"
        #expect(try playback.packets(kind, from: "qtdemux") == media.packets(kind))
    }

    @Test func keysAreAskedForAsTheManifestSays() throws {
        let media = try CorpusCase("smooth-piff-ctr")
        let presentation = try SmoothPresentation()
        let asked = RecordingLoader(media.keys)
        let origin = try Origin { presentation.answer($0) }
        let playback = try HLSPlayback(origin, "Manifest", session: KeySession(loaders: [asked]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        let request = try #require(asked.requests.first)
        #expect(asked.requests.count == 1 && request.keySystem == .playReady)
        let data = try #require(request.initializationData.first)
        #expect(data.origin == "smooth-streaming" && data.system == .playReady)
        let header = try PlayReadyObject(initializationData: data.bytes).header()
        #expect(header?.keys.map(\.keyID) == request.keyIDs)
    }

    private static let captions = """
        <StreamIndex Type="text" Name="captions" Subtype="SUBT" QualityLevels="1" Chunks="1" \
        Url="missing({start time})"><QualityLevel Index="0" Bitrate="1" FourCC="TTML" /><c t="0" d="40000000" />\
        </StreamIndex>
        """

    @Test func textStreamsDoNotMatter() throws {
        var presentation = try SmoothPresentation()
        presentation.insert(Self.captions)
        let (playback, origin) = try play(presentation)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == CorpusCase("smooth-piff-ctr").frames("video"))
        #expect(!origin.requests.contains { $0.path.contains("missing") })
    }

    // MARK: Qualities without keys

    private static let usual = "734fe7f558fbf5522cd6704d6f8e66ef"
    private static let other = KeyID(high: 0, low: 2)

    /// Pictures of which one quality has a key of its own, and the session with the key of the rest.
    private func qualities(_ rate: Int, isAlone: Bool = false) throws -> (SmoothPresentation, KeySession, ContentKey) {
        let usual = try #require(KeyID(hex: Self.usual))
        let header = try WRMHeader(
            version: .v4_3, keys: [.init(usual, algorithm: .aesCTR), .init(Self.other, algorithm: .aesCTR)])
        let object = Base64.encode(try PlayReadyObject(header: header).serialized())
        var presentation = try SmoothPresentation()
        try presentation.addQuality(rate: rate, keyID: Self.other, header: object, isAlone: isAlone)
        let key = try #require(CorpusCase("smooth-piff-ctr").keys.key(for: usual))
        let session = KeySession(loaders: [
            CallbackLoader { request in
                request.finishLoading(with: .denied("not in the subscription"))
                return true
            }
        ])
        session.install([usual: key])
        return (presentation, session, key)
    }

    /// Below and above the one that has its key.
    @Test(arguments: [100_000, 900_000]) func aQualityWithoutItsKeyIsLeftOut(rate: Int) throws {
        let (presentation, session, _) = try qualities(rate)
        let origin = try Origin { presentation.answer($0) }
        let playback = try HLSPlayback(origin, "Manifest", session: session)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == CorpusCase("smooth-piff-ctr").frames("video"))
        // One look is Latchkey's own.
        let paths = origin.requests.map { $0.path.removingPercentEncoding ?? "" }
        #expect(paths.count { $0.hasPrefix("QualityLevels(\(rate))/") } == 1)
    }

    /// The key that fragments name is the one that they are decrypted with. Without it, playback ends with an error that names it.
    @Test(arguments: [true, false]) func fragmentsNameTheirKey(hasKey: Bool) throws {
        let (presentation, session, key) = try qualities(900_000, isAlone: true)
        if hasKey { session.install([Self.other: key]) }
        let origin = try Origin { presentation.answer($0) }
        let playback = try HLSPlayback(origin, "Manifest", session: session)
        let end = try playback.play()
        if hasKey {
            #expect(end.type == "eos", "\(end)")
            #expect(try playback.frames == CorpusCase("smooth-piff-ctr").frames("video"))
        } else {
            #expect(end.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(end)")
            #expect(end.text.contains(Self.other.description) && end.text.contains("not in the subscription"), "\(end)")
        }
    }

    /// With one key for all, and where nothing is left out, no fragment is looked at. Each key is told of once. Sound of another
    /// language, which has the key of a quality here, stands in, but nothing for the last of the pictures or of the sound.
    @Test func theChoiceOfARun() async throws {
        let (presentation, _, key) = try qualities(900_000)
        struct Fragments: HTTPTransport {
            let presentation: SmoothPresentation
            func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
                let path = request.url.split(separator: "/").dropFirst(2).joined(separator: "/")
                let body = presentation.answer(LoopbackRequest(path: path))?.body
                return HTTPResponse(status: body == nil ? 404 : 200, body: body ?? [], url: request.url)
            }
        }
        let usual = try #require(KeyID(hex: Self.usual))
        func run(_ manifest: String, _ session: KeySession, isWanted: Bool = true) throws -> SmoothRun {
            let run = try SmoothRun(
                shared: SharedSession(session, ControlSettings()),
                choice: isWanted ? KeyChoice(session: session, timeout: .seconds(30)) : nil,
                transport: Fragments(presentation: presentation),
                sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
            try run.start(Array(manifest.utf8), from: "https://a.test/Manifest")
            return run
        }
        var languages = presentation
        languages.insert(
            """
            <StreamIndex Type="audio" Language="fi" QualityLevels="1" Chunks="1" \
            Url="QualityLevels(900000)/Fragments(video={start time})"><QualityLevel Index="0" Bitrate="77"/>\
            <c t="0" d="40000000"/></StreamIndex>
            """)
        let (one, two) = (presentation.manifest, languages.manifest)
        for (manifest, installed, expected, rates) in [
            (one, [usual], [Self.other], ["200000", "64000"]), (one, [Self.other], [usual], ["900000", "64000"]),
            (one, [], [], ["200000", "900000", "64000"]),
            (two, [usual], [Self.other], ["200000", "64000"]), (two, [Self.other], [usual], ["900000", "77"]),
            (two, [], [], ["200000", "900000", "64000", "77"]),
        ] as [(String, [KeyID], [KeyID], [String])] {
            let (failures, failed) = AsyncStream.makeStream(of: Void.self)
            let session = KeySession(loaders: [
                CallbackLoader { request in
                    request.finishLoading(with: .denied("not in the subscription"))
                    return true
                }
            ])
            for keyID in installed { session.install([keyID: key]) }
            let observation = session.observe { event in if case .failed = event { failed.yield() } }
            defer { observation.cancel() }
            let run = try run(manifest, session)
            defer { run.end() }
            for await _ in failures { break }
            #expect(run.hasUntoldKeys && run.decidingKeyIDs.isEmpty)
            await run.findKeys()
            #expect(run.decidingKeyIDs == [usual, Self.other])
            #expect(Array(run.leaveOut().keys) == expected)
            let handedOn = String(decoding: run.handedOn(audioTrack: nil), as: UTF8.self)
            for rate in ["200000", "900000", "64000", "77"] {
                #expect(handedOn.contains("Bitrate=\"\(rate)\"") == rates.contains(rate), "\(rate)")
            }
        }
        let off = try run(presentation.manifest, KeySession(), isWanted: false)
        defer { off.end() }
        let single = try run(SmoothPresentation().manifest, KeySession())
        defer { single.end() }
        #expect(!off.hasUntoldKeys && !single.hasUntoldKeys)
    }

    // MARK: Audio tracks

    /// Which of the two audio tracks was fetched.
    private func audio(of origin: Origin) -> (first: Int, other: Int) {
        let paths = origin.requests.map { $0.path.removingPercentEncoding ?? "" }.filter { $0.contains("audio=") }
        let others = paths.count { $0.hasPrefix("other/") }
        return (paths.count - others, others)
    }

    @Test(arguments: ["second", "first", nil, "third"]) func anAudioTrackByName(name: String?) throws {
        var presentation = try SmoothPresentation()
        presentation.addAudio("first", "second")
        let (playback, origin) = try play(presentation)
        if let name { playback.onDemuxer { $0.setProperty("audio-track", .string(name)) } }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        let fetched = audio(of: origin)
        #expect(name == "second" ? fetched.first == 0 && fetched.other >= 4 : fetched.first >= 4 && fetched.other == 0)
        #expect((playback.bin as? SmoothDemuxer)?.audioTracks == ["first", "second"])
    }

    /// Manifests call every audio the same, or give a language alone, and that twice.
    @Test(arguments: ["Name=\"audio\"", "Language=\"eng\"", ""]) func audioTracksThatAreNamedAlike(naming: String)
        throws
    {
        var presentation = try SmoothPresentation()
        presentation.addAudio("?", "?")
        presentation.manifest = presentation.manifest.replacingOccurrences(of: "Name=\"?\"", with: naming)
        let (playback, origin) = try play(presentation)
        let label = naming.contains("eng") ? "eng" : "audio"
        playback.onDemuxer { $0.setProperty("audio-track", .string("\(label) 2")) }
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        let fetched = audio(of: origin)
        #expect(fetched.first == 0 && fetched.other >= 4)
        #expect((playback.bin as? SmoothDemuxer)?.audioTracks == [label, "\(label) 2"])
    }

    @Test func anotherAudioTrackWhileItPlays() throws {
        var presentation = try SmoothPresentation()
        presentation.addAudio("first", "second")
        let (playback, origin) = try play(presentation, isPaced: true)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.soundRecorder.wait(samples: 20))
        #expect(audio(of: origin).other == 0)
        let bin = try #require(playback.bin)
        bin.reference.pointer.setProperty("audio-track", .string("second"))
        let end = try playback.waitForEnd()
        #expect(end.type == "eos", "\(end)")
        #expect(audio(of: origin).other > 0)
        #expect(try playback.frames == CorpusCase("smooth-piff-ctr").frames("video"))
    }

    // MARK: Errors

    @Test(arguments: [("bad-base64", "ProtectionHeader"), ("no-protection", "no Protection")])
    func aBrokenManifestEndsByName(name: String, reason: String) throws {
        let folder = CorpusCase.all.appendingPathComponent("broken-smooth-manifest")
        let loader = StaticKeyLoader(try CorpusCase("smooth-piff-ctr").keys)
        let playback = try HLSPlayback(
            try Origin(folder), "\(name).ismc", session: KeySession(loaders: [loader]))
        let error = try playback.play()
        #expect(error.type == "error" && error.source.hasPrefix("latchkeymssdemux"), "\(error)")
        #expect(error.text.contains("/\(name).ismc") && error.text.contains(reason), "\(error)")
        #expect(playback.frames.isEmpty)
    }

    @Test func anotherSystemAloneEndsByName() throws {
        var presentation = try SmoothPresentation()
        let playReady = "9A04F079-9840-4286-AB92-E65BE0885F95"
        #expect(presentation.manifest.contains(playReady))
        presentation.manifest = presentation.manifest.replacingOccurrences(
            of: playReady, with: "EDEF8BA9-79D6-4ACE-A3C8-27DCD51D21ED")
        let (playback, _) = try play(presentation)
        let error = try playback.play()
        #expect(error.type == "error" && error.source.hasPrefix("latchkeymssdemux"), "\(error)")
        #expect(error.text.contains("none of its ProtectionHeaders names a key"), "\(error)")
        #expect(playback.frames.isEmpty)
    }

    @Test func bracesRoundTheSystemPlay() throws {
        let folder = CorpusCase.all.appendingPathComponent("broken-smooth-manifest")
        let loader = StaticKeyLoader(try CorpusCase("smooth-piff-ctr").keys)
        let playback = try HLSPlayback(
            try Origin(folder), "braces-systemid.ismc", session: KeySession(loaders: [loader]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == CorpusCase("smooth-piff-ctr").frames("video"))
    }

    @Test func aDeniedKeyEndsByName() throws {
        let presentation = try SmoothPresentation()
        let loader = CallbackLoader { $0.finishLoading(with: .denied("no rights")) }
        let origin = try Origin { presentation.answer($0) }
        let playback = try HLSPlayback(origin, "Manifest", session: KeySession(loaders: [loader]))
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains("no rights") && error.text.contains("734fe7f558fbf5522cd6704d6f8e66ef"), "\(error)")
    }

    @Test func theEndOfTheSessionStopsThePicture() throws {
        let presentation = try SmoothPresentation()
        let origin = try Origin { presentation.answer($0) }
        let session = KeySession(loaders: [StaticKeyLoader(try CorpusCase("smooth-piff-ctr").keys)])
        let playback = try HLSPlayback(origin, "Manifest", session: session, isPaced: true)
        playback.setState(GST_STATE_PLAYING)
        #expect(playback.frameRecorder.wait(samples: 5))
        playback.waitUntilFetched()
        session.close(.denied("somebody else plays now"))
        let error = try playback.bus.next { $0.type == "error" && $0.source.hasPrefix("latchkeymssdemux") }
        #expect(error.text.contains("somebody else plays now"))
    }
}
