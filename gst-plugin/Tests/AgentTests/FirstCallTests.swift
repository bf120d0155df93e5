// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElements
import Foundation
import LatchkeyHTTP
import Latchkey
import LatchkeyKeySession
import LatchkeyLogging
import LatchkeyOutputs
import LatchkeyProtection
import LatchkeyTestSupport
import Logging
import Testing

/// Each entry is the first that a process calls: nothing has started GStreamer. Then all are called in one process, in some
/// orders.
@Suite struct FirstCallTests {
    @Test(arguments: calls.names) func first(name: String) async {
        await #expect(processExitsWith: .success) { [name] in try await Self.calls.call(name) }
    }

    @Test(arguments: UInt64(1)...5) func anyOrder(seed: UInt64) async {
        await #expect(processExitsWith: .success) { [seed] in
            // The first call that needs the cache decides where that is.
            try await Self.withOwnCache { try await Self.calls.callAll(seed: seed) }
        }
    }

    private static let calls = FirstCalls([
        "aPictureInThePlaceOfTheVideo": aPictureInThePlaceOfTheVideo, "aPNGFile": aPNGFile,
        "settingsOfAnAgent": settingsOfAnAgent, "whereTheApplicationIs": whereTheApplicationIs, "theEnd": theEnd,
        "aPlayer": aPlayer, "inspection": inspection, "records": records, "cachedContent": cachedContent,
        "theLibrary": theLibrary, "theLog": theLog, "whatElementsAreMadeOf": whatElementsAreMadeOf,
        "secureDecryptors": secureDecryptors, "settingsOfPipelines": settingsOfPipelines,
    ])

    private static let aPictureInThePlaceOfTheVideo: [FirstCalls.Call] = [
        {
            // A white picture of one pixel.
            let image = Array("P6 1 1 255\n".utf8) + [255, 255, 255]
            func set(_ agent: Agent) { try? agent.setHDMIAlternativeImage(image) }
            set(Self.agent())
            let error = #expect(throws: AgentError.self) { try Self.agent().setHDMIAlternativeImage([1, 2, 3]) }
            #expect(error?.reason.contains("the alternative image") == true)
            try Self.agent().setHDMIAlternativeImage(nil)
        },
        {
            #expect(throws: AgentError.self) { try Self.agent().setHDMIAlternativeImage(file: "/nowhere.png") }
        },
    ]

    private static let aPNGFile: [FirstCalls.Call] = [
        {
            let pixel =
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
            try Self.agent().setHDMIAlternativeImage(Array(try #require(Data(base64Encoded: pixel))))
        }
    ]

    private static let settingsOfAnAgent: [FirstCalls.Call] = [
        { Self.agent().hdmiMode = .alternative },
        { Self.agent().selectedAudioTrack = "english" },
        { Self.agent().customLicenseChallengeData = "<a/>" },
        { #expect(Self.agent().state == .initialized) },
        { #expect(Self.agent().type == .dash) },
        { #expect(!Self.agent().contentURL.isEmpty) },
        { _ = Self.agent().states },
        { _ = Self.agent().events },
    ]

    private static let whereTheApplicationIs: [FirstCalls.Call] = [
        { Self.agent().background() },
        { Self.agent().foreground() },
        { Self.agent().pictureInPicture() },
        { await Self.agent().suspend() },
        { Self.agent().resume() },
        { withExtendedLifetime(SleepWatch { _ in }) {} },
    ]

    private static let theEnd: [FirstCalls.Call] = [
        {
            let agent = Self.agent()
            let events = agent.events
            agent.close()
            for await event in events { Issue.record("\(event)") }
        }
    ]

    private static let aPlayer: [FirstCalls.Call] = [
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            #expect(player.pause())
            player.stop()
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            #expect(!player.seek(to: 0))
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            _ = player.nextMessage(waiting: 0)
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            _ = player.position
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            _ = player.duration
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            _ = player.element
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            let element = player.giveAway()
            gst_object_unref(element)
            withExtendedLifetime(agent) {}
        },
        {
            let agent = Self.agent()
            let player = try agent.attach(pipeline: "fakesrc num-buffers=1 ! fakesink")
            #expect(player.play())
            withExtendedLifetime(agent) {}
        },
        {
            let element = try #require(
                { () -> UnsafeMutablePointer<GstElement>? in
                    #expect(Latchkey.registerElements())
                    return gst_element_factory_make("latchkeyguard", nil)
                }())
            try Self.agent().attach(to: element)
        },
    ]

    private static let inspection: [FirstCalls.Call] = [
        { #expect(ContentType(url: "http://127.0.0.1:9/a.mpd") == .dash) },
        {
            await #expect(throws: AgentError.self) { try await Self.agent().contentInfo() }
        },
        {
            await #expect(throws: AgentError.self) { try await Self.agent().acquireLicense() }
        },
    ]

    private static let records: [FirstCalls.Call] = [
        { _ = try? await Agent.licenses(configurationFile: "/dev/null") },
        {
            let id = try #require(RecordID([UInt8](repeating: 1, count: RecordID.size)))
            _ = try? await Agent.removeLicense(id, configurationFile: "/dev/null")
        },
        { _ = try? await Agent.resetLicenses(configurationFile: "/dev/null") },
        {
            _ = try? await Agent.viewingSessions(configurationFile: "/dev/null")
        },
        {
            _ = try? await Agent.endLeftOverViewingSessions(configurationFile: "/dev/null")
        },
    ]

    private static let cachedContent: [FirstCalls.Call] = [
        {
            try await Self.withOwnCache { _ = try? await CachedContent.allItems(in: nil) }
        },
        {
            try await Self.withOwnCache {
                let content = try Self.content()
                content.start()
                content.pause()
                _ = (content.contentURL, content.type)
                _ = await content.refresh()
            }
        },
        { try await Self.withOwnCache { try Self.content().resume() } },
        { try await Self.withOwnCache { _ = try Self.content().progress } },
        { try await Self.withOwnCache { _ = try Self.content().totalDuration } },
        { try await Self.withOwnCache { _ = try Self.content().cachedDuration } },
        { try await Self.withOwnCache { _ = try Self.content().status } },
        { try await Self.withOwnCache { _ = try Self.content().isReadyToPlay } },
        { try await Self.withOwnCache { _ = try Self.content().updates } },
        { try await Self.withOwnCache { try Self.content().purge() } },
        {
            try await Self.withOwnCache { try await Self.content().purgeAndWait() }
        },
    ]

    private static let theLibrary: [FirstCalls.Call] = [
        { #expect(Latchkey.registerElements()) },
        { #expect(Latchkey.registerElements(with: nil)) },
        { #expect(!Latchkey.version.isEmpty) },
        { _ = try? Latchkey.settings() },
        { Latchkey.register(Self.Loader()) },
        { Latchkey.register(Self.Decryptor()) },
        {
            let bin = try Pipeline.bin("identity")
            gst_object_ref_sink(bin)
            Latchkey.attach(KeySession(), to: bin)
            gst_object_unref(bin)
        },
        {
            let session = KeySession()
            session.addLoader(Self.Loader())
            session.close(.sessionClosed("the test is over"))
        },
    ]

    private static let theLog: [FirstCalls.Call] = [
        { withExtendedLifetime(AgentLog.watch { _ in }) {} },
        { #expect(AgentLogMessage(.error, "a line").level == .error) },
        {
            withExtendedLifetime(AgentLog.forward(to: Logger(label: "first"))) {}
        },
        { #expect(Logger.Level(.error) == .error) },
    ]

    private static let whatElementsAreMadeOf: [FirstCalls.Call] = [
        { #expect(!DecryptorFactory.all.isEmpty) },
        { #expect(!AdaptiveDemuxerFactory.all.isEmpty) },
        { #expect(AdaptiveDemuxerFactory.types[0].register()) },
        { #expect(DecryptorFactory.isoMediaType.register()) },
        { #expect(DecryptorFactory.isoMediaFirstType.register()) },
        { #expect(DecryptorFactory.webMType.register()) },
        { #expect(!DecryptorFactory.types.isEmpty) },
        {
            for description in [
                DecryptorFactory.fairPlay, DecryptorFactory.playReady, DecryptorFactory.clearKey,
                DecryptorFactory.anySystem, DecryptorFactory.transportStream, DecryptorFactory.isoMedia,
                DecryptorFactory.webM, GuardFactory.outputGuard,
            ] { #expect(ElementType.register(description)) }
        },
    ]

    private static let secureDecryptors: [FirstCalls.Call] = [
        {
            let decryptor = Self.Decryptor()
            SecureDecryptors.register(decryptor)
            #expect(SecureDecryptors.unregister(decryptor))
        },
        { #expect(!SecureDecryptors.unregister(Self.Decryptor())) },
        {
            let stream = SecureStream(mediaType: "video/x-h264", caps: "video/x-h264")
            #expect(throws: SecureDecryptionError.self) { try Self.Decryptor().makeStreamDecryptor(for: stream) }
        },
        { #expect(SecureDecryptionError("a").description == "a") },
    ]

    private static let settingsOfPipelines: [FirstCalls.Call] = [
        { _ = try? PipelineSession.settings() },
        { _ = try PipelineSession.settings(file: "/dev/null") },
    ]

    private static let folder = FileManager.default.temporaryDirectory.appendingPathComponent("first-call-\(UUID())")

    /// With a folder of its own in the place of the user's cache: what another process has open there is not purged.
    private static func withOwnCache(_ body: () async throws -> Void) async throws {
        if getenv("XDG_DATA_HOME").map({ String(cString: $0) }) == folder.path { return try await body() }
        setenv("XDG_DATA_HOME", folder.path, 1)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body()
    }

    private static func content() throws -> CachedContent {
        try CachedContent(url: "http://127.0.0.1:9/film.mpd", type: .dash)
    }

    private static func agent() -> Agent {
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        configuration.outputs = "application"
        configuration.videoSink = "fakesink"
        configuration.audioSink = "fakesink"
        return Agent(contentURL: "http://127.0.0.1:9/film.mpd", type: .dash, configuration: configuration)
    }

    private final class Loader: ResourceLoader {
        let name = "first"
        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }
    }
    private final class Decryptor: SecureDecryptor {
        let name = "first"
        let memoryFeature: String? = nil

        func takes(_ stream: SecureStream) -> Bool { false }

        func makeStreamDecryptor(
            for stream: SecureStream
        ) throws(SecureDecryptionError) -> any SecureStreamDecryptor {
            throw SecureDecryptionError("it takes no stream")
        }
    }
}
