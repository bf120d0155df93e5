// SPDX-License-Identifier: MPL-2.0

import CGStreamer

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

    public enum Kind: Sendable { case error, warning, element, streamCollection, other }

    public var kind: Kind {
        switch GstMessageType(ek_message_type(pointer)) {
        case GST_MESSAGE_ERROR: .error
        case GST_MESSAGE_WARNING: .warning
        case GST_MESSAGE_ELEMENT: .element
        case GST_MESSAGE_STREAM_COLLECTION: .streamCollection
        default: .other
        }
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
