// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer

/// What the bus of a pipeline says, as far as an observer of playback needs it. A value; thread-safe.
public enum BusEvent: Sendable {
    /// All streams have ended.
    case endOfStream
    /// The pipeline itself has changed its state.
    case stateChanged(from: PipelineState, to: PipelineState)
    /// GLib's error domain and code, the texts, and the HTTP status of what could not be fetched, where there is one.
    case error(domain: String, code: Int32, text: String, debug: String, httpStatus: UInt32?)
    /// The same of a warning, without the status.
    case warning(text: String, debug: String)
    /// What plays of the streams that there are.
    case streamsSelected([StreamDescription])
    /// An element message: its name and those of its fields whose types `FieldValue` knows.
    case element(String, [String: FieldValue])
}

/// The states of a pipeline, as GStreamer orders them.
public enum PipelineState: Int, Sendable, Comparable {
    case null = 1
    case ready, paused, playing

    public static func < (left: PipelineState, right: PipelineState) -> Bool { left.rawValue < right.rawValue }
}

/// Sees every message of a pipeline as it is posted, and leaves it to the application all the same.
///
/// `body` is called on the thread that posts, and must not block. The application's own handlers stay as they are: this
/// is GstBus's `sync-message` signal. Ends with the last reference to it; a call that has begun may still finish then.
public final class BusObservation: @unchecked Sendable {
    // SAFETY: signal connections are thread-safe; everything else is set in `init`.
    private let bus: UnsafeMutablePointer<GstBus>
    private let handler: gulong

    fileprivate final class Body {
        let pipeline: UnsafeMutablePointer<GstElement>
        let body: @Sendable (BusEvent) -> Void
        init(_ pipeline: UnsafeMutablePointer<GstElement>, _ body: @escaping @Sendable (BusEvent) -> Void) {
            (self.pipeline, self.body) = (pipeline, body)
        }
    }

    /// Nil where the element has no bus. The pipeline is not kept alive.
    public init?(_ pipeline: UnsafeMutablePointer<GstElement>, _ body: @escaping @Sendable (BusEvent) -> Void) {
        guard let bus = gst_element_get_bus(pipeline) else { return nil }
        self.bus = bus
        gst_bus_enable_sync_message_emission(bus)
        handler = connectSignal(
            "sync-message", of: UnsafeMutableRawPointer(bus), unsafeBitCast(busSignal, to: GCallback.self),
            Body(pipeline, body))
    }

    deinit {
        g_signal_handler_disconnect(UnsafeMutableRawPointer(bus), handler)
        gst_bus_disable_sync_message_emission(bus)
        gst_object_unref(UnsafeMutableRawPointer(bus))
    }
}

private let busSignal:
    @convention(c) (UnsafeMutablePointer<GstBus>?, UnsafeMutablePointer<GstMessage>?, gpointer?) -> Void = {
        _, message, data in
        guard let message, let data else { return }
        let owner = Unmanaged<BusObservation.Body>.fromOpaque(data).takeUnretainedValue()
        guard let event = BusEvent(message, of: owner.pipeline) else { return }
        owner.body(event)
    }

extension BusEvent {
    /// Nil for messages that are of no use here. The message stays the caller's.
    init?(_ message: UnsafeMutablePointer<GstMessage>, of pipeline: UnsafeMutablePointer<GstElement>) {
        switch GstMessageType(ek_message_type(message)) {
        case GST_MESSAGE_EOS: self = .endOfStream
        case GST_MESSAGE_STATE_CHANGED:
            guard ek_message_source(message) == ek_as_object(pipeline) else { return nil }
            var (old, new) = (GST_STATE_NULL, GST_STATE_NULL)
            gst_message_parse_state_changed(message, &old, &new, nil)
            guard let from = PipelineState(rawValue: Int(old.rawValue)),
                let to = PipelineState(rawValue: Int(new.rawValue))
            else { return nil }
            self = .stateChanged(from: from, to: to)
        case GST_MESSAGE_ERROR:
            var error: UnsafeMutablePointer<GError>?
            var debug: UnsafeMutablePointer<gchar>?
            gst_message_parse_error(message, &error, &debug)
            defer { Self.free(error, debug) }
            var details: UnsafePointer<GstStructure>?
            gst_message_parse_error_details(message, &details)
            var status: guint = 0
            let hasStatus = details.map { gst_structure_get_uint($0, "http-status-code", &status) != 0 } ?? false
            self = .error(
                domain: error.flatMap { g_quark_to_string($0.pointee.domain) }.map { String(cString: $0) } ?? "",
                code: error?.pointee.code ?? 0, text: Self.text(error?.pointee.message), debug: Self.text(debug),
                httpStatus: hasStatus && status > 0 ? status : nil)
        case GST_MESSAGE_WARNING:
            var error: UnsafeMutablePointer<GError>?
            var debug: UnsafeMutablePointer<gchar>?
            gst_message_parse_warning(message, &error, &debug)
            defer { Self.free(error, debug) }
            self = .warning(text: Self.text(error?.pointee.message), debug: Self.text(debug))
        case GST_MESSAGE_STREAMS_SELECTED: self = .streamsSelected(StreamDescription.selected(by: message))
        case GST_MESSAGE_ELEMENT:
            guard let structure = gst_message_get_structure(message),
                let name = gst_structure_get_name(structure).map({ String(cString: $0) })
            else { return nil }
            var fields: [String: FieldValue] = [:]
            for index in 0..<max(gst_structure_n_fields(structure), 0) {
                guard let field = gst_structure_nth_field_name(structure, guint(index)),
                    let value = gst_structure_get_value(structure, field)
                else { continue }
                fields[String(cString: field)] = FieldValue(reading: value)
            }
            self = .element(name, fields)
        default: return nil
        }
    }

    private static func text(_ text: UnsafeMutablePointer<gchar>?) -> String { text.map { String(cString: $0) } ?? "" }

    private static func free(_ error: UnsafeMutablePointer<GError>?, _ debug: UnsafeMutablePointer<gchar>?) {
        if let error { g_error_free(error) }
        g_free(debug)
    }
}
