// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyTestSupport
import Testing

/// Each function is the first that a process calls: nothing has started GStreamer. Then all are called in one process, in some
/// orders.
@Suite struct FirstCallTests {
    @Test(arguments: calls.names) func first(name: String) async {
        await #expect(processExitsWith: .success) { [name] in try await Self.calls.call(name) }
    }

    @Test(arguments: UInt64(1)...5) func anyOrder(seed: UInt64) async {
        await #expect(processExitsWith: .success) { [seed] in try await Self.calls.callAll(seed: seed) }
    }

    private static let calls = FirstCalls([
        "pipelines": pipelines, "media": media, "events": events, "theRest": theRest, "surroundings": surroundings,
        "values": values,
    ])

    private static let pipelines: [FirstCalls.Call] = [
        { _ = Pipeline(try Pipeline.launch("fakesrc ! fakesink")) },
        { _ = Pipeline(try Pipeline.bin("identity ! fakesink")) },
        {
            #expect(throws: PipelineError.self) { try StillPicture(encoded: [1, 2, 3]) }
        },
        { #expect(ElementReference.make("fakesink") != nil) },
        { #expect(ElementType.register(Inverter.factory)) },
    ]

    private static let media: [FirstCalls.Call] = [
        { #expect(Caps("video/x-h264") != nil) },
        { #expect(Caps.permanent("video/x-h264") != nil) },
        { #expect(Caps.any.isAny) },
        {
            let buffer = Buffer(copying: [1, 2, 3])
            let bytes = buffer?.copyBytes()
            #expect(bytes == [1, 2, 3])
        },
        {
            let buffer = Buffer(size: 3)
            let size = buffer?.size
            #expect(size == 3)
        },
        {
            let buffer = Buffer()
            let size = buffer.size
            #expect(size == 0)
        },
        {
            let buffer = try OutputMemory().makeBuffer(size: 3)
            let size = buffer.size
            #expect(size == 3)
        },
    ]

    private static let events: [FirstCalls.Call] = [
        { _ = Event.endOfStream() },
        { _ = Event.startOfFlush() },
        { _ = Event.endOfFlush(resetTime: true) },
        { _ = Event.gap(at: 0, duration: nil) },
        { _ = Event.selectStreams(["a"]) },
    ]

    private static let theRest: [FirstCalls.Call] = [
        { #expect(Context(type: "a.b", persistent: true) != nil) },
        { DebugCategory("first", "").log(.error, nil, "a line") },
        { _ = TypeFinder.mediaType(of: [0x49, 0x44, 0x33, 3, 0, 0]) },
        { _ = HTTPClientWatch { _ in } },
        { #expect(Environment.gstreamerVersion.major == 1) },
        {
            #expect(throws: ConfigurationFile.Failure.self) { _ = try ConfigurationFile(contents: [0x78]) }
        },
        {
            let finder = TypeFinder(name: "first", rank: .primary, extensions: ["x"], caps: "a/b") { _ in false }
            #expect(finder.register())
        },
        {
            if let caps = Caps("video/x-h264") { _ = ElementFactories.hasDecoder(for: caps) }
        },
    ]
    private static let surroundings: [FirstCalls.Call] = [
        {
            GStreamer.initialize()
            #expect(gst_is_initialized() != 0)
        },
        {
            GStreamer.initializeWholly()
            #expect(gst_is_initialized() != 0)
        },
        { #expect(Environment.variable("LATCHKEY_NO_SUCH_VARIABLE") == nil) },
        { #expect(!Environment.userConfigurationFolder.isEmpty) },
        { #expect(MonotonicTime.now > 0) },
        {
            let sum = Monitor().withLock { 1 + 1 }
            #expect(sum == 2)
        },
    ]

    private static let values: [FirstCalls.Call] = [
        {
            let queue = StreamItemQueue()
            let isEmpty = queue.isEmpty
            #expect(isEmpty)
        },
        { _ = SharedObjectType<Inverter>("FirstCall") },
        { _ = ProtectionInfo.Field("first") },
        {
            #expect(Event.Protection(systemID: "a", data: [1], origin: "b").data == [1])
        },
        {
            #expect([Rank.none, Rank.marginal, Rank.secondary, Rank.primary].map(\.value) == [0, 64, 128, 256])
            #expect(Rank(256) == .primary)
        },
        {
            #expect(PadTemplate.sink("ANY").name == "sink" && PadTemplate.source("ANY").name == "src")
            #expect(PadTemplate.sometimesSource("a_%u", "ANY").name == "a_%u")
        },
        {
            let property = Property("mask", nick: "Mask", blurb: "The bits", kind: .boolean(default: true))
            #expect(property.name == "mask")
        },
        {
            #expect(ActionSignal("go", arguments: []) { _, _ in true }.name == "go")
        },
        { #expect(PipelineError(description: "a").description == "a") },
        { #expect(StillPicture.sizeLimit > 0) },
    ]
}
