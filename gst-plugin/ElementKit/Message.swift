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

    borrowing func withPointer<Result>(_ body: (UnsafeMutablePointer<GstMessage>) -> Result) -> Result {
        body(pointer)
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

    /// Whether `element` itself posted the message, and nothing inside it.
    public borrowing func isFrom(_ element: ElementReference) -> Bool {
        ek_message_source(pointer) == ek_as_object(element.pointer)
    }
}
