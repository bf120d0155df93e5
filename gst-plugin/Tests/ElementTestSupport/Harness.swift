// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit

/// A GstHarness around one element with pads `sink` and `src`, with a bus and a record of what the element sends.
///
/// The element starts with the harness, so properties and contexts come first. Making one ends the process where the
/// element refuses to start, as GstHarness does.
public final class Harness: @unchecked Sendable {
    // SAFETY: GstHarness is thread-safe where tests use it from two threads (push beside element calls).
    public let pointer: UnsafeMutablePointer<GstHarness>
    public let element: UnsafeMutablePointer<GstElement>
    public let bus = MessageBus()
    public let output = StreamRecorder()

    public init(
        _ factory: String, _ properties: [(String, FieldValue)] = [], context: Context? = nil,
        allocator: UnsafeMutablePointer<GstAllocator>? = nil
    ) throws {
        TestProcess.prepare
        guard let element = gst_element_factory_make(factory, nil) else { throw TestFailure("no element \(factory)") }
        self.element = element
        gst_object_ref_sink(element)
        for (name, value) in properties { element.setProperty(name, value) }
        context?.withPointer { gst_element_set_context(element, $0) }
        gst_element_set_bus(element, bus.pointer)
        if let source = gst_element_get_static_pad(element, "src") {
            output.attach(to: source)
            gst_object_unref(source)
        }
        pointer = gst_harness_new_with_element(element, "sink", "src")
        if let allocator {
            // The harness takes over a reference.
            gst_object_ref(allocator)
            gst_harness_set_propose_allocator(pointer, allocator, nil)
        }
    }

    deinit {
        gst_element_set_state(element, GST_STATE_NULL)
        gst_element_set_bus(element, nil)
        gst_harness_teardown(pointer)
        gst_object_unref(element)
    }

    public func start(caps: String) { gst_harness_set_src_caps_str(pointer, caps) }

    /// Sends the caps again, without a new stream and segment.
    public func change(caps: String) -> Bool {
        guard let caps = Caps(caps) else { return false }
        return push(Event(caps: caps))
    }

    /// A copy of the bytes.
    public func push(_ bytes: [UInt8]) -> FlowResult {
        guard let buffer = Buffer(copying: bytes) else { return .error }
        return push(buffer)
    }

    public func push(_ buffer: consuming Buffer) -> FlowResult {
        FlowResult(rawValue: Int32(gst_harness_push(pointer, buffer.release()).rawValue)) ?? .custom
    }

    @discardableResult
    public func push(_ event: consuming Event) -> Bool { gst_harness_push_event(pointer, event.release()) != 0 }

    public func pushEndOfStream() -> Bool { push(Event.endOfStream()) }

    /// What came out and was not pulled yet, without waiting.
    public func pull() -> [UInt8]? { gst_harness_try_pull(pointer).map { Buffer(owning: $0).copyBytes() } }

    /// Waits for what comes out.
    public func waitAndPull() -> [UInt8]? { gst_harness_pull(pointer).map { Buffer(owning: $0).copyBytes() } }

    public func set(_ property: String, _ value: FieldValue) { element.setProperty(property, value) }

    public func setState(_ state: GstState) -> GstStateChangeReturn { gst_element_set_state(element, state) }

    public func sinkPad<Result>(_ body: (UnsafeMutablePointer<GstPad>) -> Result) throws -> Result {
        guard let pad = gst_element_get_static_pad(element, "sink") else { throw TestFailure("no sink pad") }
        defer { gst_object_unref(pad) }
        return body(pad)
    }
}

extension Harness {
    /// A property as GStreamer prints it.
    public func propertyText(_ name: String) -> String? {
        var value = GValue()
        g_object_get_property(UnsafeMutableRawPointer(element).assumingMemoryBound(to: GObject.self), name, &value)
        defer { g_value_unset(&value) }
        guard let text = gst_value_serialize(&value) else { return nil }
        defer { g_free(text) }
        return String(cString: text)
    }
}
