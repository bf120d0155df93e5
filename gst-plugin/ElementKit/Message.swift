// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer

/// One reference to a `GstMessage`, given back when the value goes.
public struct Message: ~Copyable, @unchecked Sendable {
    // SAFETY: the reference is owned by this value alone; messages are immutable once posted.
    private let pointer: UnsafeMutablePointer<GstMessage>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstMessage>) { self.pointer = pointer }

    deinit { ek_mini_object_unref(pointer) }

    /// Hands the reference to the caller.
    public consuming func release() -> UnsafeMutablePointer<GstMessage> {
        let pointer = self.pointer
        discard self
        return pointer
    }

    borrowing func withPointer<Result>(_ body: (UnsafeMutablePointer<GstMessage>) -> Result) -> Result {
        body(pointer)
    }

    /// What it is, as far as bins here care.
    public enum Kind: Sendable { case error, warning, information, element, streamCollection, streamsSelected, other }
    /// What it is.
    public var kind: Kind {
        switch GstMessageType(ek_message_type(pointer)) {
        case GST_MESSAGE_ERROR: .error
        case GST_MESSAGE_WARNING: .warning
        case GST_MESSAGE_INFO: .information
        case GST_MESSAGE_ELEMENT: .element
        case GST_MESSAGE_STREAM_COLLECTION: .streamCollection
        case GST_MESSAGE_STREAMS_SELECTED: .streamsSelected
        default: .other
        }
    }

    /// The message with every text of it changed: the fields of an element message; the text of errors, warnings
    /// and informations, with that for developers. All else stays, and messages of other kinds do.
    public consuming func mapTexts(_ change: (String) -> String) -> Message {
        switch kind {
        case .error, .warning, .information, .element: break
        case .streamCollection, .streamsSelected, .other: return self
        }
        var changes = changedTexts(change)
        guard !changes.isEmpty, let copy = gst_message_copy(pointer) else { return self }
        let structure = gst_message_writable_structure(copy)
        for index in changes.indices {
            gst_structure_take_value(structure, changes[index].name, &changes[index].value)
        }
        return Message(owning: copy)
    }

    /// The fields that are not as they were, texts and `GError`s.
    private borrowing func changedTexts(_ change: (String) -> String) -> [(name: String, value: GValue)] {
        guard let structure = gst_message_get_structure(pointer) else { return [] }
        var changes: [(name: String, value: GValue)] = []
        for index in 0..<max(gst_structure_n_fields(structure), 0) {
            guard let name = gst_structure_nth_field_name(structure, guint(index)),
                let value = gst_structure_get_value(structure, name)
            else { continue }
            var changed = GValue()
            if ek_value_holds(value, g_error_get_type()) != 0 {
                // SAFETY: a GValue of this type holds a GError or nothing.
                guard let error = g_value_get_boxed(value)?.assumingMemoryBound(to: GError.self).pointee,
                    let text = error.message.map({ String(cString: $0) }), case let other = change(text), other != text
                else { continue }
                ek_value_init(&changed, g_error_get_type())
                g_value_take_boxed(&changed, g_error_new_literal(error.domain, error.code, other))
            } else if case .string(let text?) = FieldValue(reading: value), case let other = change(text), other != text
            {
                ek_value_init(&changed, ek_type_string())
                g_value_set_string(&changed, other)
            } else {
                continue
            }
            changes.append((String(cString: name), changed))
        }
        return changes
    }

    /// Whether it is an error that GStreamer has this code for.
    public borrowing func isStreamError(_ code: GstStreamError) -> Bool {
        guard kind == .error else { return false }
        var error: UnsafeMutablePointer<GError>?
        gst_message_parse_error(pointer, &error, nil)
        guard let error else { return false }
        defer { g_error_free(error) }
        return error.pointee.domain == gst_stream_error_quark() && error.pointee.code == Int32(code.rawValue)
    }

    /// The details of an error, for people who read logs; nil for any other message, and if it has none.
    public borrowing func errorDetails() -> String? {
        guard kind == .error else { return nil }
        var details: UnsafeMutablePointer<CChar>?
        gst_message_parse_error(pointer, nil, &details)
        guard let details else { return nil }
        defer { g_free(details) }
        return String(cString: details)
    }

    /// The error with these details behind the place in the code, which is the first line of its own. Messages of other kinds,
    /// and what has no details to add, stay as they are.
    public consuming func addingErrorDetails(_ more: String) -> Message {
        guard kind == .error, !more.isEmpty, let copy = gst_message_copy(pointer) else { return self }
        var lines = (errorDetails() ?? "").split(separator: "\n", omittingEmptySubsequences: false)
        lines.insert(more[...], at: min(1, lines.count))
        var value = GValue()
        ek_value_init(&value, ek_type_string())
        g_value_set_string(&value, lines.joined(separator: "\n"))
        gst_structure_take_value(gst_message_writable_structure(copy), "debug", &value)
        return Message(owning: copy)
    }

    /// What a stream stopped with, where this is the error that elements post then; nil for any other message.
    public var stoppedFlow: FlowResult? {
        guard isStreamError(GST_STREAM_ERROR_FAILED) else { return nil }
        var details: UnsafePointer<GstStructure>?
        var flow: gint = 0
        gst_message_parse_error_details(pointer, &details)
        guard let details, gst_structure_get_int(details, "flow-return", &flow) != 0 else { return nil }
        return FlowResult(GstFlowReturn(flow))
    }

    /// The texts in a field of an element message of that name; nil for any other message.
    public borrowing func strings(_ field: String, of name: String) -> [String]? {
        guard kind == .element, let structure = gst_message_get_structure(pointer),
            gst_structure_has_name(structure, name) != 0, let value = gst_structure_get_value(structure, field),
            let texts = g_value_get_boxed(value)
        else { return nil }
        guard value.pointee.g_type == ek_type_strv() else { return nil }
        // SAFETY: a value of that type holds a vector of texts that ends with a null pointer; the message keeps it.
        let vector = texts.assumingMemoryBound(to: UnsafePointer<CChar>?.self)
        var list: [String] = []
        while let text = vector[list.count] { list.append(String(cString: text)) }
        return list
    }

    /// Whether `element` itself posted the message, and nothing inside it.
    public borrowing func isFrom(_ element: ElementReference) -> Bool {
        ek_message_source(pointer) == ek_as_object(element.pointer)
    }
}

