// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import Testing

/// Each function is the first that a process calls: nothing has started GStreamer. Each closure is a process of its own.
@Suite struct FirstCallTests {
    @Test func pipelines() async {
        await #expect(processExitsWith: .success) { _ = Pipeline(try Pipeline.launch("fakesrc ! fakesink")) }
        await #expect(processExitsWith: .success) { _ = Pipeline(try Pipeline.bin("identity ! fakesink")) }
        await #expect(processExitsWith: .success) {
            #expect(throws: PipelineError.self) { try StillPicture(encoded: [1, 2, 3]) }
        }
        await #expect(processExitsWith: .success) { #expect(ElementReference.make("fakesink") != nil) }
        await #expect(processExitsWith: .success) { #expect(ElementType.register(Inverter.factory)) }
    }

    @Test func media() async {
        await #expect(processExitsWith: .success) { #expect(Caps("video/x-h264") != nil) }
        await #expect(processExitsWith: .success) { #expect(Caps.permanent("video/x-h264") != nil) }
        await #expect(processExitsWith: .success) { #expect(Caps.any.isAny) }
        await #expect(processExitsWith: .success) {
            let buffer = Buffer(copying: [1, 2, 3])
            let bytes = buffer?.copyBytes()
            #expect(bytes == [1, 2, 3])
        }
        await #expect(processExitsWith: .success) {
            let buffer = Buffer(size: 3)
            let size = buffer?.size
            #expect(size == 3)
        }
        await #expect(processExitsWith: .success) {
            let buffer = Buffer()
            let size = buffer.size
            #expect(size == 0)
        }
        await #expect(processExitsWith: .success) {
            let buffer = try OutputMemory().makeBuffer(size: 3)
            let size = buffer.size
            #expect(size == 3)
        }
    }

    @Test func events() async {
        await #expect(processExitsWith: .success) { _ = Event.endOfStream() }
        await #expect(processExitsWith: .success) { _ = Event.startOfFlush() }
        await #expect(processExitsWith: .success) { _ = Event.endOfFlush(resetTime: true) }
        await #expect(processExitsWith: .success) { _ = Event.gap(at: 0, duration: nil) }
        await #expect(processExitsWith: .success) { _ = Event.selectStreams(["a"]) }
    }

    @Test func theRest() async {
        await #expect(processExitsWith: .success) { #expect(Context(type: "a.b", persistent: true) != nil) }
        await #expect(processExitsWith: .success) { DebugCategory("first", "").log(.error, nil, "a line") }
        await #expect(processExitsWith: .success) { _ = TypeFinder.mediaType(of: [0x49, 0x44, 0x33, 3, 0, 0]) }
        await #expect(processExitsWith: .success) { _ = HTTPClientWatch { _ in } }
        await #expect(processExitsWith: .success) { #expect(Environment.gstreamerVersion.major == 1) }
        await #expect(processExitsWith: .success) {
            #expect(throws: ConfigurationFile.Failure.self) { _ = try ConfigurationFile(contents: [0x78]) }
        }
        await #expect(processExitsWith: .success) {
            let finder = TypeFinder(name: "first", rank: .primary, extensions: ["x"], caps: "a/b") { _ in false }
            #expect(finder.register())
        }
        await #expect(processExitsWith: .success) {
            if let caps = Caps("video/x-h264") { _ = ElementFactories.hasDecoder(for: caps) }
        }
    }
    @Test func surroundings() async {
        await #expect(processExitsWith: .success) {
            GStreamer.initialize()
            #expect(gst_is_initialized() != 0)
        }
        await #expect(processExitsWith: .success) {
            GStreamer.initializeWholly()
            #expect(gst_is_initialized() != 0)
        }
        await #expect(processExitsWith: .success) { #expect(Environment.variable("LATCHKEY_NO_SUCH_VARIABLE") == nil) }
        await #expect(processExitsWith: .success) { #expect(!Environment.userConfigurationFolder.isEmpty) }
        await #expect(processExitsWith: .success) { #expect(MonotonicTime.now > 0) }
        await #expect(processExitsWith: .success) {
            let sum = Monitor().withLock { 1 + 1 }
            #expect(sum == 2)
        }
    }

    @Test func values() async {
        await #expect(processExitsWith: .success) {
            let queue = StreamItemQueue()
            let isEmpty = queue.isEmpty
            #expect(isEmpty)
        }
        await #expect(processExitsWith: .success) { _ = SharedObjectType<Inverter>("FirstCall") }
        await #expect(processExitsWith: .success) { _ = ProtectionInfo.Field("first") }
        await #expect(processExitsWith: .success) {
            #expect(Event.Protection(systemID: "a", data: [1], origin: "b").data == [1])
        }
        await #expect(processExitsWith: .success) {
            #expect([Rank.none, Rank.marginal, Rank.secondary, Rank.primary].map(\.value) == [0, 64, 128, 256])
            #expect(Rank(256) == .primary)
        }
        await #expect(processExitsWith: .success) {
            #expect(PadTemplate.sink("ANY").name == "sink" && PadTemplate.source("ANY").name == "src")
            #expect(PadTemplate.sometimesSource("a_%u", "ANY").name == "a_%u")
        }
        await #expect(processExitsWith: .success) {
            let property = Property("mask", nick: "Mask", blurb: "The bits", kind: .boolean(default: true))
            #expect(property.name == "mask")
        }
        await #expect(processExitsWith: .success) {
            #expect(ActionSignal("go", arguments: []) { _, _ in true }.name == "go")
        }
        await #expect(processExitsWith: .success) { #expect(PipelineError(description: "a").description == "a") }
        await #expect(processExitsWith: .success) { #expect(StillPicture.sizeLimit > 0) }
    }
}
