// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyOpenSSL
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyKeySession

@testable import LatchkeyElements

/// A presentation under `playbin3`, without a screen and as fast as it goes, with a record of what leaves the
/// decryptors, the demuxers inside, and the decoders.
final class HLSPlayback: @unchecked Sendable {
    // SAFETY: what changes is guarded by `lock`, but for `origin`, which is set before the start; the pipeline is
    // thread-safe.

    /// What left a pad.
    struct Stream {
        let element: String
        let recorder: StreamRecorder

        var mediaType: String { recorder.caps.first.map { String($0.prefix { $0 != "," }) } ?? "" }
        /// The MD5 sums of the buffers.
        var sums: [String] { recorder.samples.map { HLSPlayback.md5($0.bytes) } }
    }

    let pipeline: UnsafeMutablePointer<GstElement>
    let bus: MessageBus
    let video: UnsafeMutablePointer<GstElement>
    let audio: UnsafeMutablePointer<GstElement>
    private let lock = NSLock()
    private var streamList: [Stream] = []
    private var names: [String] = []
    private var demuxerHook: (@Sendable (UnsafeMutablePointer<GstElement>) -> Void)?
    private var sourceHook: (@Sendable (UnsafeMutablePointer<GstElement>) -> Void)?
    /// What the sinks got.
    let frameRecorder = StreamRecorder()
    let soundRecorder = StreamRecorder()

    private var origin: Origin?

    /// The streams that the demuxer fetches, by the pads that it gives their segments to, and whether all is there.
    private var fetched: [UnsafeMutablePointer<GstPad>: Bool] = [:]

    /// Plays `path` of the origin, and stops only when nothing is asked of that any more.
    convenience init(
        _ origin: Origin, _ path: String, session: KeySession? = nil, settings: ControlSettings = ControlSettings(),
        isPaced: Bool = false
    ) throws {
        try self.init(origin.url(path), session: session, settings: settings, isPaced: isPaced)
        self.origin = origin
        origin.holdMedia()
    }