/// One stream of a stream collection.
public struct StreamDescription: Hashable, Sendable {
    /// What a stream holds.
    public enum Kind: Sendable { case video, audio, text, other }

    /// What a selection names it by.
    public var id: String
    /// What it holds.
    public var kind: Kind

    init(_ stream: UnsafeMutablePointer<GstStream>) {
        id = gst_stream_get_stream_id(stream).map { String(cString: $0) } ?? ""
        let type = gst_stream_get_stream_type(stream)
        kind =
            type.rawValue & GST_STREAM_TYPE_VIDEO.rawValue != 0
            ? .video
            : type.rawValue & GST_STREAM_TYPE_AUDIO.rawValue != 0
                ? .audio : type.rawValue & GST_STREAM_TYPE_TEXT.rawValue != 0 ? .text : .other
    }

    static func all(of collection: UnsafeMutablePointer<GstStreamCollection>) -> [StreamDescription] {
        (0..<gst_stream_collection_get_size(collection)).compactMap { index in
            gst_stream_collection_get_stream(collection, index).map { StreamDescription($0) }
        }
    }

    /// Of a STREAMS_SELECTED message.
    static func selected(by message: UnsafeMutablePointer<GstMessage>) -> [StreamDescription] {
        (0..<gst_message_streams_selected_get_size(message)).compactMap { index in
            guard let stream = gst_message_streams_selected_get_stream(message, index) else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(stream)) }
            return StreamDescription(stream)
        }
    }
}

extension Message {
    /// The streams of a STREAM_COLLECTION message, in its order; nil for other messages.
    public borrowing func streamCollection() -> [StreamDescription]? {
        withPointer { pointer in
            guard GstMessageType(ek_message_type(pointer)) == GST_MESSAGE_STREAM_COLLECTION else { return nil }
            var collection: UnsafeMutablePointer<GstStreamCollection>?
            gst_message_parse_stream_collection(pointer, &collection)
            guard let collection else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(collection)) }
            return StreamDescription.all(of: collection)
        }
    }

    /// The streams that a STREAMS_SELECTED message says are active; nil for other messages.
    public borrowing func selectedStreams() -> [StreamDescription]? {
        withPointer { pointer in
            guard GstMessageType(ek_message_type(pointer)) == GST_MESSAGE_STREAMS_SELECTED else { return nil }
            return StreamDescription.selected(by: pointer)
        }
    }
}

extension Event {
    /// Asks for these streams of a collection and no others.
    public static func selectStreams(_ ids: [String]) -> Event {
        GStreamer.initialize()
        var list: UnsafeMutablePointer<GList>?
        for id in ids.reversed() { list = g_list_prepend(list, g_strdup(id)) }
        // SAFETY: the event copies the texts; the list and what it holds are freed here.
        defer { g_list_free_full(list, g_free) }
        return Event(owning: gst_event_new_select_streams(list))
    }
}

/// What an error or a warning on the bus is about: GStreamer's domain, and the number in it. A value; thread-safe.
public protocol MessageCode {
    /// Of GLib's error domains (`GError.domain`).
    var domain: GQuark { get }
    /// The code within the domain (`GError.code`).
    var number: Int32 { get }
}

extension GstStreamError: MessageCode {
    /// `GST_STREAM_ERROR`.
    public var domain: GQuark { gst_stream_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstCoreError: MessageCode {
    /// `GST_CORE_ERROR`.
    public var domain: GQuark { gst_core_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstResourceError: MessageCode {
    /// `GST_RESOURCE_ERROR`.
    public var domain: GQuark { gst_resource_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}
