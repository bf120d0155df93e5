// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import Foundation

/// A file through its demuxer, with a decryptor and a sink behind each pad that comes, and a record of both sides.
public final class FilePlayback: @unchecked Sendable {
    // SAFETY: `trackList` is guarded by `lock`; the pipeline is thread-safe.

    /// One pad of the demuxer.
    public struct Track: @unchecked Sendable {
        // SAFETY: the elements are in the pipeline, which outlives the track's use.
        public let name: String
        /// What the demuxer gives.
        public let input: StreamRecorder
        /// What the decryptor gives.
        public let output: StreamRecorder
        fileprivate let elements: [UnsafeMutablePointer<GstElement>]
    }

    public let pipeline: UnsafeMutablePointer<GstElement>
    public let bus: MessageBus
    private let decryptor: String
    private let properties: [(String, FieldValue)]
    private let onDecryptor: @Sendable (UnsafeMutablePointer<GstElement>) -> Void
    /// Its pads give ISO fragments.
    private let adaptiveDemuxer: UnsafeMutablePointer<GstElement>?
    private let lock = NSLock()
    private var trackList: [Track] = []

    /// Plays from `path`. `onDecryptor` sees each decryptor before it starts.
    public init(
        _ path: String, demuxer: String, decryptor: String = "latchkeycencdec",
        properties: [(String, FieldValue)] = [],
        onDecryptor: @escaping @Sendable (UnsafeMutablePointer<GstElement>) -> Void = { _ in }
    ) throws {
        TestProcess.prepare
        (self.decryptor, self.properties, self.onDecryptor) = (decryptor, properties, onDecryptor)
        guard let pipeline = gst_pipeline_new(nil), let source = gst_element_factory_make("filesrc", nil),
            let demux = gst_element_factory_make(demuxer, nil), let bus = gst_element_get_bus(pipeline)
        else { throw TestFailure("no \(demuxer)") }
        gst_object_ref_sink(pipeline)
        self.pipeline = pipeline
        adaptiveDemuxer = demuxer == "dashdemux" ? demux : nil
        self.bus = MessageBus(owning: bus)
        source.setProperty("location", .string(path))
        for element in [source, demux] { gst_bin_add(Self.bin(pipeline), element) }
        guard gst_element_link(source, demux) != 0 else { throw TestFailure("\(demuxer) does not link") }
        connect(demux)
    }

    deinit {
        gst_element_set_state(pipeline, GST_STATE_NULL)
        gst_object_unref(pipeline)
    }

    public var tracks: [Track] {
        lock.lock()
        defer { lock.unlock() }
        return trackList.sorted { $0.name < $1.name }
    }

    /// The decryptors that are in the pipeline, not owned.
    public var decryptors: [UnsafeMutablePointer<GstElement>] { tracks.compactMap(\.elements.first) }

    /// Takes the decryptors and sinks out, for another start. In NULL only.
    public func removeTracks() {
        for track in tracks {
            for element in track.elements {
                gst_element_set_state(element, GST_STATE_NULL)
                gst_bin_remove(Self.bin(pipeline), element)
            }
        }
        lock.lock()
        trackList.removeAll()
        lock.unlock()
    }

    @discardableResult
    public func setState(_ state: GstState) -> GstStateChangeReturn { gst_element_set_state(pipeline, state) }

    /// The first error, or the end of all tracks; throws at the deadline.
    public func waitForEnd() throws -> BusMessage { try bus.next { $0.type == "error" || $0.type == "eos" } }

    private static func bin(_ element: UnsafeMutablePointer<GstElement>) -> UnsafeMutablePointer<GstBin> {
        UnsafeMutableRawPointer(element).assumingMemoryBound(to: GstBin.self)
    }

    private func connect(_ demux: UnsafeMutablePointer<GstElement>) {
        // SAFETY: the pipeline stops before this object goes, and pads come only while it runs.
        g_signal_connect_data(
            demux, "pad-added", unsafeBitCast(padAdded, to: GCallback.self), Unmanaged.passUnretained(self).toOpaque(),
            nil, GConnectFlags(rawValue: 0))
    }

    fileprivate func add(_ pad: UnsafeMutablePointer<GstPad>) {
        if let adaptiveDemuxer, let parent = gst_pad_get_parent_element(pad) {
            defer { gst_object_unref(parent) }
            // Its pads have no caps yet when they come.
            if parent == adaptiveDemuxer { return addDemuxer(behind: pad) }
        }
        guard let element = gst_element_factory_make(decryptor, nil),
            let sink = gst_element_factory_make("fakesink", nil),
            let sinkPad = gst_element_get_static_pad(element, "sink"),
            let sourcePad = gst_element_get_static_pad(element, "src")
        else { return }
        defer {
            gst_object_unref(sinkPad)
            gst_object_unref(sourcePad)
        }
        for (name, value) in properties { element.setProperty(name, value) }
        sink.setProperty("async", .boolean(false))
        onDecryptor(element)
        let name = gst_object_get_name(ek_as_object(pad)).map { text -> String in
            defer { g_free(text) }
            return String(cString: text)
        }
        let track = Track(
            name: name ?? "", input: StreamRecorder(), output: StreamRecorder(), elements: [element, sink])
        track.input.attach(to: sinkPad)
        track.output.attach(to: sourcePad)
        lock.lock()
        trackList.append(track)
        lock.unlock()
        for element in [element, sink] { gst_bin_add(Self.bin(pipeline), element) }
        gst_element_link(element, sink)
        for element in [sink, element] { gst_element_sync_state_with_parent(element) }
        if gst_pad_link(pad, sinkPad) != GST_PAD_LINK_OK {
            // Clear media, which a decryptor refuses at the start.
            if let sinkPad = gst_element_get_static_pad(sink, "sink") {
                gst_element_unlink(element, sink)
                gst_pad_link(pad, sinkPad)
                gst_object_unref(sinkPad)
            }
        }
    }

    private func addDemuxer(behind pad: UnsafeMutablePointer<GstPad>) {
        guard let demux = gst_element_factory_make("qtdemux", nil),
            let sinkPad = gst_element_get_static_pad(demux, "sink")
        else { return }
        gst_bin_add(Self.bin(pipeline), demux)
        connect(demux)
        gst_element_sync_state_with_parent(demux)
        gst_pad_link(pad, sinkPad)
        gst_object_unref(sinkPad)
    }
}

private let padAdded:
    @convention(c) (UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstPad>?, gpointer?) -> Void = {
        _, pad, data in
        guard let pad, let data else { return }
        Unmanaged<FilePlayback>.fromOpaque(data).takeUnretainedValue().add(pad)
    }