    /// `isPaced`: as fast as people watch.
    init(
        _ url: String, session: KeySession? = nil, settings: ControlSettings = ControlSettings(),
        player: String = "playbin3", isPaced: Bool = false
    ) throws {
        TestProcess.prepare
        setenv("GST_PLUGIN_FEATURE_RANK", "", 1)
        guard Latchkey.registerElements(), let pipeline = gst_element_factory_make(player, nil),
            let bus = gst_element_get_bus(pipeline),
            let video = gst_parse_bin_from_description_full(
                "videoconvert ! video/x-raw,format=I420 ! fakesink name=end sync=\(isPaced)", 1, nil,
                GST_PARSE_FLAG_NONE, nil),
            let audio = gst_element_factory_make("fakesink", "audio")
        else { throw TestFailure("no \(player)") }
        gst_object_ref_sink(pipeline)
        self.pipeline = pipeline
        self.bus = MessageBus(owning: bus)
        (self.video, self.audio) = (video, audio)
        // SAFETY: the pipeline stops before this object goes.
        g_signal_connect_data(
            pipeline, "deep-element-added", unsafeBitCast(elementAdded, to: GCallback.self),
            Unmanaged.passUnretained(self).toOpaque(), nil, GConnectFlags(rawValue: 0))
        audio.setProperty("sync", .boolean(isPaced))
        if let end = gst_bin_get_by_name(ek_as_bin(video), "end") {
            if let pad = ElementReference(end).pad("sink") { frameRecorder.attach(to: pad.pointer) }
            gst_object_unref(end)
        }
        if let pad = ElementReference(audio).pad("sink") { soundRecorder.attach(to: pad.pointer) }
        pipeline.setProperty("uri", .string(url))
        for (name, sink) in [("video-sink", video), ("audio-sink", audio)] {
            var value = GValue()
            g_value_init(&value, gst_element_get_type())
            g_value_set_object(&value, sink)
            g_object_set_property(
                UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GObject.self), name, &value)
            g_value_unset(&value)
        }
        if let session { PipelineSession.attach(session, settings: settings, to: pipeline) }
    }

    deinit {
        origin?.letMediaPass()
        waitUntilFetched()
        gst_element_set_state(pipeline, GST_STATE_NULL)
        gst_object_unref(pipeline)
    }

    /// Whether it is what a stock demuxer sends as `Referer` for the presentation at `url`: the URL, or from GStreamer 1.26
    /// on nothing.
    static func isReferrer(_ referrer: String?, of url: String) -> Bool {
        referrer == url || (referrer == nil && Environment.gstreamerVersion.minor >= 26)
    }

    /// Waits until the demuxer has fetched every stream to its end. Where that never comes, until the origin has had
    /// nothing to do for a while.
    ///
    /// GStreamer 1.22 may use freed memory when its demuxer is stopped while it fetches something, with or without a bin
    /// around it.
    func waitUntilFetched() {
        origin?.waitUntilQuiet { [self] in
            lock.lock()
            defer { lock.unlock() }
            return !fetched.isEmpty && fetched.values.allSatisfy { $0 }
        }
    }

    @discardableResult
    func setState(_ state: GstState) -> GstStateChangeReturn { gst_element_set_state(pipeline, state) }

    /// The first error, or the end of all; throws at the deadline.
    func waitForEnd() throws -> BusMessage { try bus.next { $0.type == "error" || $0.type == "eos" } }

    func play() throws -> BusMessage {
        setState(GST_STATE_PLAYING)
        return try waitForEnd()
    }

    var streams: [Stream] {
        lock.lock()
        defer { lock.unlock() }
        return streamList
    }

    /// Calls `body` with the demuxer when it comes, before it starts.
    func onDemuxer(_ body: @escaping @Sendable (UnsafeMutablePointer<GstElement>) -> Void) {
        lock.withLock { demuxerHook = body }
    }

    /// Calls `body` with the source when it comes, before it starts.
    func onSource(_ body: @escaping @Sendable (UnsafeMutablePointer<GstElement>) -> Void) {
        lock.withLock { sourceHook = body }
    }

    /// GStreamer's own demuxer. Never used but for comparison.
    private var stockDemuxer: UnsafeMutablePointer<GstElement>?
    private var lastBin: AdaptiveBin?

    /// The demuxer that is in the pipeline.
    var demuxer: HLSDemuxer? { bin as? HLSDemuxer }
    /// The same, or the one for DASH or Smooth Streaming.
    var bin: AdaptiveBin? { lock.withLock { lastBin } }

    /// The MD5 sums of the decoded pictures.
    var frames: [String] { frameRecorder.samples.map { Self.md5($0.bytes) } }

    /// The factories of all elements that ever came.
    var elements: [String] {
        lock.lock()
        defer { lock.unlock() }
        return names
    }

    /// The sums of the stream of that type that the elements with that prefix sent; nil: where samples are clear first.
    func packets(_ type: String, from prefix: String? = nil) -> [String] {
        let prefix = prefix ?? (elements.contains("latchkeyisodec") ? "qtdemux" : "latchkey")
        return streams.filter { $0.element.hasPrefix(prefix) && $0.mediaType.hasPrefix(type) }.flatMap(\.sums)
    }

    fileprivate func add(_ element: UnsafeMutablePointer<GstElement>) {
        let reference = ElementReference(element)
        guard let name = reference.factoryName else { return }
        let implementation = AdaptiveBin.implementation(of: element)
        let isStock = ["hlsdemux2", "dashdemux2", "mssdemux2"].contains(name)
        let (demuxerHook, sourceHook, stockDemuxer) = lock.withLock {
            names.append(name)
            if isStock { self.stockDemuxer = element }
            if let implementation { lastBin = implementation }
            return (self.demuxerHook, self.sourceHook, self.stockDemuxer)
        }
        if name == "souphttpsrc" { sourceHook?(element) }
        if isStock { reference.onPadAdded { [origin] _ in origin?.letMediaPass() } }
        if name == "parsebin", let stockDemuxer, let sink = reference.pad("sink"),
            gst_object_has_as_ancestor(ek_as_object(element), ek_as_object(stockDemuxer)) != 0
        {
            watchFetching(sink)
        }
        // Other tests register secure decryptors, in the same process.
        if implementation is HLSDemuxer { element.setProperty("iso-path", .string("box")) }
        if implementation != nil { demuxerHook?(element) }
        if name.hasPrefix("latchkey"), name.hasSuffix("dec"), let source = reference.pad("src") { record(source, name) }
        if name == "qtdemux" || name == "tsdemux" {
            reference.onPadAdded { [weak self] in self?.record($0, name) }
        }
    }

    private func watchFetching(_ sink: PadReference) {
        let pad = sink.pointer
        setFetched(false, pad)
        sink.probeEvents(.downstream) { [weak self] event in
            switch event.kind {
            case .endOfStream: self?.setFetched(true, pad)
            case .flushStart: self?.setFetched(false, pad)
            default: break
            }
            return event
        }
    }

    private func setFetched(_ isFetched: Bool, _ pad: UnsafeMutablePointer<GstPad>) {
        lock.lock()
        defer { lock.unlock() }
        fetched[pad] = isFetched
    }

    private func record(_ pad: PadReference, _ name: String) {
        let recorder = StreamRecorder()
        recorder.attach(to: pad.pointer)
        lock.lock()
        streamList.append(Stream(element: name, recorder: recorder))
        lock.unlock()
    }

    /// Runs `body` while players take GStreamer's own demuxer.
    static func withStockDemuxer<Result>(_ body: () throws -> Result) throws -> Result {
        TestProcess.prepare
        guard Latchkey.registerElements(), let factory = gst_element_factory_find("latchkeyhlsdemux") else {
            throw TestFailure("no latchkeyhlsdemux")
        }
        let feature = factory
        defer { gst_object_unref(UnsafeMutableRawPointer(factory)) }
        let rank = gst_plugin_feature_get_rank(feature)
        gst_plugin_feature_set_rank(feature, 0)
        defer { gst_plugin_feature_set_rank(feature, rank) }
        return try body()
    }

    static func md5(_ bytes: [UInt8]) -> String {
        var digest = [UInt8](repeating: 0, count: 16)
        var size = 0
        _ = bytes.withUnsafeBytes { EVP_Q_digest(nil, "MD5", nil, $0.baseAddress, $0.count, &digest, &size) }
        return digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

private let elementAdded:
    @convention(c) (
        UnsafeMutablePointer<GstBin>?, UnsafeMutablePointer<GstBin>?, UnsafeMutablePointer<GstElement>?, gpointer?
    ) -> Void = { _, _, element, data in
        guard let element, let data else { return }
        Unmanaged<HLSPlayback>.fromOpaque(data).takeUnretainedValue().add(element)
    }
