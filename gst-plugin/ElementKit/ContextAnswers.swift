// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// Answers the questions of one type that the elements of a pipeline ask the application (`GST_MESSAGE_NEED_CONTEXT`), for
/// as long as the pipeline is there.
///
/// What the application has answered itself stays.
public final class ContextAnswers: @unchecked Sendable {
    // SAFETY: signal connections are thread-safe; everything else is set in `init`.
    private let bus: UnsafeMutablePointer<GstBus>
    private var handler: gulong = 0
    private let type: String
    private let field: String
    private let list: String
    private let answer: @Sendable ([String]) -> String?

    /// Has the pipeline keep the answers, in place of former ones of that type. A question has a list of texts in `list`;
    /// the answer is one text in `field`, or nil for none. Does nothing where the element has no bus. Thread-safe.
    public static func set(
        on pipeline: UnsafeMutablePointer<GstElement>, type: String, list: String, field: String,
        _ answer: @escaping @Sendable ([String]) -> String?
    ) {
        guard let bus = gst_element_get_bus(pipeline) else { return }
        let answers = ContextAnswers(bus, type, list, field, answer)
        // SAFETY: the pipeline gives the box up when it goes, or when another one takes its place.
        g_object_set_data_full(
            UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GObject.self), "latchkey-answers-\(type)",
            Unmanaged.passRetained(answers).toOpaque(),
            { if let box = $0 { Unmanaged<ContextAnswers>.fromOpaque(box).release() } })
    }

    /// Takes over the reference to the bus.
    private init(
        _ bus: UnsafeMutablePointer<GstBus>, _ type: String, _ list: String, _ field: String,
        _ answer: @escaping @Sendable ([String]) -> String?
    ) {
        (self.bus, self.type, self.list, self.field, self.answer) = (bus, type, list, field, answer)
        gst_bus_enable_sync_message_emission(bus)
        // SAFETY: the signal is disconnected before this object goes. A handler that runs meanwhile holds it.
        handler = connectSignal(
            "sync-message::need-context", of: UnsafeMutableRawPointer(bus),
            unsafeBitCast(needContext, to: GCallback.self), Box(self))
    }

    deinit {
        g_signal_handler_disconnect(UnsafeMutableRawPointer(bus), handler)
        gst_bus_disable_sync_message_emission(bus)
        gst_object_unref(UnsafeMutableRawPointer(bus))
    }

    fileprivate final class Box {
        weak var answers: ContextAnswers?
        init(_ answers: ContextAnswers) { self.answers = answers }
    }

    fileprivate func hear(_ message: UnsafeMutablePointer<GstMessage>) {
        var asked: UnsafePointer<CChar>?
        guard gst_message_parse_context_type(message, &asked) != 0, let asked, String(cString: asked) == type,
            let source = ek_message_source(message)
        else { return }
        let element = ElementReference(UnsafeMutableRawPointer(source).assumingMemoryBound(to: GstElement.self))
        guard element.context(type: type) == nil, let answer = answer(texts(of: message)),
            let context = Context(type: type, persistent: true)
        else { return }
        context.withPointer { context in
            var value = GValue()
            ek_value_init(&value, ek_type_string())
            g_value_set_string(&value, answer)
            gst_structure_take_value(gst_context_writable_structure(context), field, &value)
        }
        element.set(context)
    }

    private func texts(of message: UnsafeMutablePointer<GstMessage>) -> [String] {
        guard let structure = gst_message_get_structure(message),
            let value = gst_structure_get_value(structure, list), ek_value_holds(value, g_strv_get_type()) != 0,
            var next = g_value_get_boxed(value)?.assumingMemoryBound(to: UnsafePointer<CChar>?.self)
        else { return [] }
        var texts: [String] = []
        // SAFETY: such a list ends in a null pointer.
        while let text = next.pointee {
            texts.append(String(cString: text))
            next += 1
        }
        return texts
    }
}

private let needContext:
    @convention(c) (UnsafeMutablePointer<GstBus>?, UnsafeMutablePointer<GstMessage>?, gpointer?) -> Void = {
        _, message, data in
        guard let message, let data else { return }
        Unmanaged<ContextAnswers.Box>.fromOpaque(data).takeUnretainedValue().answers?.hear(message)
    }
