// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer

/// A pipeline, or any element that stands alone, with one reference to it. Stopped when the last owner goes.
/// Thread-safe; changes of state are GStreamer's and may take their time.
public final class Pipeline: @unchecked Sendable {
    // SAFETY: GstElement is thread-safe where its API says so; only such functions are called.
    /// Lent; valid as long as this object is.
    public let pointer: UnsafeMutablePointer<GstElement>

    /// Takes over a floating reference, or shares an element that has an owner.
    public init(_ pointer: UnsafeMutablePointer<GstElement>) {
        gst_object_ref_sink(UnsafeMutableRawPointer(pointer))
        self.pointer = pointer
    }

    deinit {
        gst_element_set_state(pointer, GST_STATE_NULL)
        gst_object_unref(UnsafeMutableRawPointer(pointer))
    }

    /// The same for functions that take one.
    public var reference: ElementReference { ElementReference(pointer) }

    /// Asks for a state. False where GStreamer refuses at once; what fails later is an error on the bus.
    @discardableResult
    public func setState(_ state: PipelineState) -> Bool {
        gst_element_set_state(pointer, GstState(UInt32(state.rawValue))) != GST_STATE_CHANGE_FAILURE
    }

    /// What is shown now, in nanoseconds of stream time; nil where that is not known.
    public var position: UInt64? { time(gst_element_query_position) }

    /// How long it is, in nanoseconds; nil where that is not known, as in live media.
    public var duration: UInt64? { time(gst_element_query_duration) }

    private func time(
        _ query: (UnsafeMutablePointer<GstElement>?, GstFormat, UnsafeMutablePointer<gint64>?) -> gboolean
    ) -> UInt64? {
        var value: gint64 = 0
        return query(pointer, GST_FORMAT_TIME, &value) != 0 ? UInt64(exactly: value) : nil
    }

    /// Goes to a position, in nanoseconds, exactly; what is queued is thrown away. False where it cannot.
    @discardableResult
    public func seek(to position: UInt64) -> Bool {
        guard let position = gint64(exactly: position) else { return false }
        let flags = GstSeekFlags(GST_SEEK_FLAG_FLUSH.rawValue | GST_SEEK_FLAG_ACCURATE.rawValue)
        return gst_element_seek_simple(pointer, GST_FORMAT_TIME, flags, position) != 0
    }

    /// Takes the next message off the bus, or waits for one so long, in nanoseconds. For applications without a main
    /// loop: a bus that is never read keeps everything.
    public func nextMessage(waiting: UInt64) -> BusEvent?? {
        guard let bus = gst_element_get_bus(pointer) else { return nil }
        defer { gst_object_unref(UnsafeMutableRawPointer(bus)) }
        guard let message = gst_bus_timed_pop(bus, GstClockTime(waiting)) else { return nil }
        defer { ek_mini_object_unref(message) }
        return .some(BusEvent(message, of: pointer))
    }

    /// Whether other elements can be inside.
    public static func isBin(_ element: UnsafeMutablePointer<GstElement>) -> Bool { ek_is_bin(element) != 0 }

    /// Calls `body` with each element that is put into a bin, or into one inside it, on the thread that does, before the
    /// element leaves NULL. The bin keeps `body`. Does nothing for an element that is no bin.
    public static func onElementAdded(
        to bin: UnsafeMutablePointer<GstElement>, _ body: @escaping @Sendable (ElementReference) -> Void
    ) {
        guard isBin(bin) else { return }
        connectSignal(
            "deep-element-added", of: UnsafeMutableRawPointer(bin), unsafeBitCast(elementSignal, to: GCallback.self),
            ElementHandler(body))
    }

