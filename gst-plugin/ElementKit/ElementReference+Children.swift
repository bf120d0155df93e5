// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension ElementReference {
    /// A new element of that factory, for `Bin.add`; nil where there is no such factory.
    public static func make(_ factory: String) -> ElementReference? {
        GStreamer.initialize()
        return gst_element_factory_make(factory, nil).map { ElementReference($0) }
    }

    /// The name of the factory that the element came from.
    public var factoryName: String? {
        gst_element_get_factory(pointer).flatMap { gst_object_get_name(ek_as_object(UnsafeMutableRawPointer($0))) }.map
        { text in
            defer { g_free(text) }
            return String(cString: text)
        }
    }

    /// A pad that is there.
    public func pad(_ name: String) -> PadReference? {
        gst_element_get_static_pad(pointer, name).map { PadReference(owning: $0) }
    }

    /// Sends an event to the element itself.
    public func send(_ event: consuming Event) -> Bool { gst_element_send_event(pointer, event.release()) != 0 }

    /// Asks the element itself. Returns whether it answered.
    public func answer(_ query: borrowing Query) -> Bool { gst_element_query(pointer, query.pointer) != 0 }

    /// Calls `body` for every pad that comes, on the thread that adds it. The element keeps `body`.
    @discardableResult
    public func onPadAdded(_ body: @escaping (PadReference) -> Void) -> gulong { connect("pad-added", body) }

    /// Calls `body` for every pad that goes, on the thread that removes it. The element keeps `body`.
    public func onPadRemoved(_ body: @escaping (PadReference) -> Void) { connect("pad-removed", body) }

    /// Calls `body` with each error that is posted inside this bin: the factory of the element that posts it, and the text. On
    /// the thread that posts, in front of the bin's own handling, which stays as it is. The bin keeps `body`; there is one.
    public func observeErrorsInside(_ body: @escaping @Sendable (String, String) -> Void) {
        guard ek_is_bin(pointer) != 0, let bin = ek_as_bin(pointer) else { return }
        // SAFETY: the bus keeps the box. It is the bin's own, and has the bin as its handler's data from the start, too.
        gst_bus_set_sync_handler(
            bin.pointee.child_bus, insideHandler, Unmanaged.passRetained(InsideHandler(bin, body)).toOpaque(),
            { data in if let data { Unmanaged<InsideHandler>.fromOpaque(data).release() } })
    }

    /// Calls `body` with every element of this kit that a factory made and that is in the outermost bin around this one,
    /// or in a sink or filter that a player was given (such as `video-sink`) and has not put there yet.
    public func forEachAround(madeBy factory: String, _ body: (Element) -> Void) {
        guard let found = ek_elements_of_factory_around(pointer, factory) else { return }
        defer { g_ptr_array_unref(found) }
        for index in 0..<Int(found.pointee.len) {
            // SAFETY: the array holds references to that many elements.
            guard let item = found.pointee.pdata[index] else { continue }
            if let element = Element.implementation(of: item.assumingMemoryBound(to: GstElement.self)) { body(element) }
        }
    }

    /// Whether `element` is, or is in, what a property of the outermost bin around this one has, such as a player's
    /// `audio-sink`.
    public func hasAround(_ property: String, _ element: ElementReference) -> Bool {
        ek_is_in_property_around(pointer, property, element.pointer) != 0
    }

    /// Whether the outermost bin around this one has an element that a factory made, this one included.
    public func hasNeighbour(madeBy factory: String) -> Bool {
        guard let found = ek_elements_of_factory_around(pointer, factory) else { return false }
        defer { g_ptr_array_unref(found) }
        return found.pointee.len > 0
    }

    /// Whether the outermost bin around this one has a decoder of pictures or sound that knows what comes in and has decoded
    /// nothing so far.
    public var hasMuteDecoderAround: Bool { ek_has_mute_decoder_around(pointer) != 0 }

    @discardableResult
    private func connect(_ signal: String, _ body: @escaping (PadReference) -> Void) -> gulong {
        // SAFETY: the connection owns the box and gives it up when it ends, with the element at the latest.
        g_signal_connect_data(
            UnsafeMutableRawPointer(pointer), signal, unsafeBitCast(padSignal, to: GCallback.self),
            Unmanaged.passRetained(PadHandler(body)).toOpaque(),
            { data, _ in if let data { Unmanaged<PadHandler>.fromOpaque(data).release() } }, GConnectFlags(0))
    }
}

private final class InsideHandler {
    let bin: UnsafeMutablePointer<GstBin>
    let body: @Sendable (String, String) -> Void
    init(_ bin: UnsafeMutablePointer<GstBin>, _ body: @escaping @Sendable (String, String) -> Void) {
        (self.bin, self.body) = (bin, body)
    }

    /// As the handler that each bin's own bus has: the bin takes the message over.
    func handle(_ message: UnsafeMutablePointer<GstMessage>) {
        if GstMessageType(ek_message_type(message)) == GST_MESSAGE_ERROR, let source = ek_message_source(message),
            g_type_check_instance_is_a(
                UnsafeMutableRawPointer(source).assumingMemoryBound(to: GTypeInstance.self), gst_element_get_type())
                != 0
        {
            let element = ElementReference(
                UnsafeMutableRawPointer(source).assumingMemoryBound(to: GstElement.self))
            if case .error(_, _, let text, _, _)? = BusEvent(message, of: element.pointer) {
                body(element.factoryName ?? element.name, text)
            }
        }
        ek_bin_class(ek_object_class(bin))?.pointee.handle_message?(bin, message)
    }
}

private let insideHandler: GstBusSyncHandler = { _, message, data in
    guard let message, let data else { return GST_BUS_DROP }
    Unmanaged<InsideHandler>.fromOpaque(data).takeUnretainedValue().handle(message)
    return GST_BUS_DROP
}

private final class PadHandler {
    let body: (PadReference) -> Void
    init(_ body: @escaping (PadReference) -> Void) { self.body = body }
}

private let padSignal:
    @convention(c) (UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstPad>?, gpointer?) -> Void = {
        _, pad, data in
        guard let pad, let data else { return }
        Unmanaged<PadHandler>.fromOpaque(data).takeUnretainedValue().body(PadReference(sharing: pad))
    }
