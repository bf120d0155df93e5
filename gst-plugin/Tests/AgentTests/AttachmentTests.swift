// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyOffline
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyOutputs
import Foundation
import Synchronization
import Testing

@testable import Latchkey

/// What an agent keeps of the pipelines that it is attached to.
@Suite struct AttachmentTests {
    init() { TestProcess.prepare }

    /// Without the settings of the environment, which tests of elements change meanwhile.
    private static var configuration: Agent.Configuration {
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        return configuration
    }

    private func count(_ agent: Agent) -> Int { agent.core.guarded.withLock { $0.attachments.count } }

    @Test func aPipelineThatIsGoneIsForgotten() throws {
        let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4, configuration: Self.configuration)
        for _ in 0..<3 {
            let pipeline = try #require(gst_pipeline_new(nil))
            gst_object_ref_sink(pipeline)
            try agent.attach(to: pipeline)
            #expect(count(agent) == 1)
            // Its bus lets go of what it has posted.
            for state in [GST_STATE_READY, GST_STATE_NULL] { gst_element_set_state(pipeline, state) }
            gst_object_unref(pipeline)
            #expect(count(agent) == 0)
        }
    }

    /// Nothing of its player, its session or its listeners holds it.
    @Test func theAgentGoesWithItsLastReference() async throws {
        weak var core: AgentCore?
        let events: AsyncStream<AgentEvent>
        do {
            let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4, configuration: Self.configuration)
            core = agent.core
            events = agent.events
            let player = try agent.attach(
                pipeline: "fakesrc num-buffers=1 ! latchkeyguard outputs=application ! fakesink")
            withExtendedLifetime(agent) {
                player.play()
                player.stop()
            }
            #expect(core != nil)
        }
        // The stream of events ends with it.
        for await _ in events {}
        // A task may hold it for a moment longer.
        let end = MonotonicTime.now + TestProcess.deadline
        while core != nil, MonotonicTime.now < end { await Task.yield() }
        #expect(core == nil)
    }

    // MARK: Outputs

    /// That of one agent is no default of those that are there, or of those that come, also where it changes later.
    @Test func eachAgentHasAnHDMIModeOfItsOwn() throws {
        func player(_ agent: Agent) throws -> Player {
            try agent.attach(pipeline: "fakesrc ! latchkeyguard name=guard ! fakesink")
        }
        func mode(_ player: Player) -> FieldValue? {
            Pipeline.element("guard", in: player.element)?.pointer.property("hdmi-mode")
        }
        func agent() -> Agent {
            Agent(contentURL: "https://media.example/a.mp4", type: .mp4, configuration: Self.configuration)
        }
        let (before, own) = (agent(), agent())
        own.hdmiMode = .disable
        let after = agent()
        let players = try [before, own, after].map(player)
        #expect(players.map(mode) == [.string("default"), .string("disable"), .string("default")])
        #expect([before, own, after].map(\.hdmiMode) == [.standard, .disable, .standard])
        after.hdmiMode = .allow
        #expect(players.map(mode) == [.string("default"), .string("disable"), .string("allow")])
    }

    // MARK: Outages

    /// Unless the application says otherwise, the network may fail for five minutes.
    @Test func anOutageMayLastForFiveMinutes() throws {
        let factories = [
            "latchkeyhlsdemux", "latchkeydashdemux", "latchkeymssdemux", "latchkeyisodec", "latchkeywebmrelay",
        ]
        func limits(_ configuration: Agent.Configuration) throws -> [FieldValue?] {
            var configuration = configuration
            configuration.cache = nil
            let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4, configuration: configuration)
            let pipeline = try #require(gst_pipeline_new(nil))
            gst_object_ref_sink(pipeline)
            defer { gst_object_unref(pipeline) }
            let bin = UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self)
            try agent.attach(to: pipeline)
            // As players do when they know what comes.
            return try factories.map {
                let element = try #require(gst_element_factory_make($0, nil))
                gst_bin_add(bin, element)
                return element.property("outage-limit")
            }
        }
        var configuration = Self.configuration
        #expect(try limits(configuration) == factories.map { _ in .uint(300_000) })
        configuration.outageTimeout = .milliseconds(1500)
        #expect(try limits(configuration) == factories.map { _ in .uint(1500) })
    }

    // MARK: The cache

    /// An agent with a cache in which something of its content is.
    private func cachingAgent(_ url: String, _ folder: String) async throws -> Agent {
        var configuration = Self.configuration
        let cache = ContentCache(.init(folder: folder))
        configuration.cache = cache
        // A download that is paused leaves its index, even before its first byte; one that fails then would not.
        let item = cache.item(url, format: .file)
        item.start()
        for await progress in item.updates where progress.status != .notCached { break }
        item.pause()
        return Agent(contentURL: url, type: .mp4, configuration: configuration)
    }

    private func uri(_ element: UnsafeMutablePointer<GstElement>) -> String? { ElementReference(element).sourceURI }

    @Test(arguments: [true, false])
    func aSourceOfTheContentReadsFromTheCache(_ isThereBefore: Bool) async throws {
        let folder = NSTemporaryDirectory() + "/attachment-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let agent = try await cachingAgent("http://127.0.0.1:1/a.mp4", folder)
        let pipeline = try #require(gst_pipeline_new(nil))
        gst_object_ref_sink(pipeline)
        let bin = UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self)
        func source(_ url: String) throws -> UnsafeMutablePointer<GstElement> {
            let source = try #require(gst_element_factory_make("souphttpsrc", nil))
            source.setProperty("location", .string(url))
            gst_bin_add(bin, source)
            return source
        }
        if !isThereBefore { try agent.attach(to: pipeline) }
        // The same by another spelling, and another.
        let (own, other) = (try source("HTTP://127.0.0.1:1/x/../%61.mp4"), try source("http://127.0.0.1:1/b.mp4"))
        if isThereBefore { try agent.attach(to: pipeline) }
        let gateway = try #require(agent.core.guarded.withLock { $0.attachments.values.first?.gateway })
        #expect(uri(own) == gateway.url && uri(other) == "http://127.0.0.1:1/b.mp4")
        // Another source of the same pipeline shares it.
        #expect(uri(try source("http://127.0.0.1:1/a.mp4")) == gateway.url)
        gst_object_unref(pipeline)
    }

    /// Clear media makes no detour; what is protected makes it behind the source.
    @Test(arguments: [("http://127.0.0.1:1/a.mpd", ContentType.dash), ("http://127.0.0.1:1/a.mp4", .mp4)])
    func withoutACacheContentComesFromItsServer(url: String, type: ContentType) throws {
        var configuration = Self.configuration
        configuration.cache = nil
        let agent = Agent(contentURL: url, type: type, configuration: configuration)
        let source = try #require(gst_element_factory_make("souphttpsrc", nil))
        gst_object_ref_sink(source)
        defer { gst_object_unref(source) }
        source.setProperty("location", .string(url))
        try agent.attach(to: source)
        #expect(uri(source) == url)
    }

    /// Nothing tells of the end of one: it stays until the agent ends.
    @Test func anElementAloneStays() throws {
        let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4, configuration: Self.configuration)
        let element = try #require(gst_element_factory_make("fakesink", nil))
        gst_object_ref_sink(element)
        defer { gst_object_unref(element) }
        try agent.attach(to: element)
        #expect(count(agent) == 1)
    }
}
