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
import Logging
import Testing

/// Each entry is the first that a process calls: nothing has started GStreamer. Each test is a process of its own.
@Suite struct FirstCallTests {
    @Test func aPictureInThePlaceOfTheVideo() async {
        await #expect(processExitsWith: .success) {
            // A white picture of one pixel.
            let image = Array("P6 1 1 255\n".utf8) + [255, 255, 255]
            func set(_ agent: Agent) { try? agent.setHDMIAlternativeImage(image) }
            set(Self.agent())
            #expect(throws: AgentError.self) { try Self.agent().setHDMIAlternativeImage([1, 2, 3]) }
            try Self.agent().setHDMIAlternativeImage(nil)
        }
        await #expect(processExitsWith: .success) {
            #expect(throws: AgentError.self) { try Self.agent().setHDMIAlternativeImage(file: "/nowhere.png") }
        }
    }

    @Test func aPNGFile() async {
        await #expect(processExitsWith: .success) {
            let pixel =
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
            try Self.agent().setHDMIAlternativeImage(Array(try #require(Data(base64Encoded: pixel))))
        }
    }

    @Test func settingsOfAnAgent() async {
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            agent.hdmiMode = .alternative
            agent.selectedAudioTrack = "english"
            agent.customLicenseChallengeData = "<a/>"
            #expect(agent.state == .initialized && agent.type == .dash)
            _ = (agent.states, agent.events, agent.hdmiMode, agent.selectedAudioTrack, agent.contentURL)
        }
    }

    @Test func whereTheApplicationIs() async {
        await #expect(processExitsWith: .success) { Self.agent().background() }
        await #expect(processExitsWith: .success) { Self.agent().foreground() }
        await #expect(processExitsWith: .success) { Self.agent().pictureInPicture() }
        await #expect(processExitsWith: .success) { await Self.agent().suspend() }
        await #expect(processExitsWith: .success) { Self.agent().resume() }
        await #expect(processExitsWith: .success) { withExtendedLifetime(SleepWatch { _ in }) {} }
    }

    @Test func theEnd() async {
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let events = agent.events
            agent.close()
            for await event in events { Issue.record("\(event)") }
        }
    }

    @Test func aPlayer() async {
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            #expect(player.pause())
            player.stop()
            withExtendedLifetime(agent) {}
        }
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            #expect(!player.seek(to: 0))
            withExtendedLifetime(agent) {}
        }
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            _ = player.nextMessage(waiting: 0)
            withExtendedLifetime(agent) {}
        }
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let player = try agent.makePlayer()
            let element = player.giveAway()
            gst_object_unref(element)
            withExtendedLifetime(agent) {}
        }
        await #expect(processExitsWith: .success) {
            let agent = Self.agent()
            let player = try agent.attach(pipeline: "fakesrc num-buffers=1 ! fakesink")
            #expect(player.play())
            withExtendedLifetime(agent) {}
        }
        await #expect(processExitsWith: .success) {
            let element = try #require(
                { () -> UnsafeMutablePointer<GstElement>? in
                    #expect(Latchkey.registerElements())
                    return gst_element_factory_make("latchkeyguard", nil)
                }())
            try Self.agent().attach(to: element)
        }
    }

    @Test func content() async {
        await #expect(processExitsWith: .success) { #expect(ContentType(url: "http://127.0.0.1:9/a.mpd") == .dash) }
        await #expect(processExitsWith: .success) {
            await #expect(throws: AgentError.self) { try await Self.agent().contentInfo() }
        }
        await #expect(processExitsWith: .success) {
            await #expect(throws: AgentError.self) { try await Self.agent().acquireLicense() }
        }
    }

    @Test func records() async {
        await #expect(processExitsWith: .success) { _ = try? await Agent.licenses(configurationFile: "/dev/null") }
        await #expect(processExitsWith: .success) {
            let id = try #require(RecordID([UInt8](repeating: 1, count: RecordID.size)))
            _ = try? await Agent.removeLicense(id, configurationFile: "/dev/null")
        }
        await #expect(processExitsWith: .success) { _ = try? await Agent.resetLicenses(configurationFile: "/dev/null") }
        await #expect(processExitsWith: .success) {
            _ = try? await Agent.viewingSessions(configurationFile: "/dev/null")
        }
        await #expect(processExitsWith: .success) {
            _ = try? await Agent.endLeftOverViewingSessions(configurationFile: "/dev/null")
        }
    }

    @Test func cachedContent() async {
        await #expect(processExitsWith: .success) {
            try await Self.withOwnCache { _ = try? await CachedContent.allItems(in: nil) }
        }
        await #expect(processExitsWith: .success) {
            try await Self.withOwnCache {
                let content = try Self.content()
                content.start()
                content.pause()
                _ = (content.contentURL, content.type)
                _ = await content.refresh()
            }
        }
        await #expect(processExitsWith: .success) { try await Self.withOwnCache { try Self.content().resume() } }
        await #expect(processExitsWith: .success) { try await Self.withOwnCache { try Self.content().purge() } }
        await #expect(processExitsWith: .success) {
            try await Self.withOwnCache { try await Self.content().purgeAndWait() }
        }
    }

    @Test func theLibrary() async {
        await #expect(processExitsWith: .success) { #expect(Latchkey.registerElements()) }
        await #expect(processExitsWith: .success) { #expect(Latchkey.registerElements(with: nil)) }
        await #expect(processExitsWith: .success) { #expect(!Latchkey.version.isEmpty) }
        await #expect(processExitsWith: .success) { _ = try? Latchkey.settings() }
        await #expect(processExitsWith: .success) { Latchkey.register(Self.Loader()) }
        await #expect(processExitsWith: .success) { Latchkey.register(Self.Decryptor()) }
        await #expect(processExitsWith: .success) {
            let bin = try Pipeline.bin("identity")
            gst_object_ref_sink(bin)
            Latchkey.attach(KeySession(), to: bin)
            gst_object_unref(bin)
        }
        await #expect(processExitsWith: .success) {
            let session = KeySession()
            session.addLoader(Self.Loader())
            session.close(.sessionClosed("the test is over"))
        }
    }

    @Test func theLog() async {
        await #expect(processExitsWith: .success) { withExtendedLifetime(AgentLog.watch { _ in }) {} }
        await #expect(processExitsWith: .success) { #expect(AgentLogMessage(.error, "a line").level == .error) }
        await #expect(processExitsWith: .success) {
            withExtendedLifetime(AgentLog.forward(to: Logger(label: "first"))) {}
        }
        await #expect(processExitsWith: .success) { #expect(Logger.Level(.error) == .error) }
    }

    @Test func whatElementsAreMadeOf() async {
        await #expect(processExitsWith: .success) { #expect(!DecryptorFactory.all.isEmpty) }
        await #expect(processExitsWith: .success) { #expect(!AdaptiveDemuxerFactory.all.isEmpty) }
        await #expect(processExitsWith: .success) { #expect(AdaptiveDemuxerFactory.types[0].register()) }
        await #expect(processExitsWith: .success) { #expect(DecryptorFactory.isoMediaType.register()) }
        await #expect(processExitsWith: .success) { #expect(DecryptorFactory.isoMediaFirstType.register()) }
        await #expect(processExitsWith: .success) { #expect(DecryptorFactory.webMType.register()) }
        await #expect(processExitsWith: .success) { #expect(!DecryptorFactory.types.isEmpty) }
        await #expect(processExitsWith: .success) {
            for description in [
                DecryptorFactory.fairPlay, DecryptorFactory.playReady, DecryptorFactory.clearKey,
                DecryptorFactory.anySystem, DecryptorFactory.transportStream, DecryptorFactory.isoMedia,
                DecryptorFactory.webM, GuardFactory.outputGuard,
            ] { #expect(ElementType.register(description)) }
        }
    }

    @Test func secureDecryptors() async {
        await #expect(processExitsWith: .success) {
            let decryptor = Self.Decryptor()
            SecureDecryptors.register(decryptor)
            #expect(SecureDecryptors.unregister(decryptor))
        }
        await #expect(processExitsWith: .success) { #expect(!SecureDecryptors.unregister(Self.Decryptor())) }
        await #expect(processExitsWith: .success) {
            let stream = SecureStream(mediaType: "video/x-h264", caps: "video/x-h264")
            #expect(throws: SecureDecryptionError.self) { try Self.Decryptor().makeStreamDecryptor(for: stream) }
        }
        await #expect(processExitsWith: .success) { #expect(SecureDecryptionError("a").description == "a") }
    }

    @Test func settingsOfPipelines() async {
        await #expect(processExitsWith: .success) { _ = try? PipelineSession.settings() }
        await #expect(processExitsWith: .success) { _ = try PipelineSession.settings(file: "/dev/null") }
    }

    /// With a folder of its own in the place of the user's cache: what another process has open there is not purged.
    private static func withOwnCache(_ body: () async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("first-call-\(getpid())")
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