    /// A part of a pipeline in the words of gst-launch, as a bin with pads where something can be linked. `start` stands in front
    /// of them. Throws what GStreamer says of the words, with the name of the setting that has them.
    public static func bin(
        _ description: String, behind start: String = "", of setting: String? = nil
    ) throws(PipelineError) -> UnsafeMutablePointer<GstElement> {
        GStreamer.initialize()
        var error: UnsafeMutablePointer<GError>?
        let bin = gst_parse_bin_from_description_full(start + description, 1, nil, GST_PARSE_FLAG_NONE, &error)
        defer { if let error { g_error_free(error) } }
        guard let bin, error == nil else {
            if let bin { gst_object_unref(UnsafeMutableRawPointer(bin)) }
            throw PipelineError(description: (setting.map { "\($0) " } ?? "") + "“\(description)”: \(reason(error))")
        }
        return UnsafeMutableRawPointer(bin).assumingMemoryBound(to: GstElement.self)
    }

    /// A whole pipeline in the words of gst-launch. Throws what GStreamer says of the words.
    public static func launch(_ description: String) throws(PipelineError) -> UnsafeMutablePointer<GstElement> {
        GStreamer.initialize()
        var error: UnsafeMutablePointer<GError>?
        let pipeline = gst_parse_launch(description, &error)
        defer { if let error { g_error_free(error) } }
        guard let pipeline, error == nil else {
            if let pipeline { gst_object_unref(UnsafeMutableRawPointer(pipeline)) }
            throw PipelineError(description: "“\(description)”: \(reason(error))")
        }
        return pipeline
    }

    private static func reason(_ error: UnsafeMutablePointer<GError>?) -> String {
        error.flatMap { $0.pointee.message }.map { String(cString: $0) } ?? "no such pipeline"
    }

    /// The element of that name inside a bin, which keeps it.
    public static func element(_ name: String, in bin: UnsafeMutablePointer<GstElement>) -> ElementReference? {
        guard let found = gst_bin_get_by_name(ek_as_bin(bin), name) else { return nil }
        // The bin has a reference of its own.
        gst_object_unref(UnsafeMutableRawPointer(found))
        return ElementReference(found)
    }
}

/// A part of a pipeline cannot be made. `description` says which and why.
public struct PipelineError: Error, CustomStringConvertible, Sendable {
    /// In GStreamer's words.
    public let description: String

    /// For people; nothing is checked.
    public init(description: String) { self.description = description }
}

extension UnsafeMutablePointer<GstElement> {
    /// Gives an element to a property of this one, such as a player's `video-sink`.
    public func setElement(_ name: String, _ element: UnsafeMutablePointer<GstElement>) {
        var value = GValue()
        ek_value_init(&value, ek_type_element())
        g_value_set_object(&value, UnsafeMutableRawPointer(element))
        // SAFETY: an element is a GObject; the property takes a reference of its own.
        g_object_set_property(UnsafeMutableRawPointer(self).assumingMemoryBound(to: GObject.self), name, &value)
        g_value_unset(&value)
    }
}

private final class ElementHandler {
    let body: @Sendable (ElementReference) -> Void
    init(_ body: @escaping @Sendable (ElementReference) -> Void) { self.body = body }
}

private let elementSignal:
    @convention(c) (
        UnsafeMutablePointer<GstBin>?, UnsafeMutablePointer<GstBin>?, UnsafeMutablePointer<GstElement>?, gpointer?
    ) -> Void = { _, _, element, data in
        guard let element, let data else { return }
        Unmanaged<ElementHandler>.fromOpaque(data).takeUnretainedValue().body(ElementReference(element))
    }

/// A reference to any element that does not keep it alive. Thread-safe.
public final class WeakPipeline: @unchecked Sendable {
    // SAFETY: GWeakRef is thread-safe; the storage is freed only in deinit.
    private let reference = UnsafeMutablePointer<GWeakRef>.allocate(capacity: 1)

    /// Does not keep the element alive.
    public init(_ element: UnsafeMutablePointer<GstElement>) {
        g_weak_ref_init(reference, UnsafeMutableRawPointer(element))
    }

    deinit {
        g_weak_ref_clear(reference)
        reference.deallocate()
    }

    /// Calls `body` while the element is kept alive; nil when it is gone.
    @discardableResult
    public func with<Result>(_ body: (ElementReference) -> Result) -> Result? {
        guard let object = g_weak_ref_get(reference) else { return nil }
        defer { g_object_unref(object) }
        return body(ElementReference(object.assumingMemoryBound(to: GstElement.self)))
    }
}
