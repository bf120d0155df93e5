// SPDX-License-Identifier: MPL-2.0

import CGStreamer

extension ElementReference {
    /// A new element of that factory, for `Bin.add`; nil where there is no such factory.
    public static func make(_ factory: String) -> ElementReference? {
        gst_element_factory_make(factory, nil).map { ElementReference($0) }
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
    public func onPadAdded(_ body: @escaping (PadReference) -> Void) { connect("pad-added", body) }

    /// Calls `body` for every pad that goes, on the thread that removes it. The element keeps `body`.
    public func onPadRemoved(_ body: @escaping (PadReference) -> Void) { connect("pad-removed", body) }

    /// Calls `body` with every element of this kit that a factory made and that is in the outermost bin around this one,
    /// or in a sink that a player was given (`video-sink`, `audio-sink`) and has not put there yet.
    public func forEachAround(madeBy factory: String, _ body: (Element) -> Void) {
        guard let found = ek_elements_of_factory_around(pointer, factory) else { return }
        defer { g_ptr_array_unref(found) }
        for index in 0..<Int(found.pointee.len) {
            // SAFETY: the array holds references to that many elements.
            guard let item = found.pointee.pdata[index] else { continue }
            if let element = Element.implementation(of: item.assumingMemoryBound(to: GstElement.self)) { body(element) }
        }
    }

    /// Whether the outermost bin around this one has an element that a factory made, this one included.
    public func hasNeighbour(madeBy factory: String) -> Bool {
        guard let found = ek_elements_of_factory_around(pointer, factory) else { return false }
        defer { g_ptr_array_unref(found) }
        return found.pointee.len > 0
    }

    private func connect(_ signal: String, _ body: @escaping (PadReference) -> Void) {
        // SAFETY: the connection owns the box and gives it up when it ends, with the element at the latest.
        g_signal_connect_data(
            UnsafeMutableRawPointer(pointer), signal, unsafeBitCast(padSignal, to: GCallback.self),
            Unmanaged.passRetained(PadHandler(body)).toOpaque(),
            { data, _ in if let data { Unmanaged<PadHandler>.fromOpaque(data).release() } }, GConnectFlags(0))
    }
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
