// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// The `GstElement` of an `Element`, not owned: valid for as long as the Swift object is.
public struct ElementReference: @unchecked Sendable {
    // SAFETY: GstElement is thread-safe where its API says so; only such functions are called.
    /// Lent; valid as long as the element lives.
    public let pointer: UnsafeMutablePointer<GstElement>

    /// Does not keep the element alive.
    public init(_ pointer: UnsafeMutablePointer<GstElement>) { self.pointer = pointer }

    /// The element's name, for logs and messages.
    public var name: String {
        guard let text = gst_object_get_name(ek_as_object(pointer)) else { return "" }
        defer { g_free(text) }
        return String(cString: text)
    }

    /// Whether this element, or a bin around it, is on its way to READY or NULL. A thread that waits asks this now
    /// and then: adaptive demuxers stop their own thread before they stop their children.
    public var isBeingStopped: Bool { ek_is_being_stopped(pointer) != 0 }

    /// Whether all sinks of the pipeline have shown something, at some time since it left READY.
    public var hasPrerolled: Bool {
        withTopLevel { top in
            var state = GST_STATE_VOID_PENDING
            gst_element_get_state(
                UnsafeMutableRawPointer(top).assumingMemoryBound(to: GstElement.self), &state, nil, 0)
            return state.rawValue >= GST_STATE_PAUSED.rawValue
        }
    }

    /// Whether the pipeline is on its way to another state, as while a sink waits for something to show.
    public var isChangingState: Bool {
        withTopLevel { top in
            gst_element_get_state(
                UnsafeMutableRawPointer(top).assumingMemoryBound(to: GstElement.self), nil, nil, 0)
                == GST_STATE_CHANGE_ASYNC
        }
    }

    /// Whether messages come to a bus that takes them: that of a pipeline at NULL does not.
    public var hasListener: Bool { ek_has_listener(pointer) != 0 }

    /// The outermost bin around the element, or the element itself.
    public func withTopLevel<Result>(_ body: (UnsafeMutablePointer<GObject>) -> Result) -> Result {
        var object = UnsafeMutablePointer<GstObject>(
            OpaquePointer(gst_object_ref(UnsafeMutableRawPointer(pointer))))
        while let current = object, let parent = gst_object_get_parent(current) {
            gst_object_unref(UnsafeMutableRawPointer(current))
            object = parent
        }
        defer { if let object { gst_object_unref(UnsafeMutableRawPointer(object)) } }
        return body(
            UnsafeMutableRawPointer(object ?? ek_as_object(pointer)).assumingMemoryBound(to: GObject.self))
    }

    /// Posts an element message with a structure of that name.
    public func post(_ name: String, _ fields: [(String, FieldValue)]) {
        let object = ek_as_object(pointer)
        gst_element_post_message(pointer, gst_message_new_element(object, FieldValue.makeStructure(name, fields)))
    }

    /// Posts an error. The code says of what domain it is.
    public func postError(
        _ code: some MessageCode, _ text: String, debug: String, file: StaticString = #fileID,
        function: StaticString = #function, line: Int = #line
    ) {
        postMessage(GST_MESSAGE_ERROR, code.domain, code.number, text, debug, file, function, line)
    }

    /// Posts a warning. Playback goes on.
    public func postWarning(
        _ code: some MessageCode, _ text: String, debug: String, file: StaticString = #fileID,
        function: StaticString = #function, line: Int = #line
    ) {
        postMessage(GST_MESSAGE_WARNING, code.domain, code.number, text, debug, file, function, line)
    }

    private func postMessage(
        _ type: GstMessageType, _ domain: GQuark, _ code: Int32, _ text: String, _ debug: String,
        _ file: StaticString, _ function: StaticString, _ line: Int
    ) {
        if type == GST_MESSAGE_ERROR, let demuxer = ek_adaptive_demuxer_around(pointer) {
            defer { gst_object_unref(UnsafeMutableRawPointer(demuxer)) }
            postError(beyond: demuxer, domain, code, text, "\(file)(\(line)): \(function):\n\(debug)")
            return
        }
        // SAFETY: gst_element_message_full takes over both g_malloc'ed texts; the static strings live for ever.
        gst_element_message_full(
            pointer, type, domain, code, g_strdup(text), g_strdup(debug),
            UnsafeRawPointer(file.utf8Start).assumingMemoryBound(to: CChar.self),
            UnsafeRawPointer(function.utf8Start).assumingMemoryBound(to: CChar.self), gint(line))
    }

    /// adaptivedemux2 keeps the errors of the elements inside to itself and ends their stream: the application would
    /// wait for ever. So it does not get to see them.
    private func postError(
        beyond demuxer: UnsafeMutablePointer<GstElement>, _ domain: GQuark, _ code: Int32, _ text: String,
        _ debug: String
    ) {
        let error = g_error_new_literal(domain, code, text)
        // The message copies what it is made of.
        gst_element_post_message(demuxer, gst_message_new_error(ek_as_object(pointer), error, debug))
        g_error_free(error)
    }

    /// What the whole pipeline shows now, in nanoseconds of stream time; nil where that is not known.
    public func shownPosition() -> UInt64? {
        withTopLevel { object in
            var position: gint64 = 0
            // SAFETY: elements have elements around them and nothing else.
            let top = UnsafeMutableRawPointer(object).assumingMemoryBound(to: GstElement.self)
            guard gst_element_query_position(top, GST_FORMAT_TIME, &position) != 0 else { return nil }
            return UInt64(exactly: position)
        }
    }

    /// Whether the element is inside one of GStreamer's newer adaptive demuxers, as under `playbin3`.
    public var isInsideAdaptiveDemuxer: Bool {
        guard let demuxer = ek_adaptive_demuxer_around(pointer) else { return false }
        gst_object_unref(UnsafeMutableRawPointer(demuxer))
        return true
    }

    /// The source pads, at the moment, of the newer adaptive demuxer around the element. Empty where there is none.
    public var adaptiveDemuxersPads: [PadReference] {
        guard let demuxer = ek_adaptive_demuxer_around(pointer) else { return [] }
        defer { gst_object_unref(UnsafeMutableRawPointer(demuxer)) }
        guard let list = ek_source_pads(demuxer) else { return [] }
        defer { g_ptr_array_unref(list) }
        return (0..<Int(list.pointee.len)).compactMap { list.pointee.pdata[$0] }
            .map { PadReference(sharing: $0.assumingMemoryBound(to: GstPad.self)) }
    }
}

/// A reference that does not keep the element alive. Thread-safe.
public final class WeakElement: @unchecked Sendable {
    // SAFETY: GWeakRef is thread-safe; the storage is freed only in deinit.
    private let reference = UnsafeMutablePointer<GWeakRef>.allocate(capacity: 1)

    /// Does not keep the element alive.
    public init(_ element: ElementReference) { g_weak_ref_init(reference, UnsafeMutableRawPointer(element.pointer)) }

    deinit {
        g_weak_ref_clear(reference)
        reference.deallocate()
    }

    /// Calls `body` with the Swift object while the element is kept alive; does nothing when it is gone.
    public func withElement(_ body: (Element) -> Void) { _ = map(body) }

    /// What `body` makes of the Swift object, while the element is kept alive; nil when it is gone.
    public func map<Result>(_ body: (Element) -> Result) -> Result? {
        guard let object = g_weak_ref_get(reference) else { return nil }
        defer { g_object_unref(object) }
        return body(Element.of(object))
    }
}
