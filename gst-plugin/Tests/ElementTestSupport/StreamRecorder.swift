// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import Foundation

/// Writes down, in order, what leaves a pad. Thread-safe.
public final class StreamRecorder: @unchecked Sendable {
    // SAFETY: `entries` is guarded by `condition`.

    /// A buffer as it went by.
    public struct Sample: Sendable, Equatable {
        public let bytes: [UInt8]
        public let presentationTime: UInt64
        public let decodeTime: UInt64
        public let duration: UInt64
        public let offset: UInt64
        public let flags: UInt32
        /// Where the bytes are.
        public let address: UInt
        public let hasProtection: Bool
        /// The names of the metas' APIs.
        public let metas: [String]
    }

    public enum Entry: Sendable, Equatable {
        case sample(Sample)
        /// An event's type, as GStreamer names it; with caps, their text.
        case event(String, String)
    }

    private let condition = NSCondition()
    private var entries: [Entry] = []

    public init() {}

    public var all: [Entry] {
        condition.lock()
        defer { condition.unlock() }
        return entries
    }

    public var samples: [Sample] {
        all.compactMap { if case .sample(let sample) = $0 { sample } else { nil } }
    }

    /// The types of the entries, with `sample` for samples.
    public var order: [String] {
        all.map {
            switch $0 {
            case .sample: "sample"
            case .event(let name, _): name
            }
        }
    }

    /// The caps that went by, in order.
    public var caps: [String] {
        all.compactMap { if case .event("caps", let text) = $0 { text } else { nil } }
    }

    public func clear() {
        condition.lock()
        entries.removeAll()
        condition.unlock()
    }

    /// Waits until `fits` says yes. False at the deadline.
    public func wait(until fits: ([Entry]) -> Bool) -> Bool {
        let end = Date(timeIntervalSinceNow: Double(TestProcess.deadline) / 1e9)
        condition.lock()
        defer { condition.unlock() }
        while !fits(entries) {
            if !condition.wait(until: end) { return fits(entries) }
        }
        return true
    }

    public func wait(samples count: Int) -> Bool {
        wait { $0.count { if case .sample = $0 { true } else { false } } >= count }
    }

    public func wait(event name: String) -> Bool {
        wait { $0.contains { if case .event(name, _) = $0 { true } else { false } } }
    }

    /// Records from now on. The recorder must outlive the pad's use.
    public func attach(to pad: UnsafeMutablePointer<GstPad>) {
        let mask =
            GST_PAD_PROBE_TYPE_BUFFER.rawValue | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue
            | GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue
        gst_pad_add_probe(
            pad, GstPadProbeType(mask), record, Unmanaged.passRetained(self).toOpaque(),
            { data in if let data { Unmanaged<StreamRecorder>.fromOpaque(data).release() } })
    }

    fileprivate func note(_ entry: Entry) {
        condition.lock()
        entries.append(entry)
        condition.broadcast()
        condition.unlock()
    }
}

extension StreamRecorder.Sample {
    /// Reads a buffer without taking a reference.
    public init(_ buffer: UnsafeMutablePointer<GstBuffer>) {
        var map = GstMapInfo()
        if gst_buffer_map(buffer, &map, GST_MAP_READ) != 0 {
            bytes = Array(UnsafeRawBufferPointer(start: map.data, count: Int(map.size)))
            address = UInt(bitPattern: map.data)
            gst_buffer_unmap(buffer, &map)
        } else {
            (bytes, address) = ([], 0)
        }
        presentationTime = UInt64(buffer.pointee.pts)
        decodeTime = UInt64(buffer.pointee.dts)
        duration = UInt64(buffer.pointee.duration)
        offset = UInt64(buffer.pointee.offset)
        // The tag says that memory was changed; pools and copies set it as they like.
        flags = UInt32(gst_buffer_get_flags(buffer).rawValue) & ~UInt32(GST_BUFFER_FLAG_TAG_MEMORY.rawValue)
        hasProtection = ek_buffer_protection_meta(buffer) != nil
        var state: gpointer?
        var names: [String] = []
        while let meta = gst_buffer_iterate_meta(buffer, &state) {
            names.append(String(cString: g_type_name(meta.pointee.info.pointee.api)))
        }
        metas = names.sorted()
    }
}

private func record(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let info, let data else { return GST_PAD_PROBE_OK }
    let recorder = Unmanaged<StreamRecorder>.fromOpaque(data).takeUnretainedValue()
    if info.pointee.type.rawValue & GST_PAD_PROBE_TYPE_BUFFER.rawValue != 0 {
        if let buffer = ekt_probe_buffer(info) { recorder.note(.sample(StreamRecorder.Sample(buffer))) }
    } else if let event = ekt_probe_event(info) {
        let type = GstEventType(UInt32(ek_event_type(event)))
        var text = ""
        if type == GST_EVENT_CAPS {
            var caps: UnsafeMutablePointer<GstCaps>?
            gst_event_parse_caps(event, &caps)
            if let caps, let printed = gst_caps_to_string(caps) {
                text = String(cString: printed)
                g_free(printed)
            }
        }
        recorder.note(.event(String(cString: gst_event_type_get_name(type)), text))
    }
    return GST_PAD_PROBE_OK
}
