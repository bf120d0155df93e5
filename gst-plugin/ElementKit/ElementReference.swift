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

    /// The rank of a factory; 0 where there is none of that name.
    package static func rank(ofFactory name: String) -> UInt32 {
        guard let factory = gst_element_factory_find(name) else { return 0 }
        defer { gst_object_unref(UnsafeMutableRawPointer(factory)) }
        return gst_plugin_feature_get_rank(factory)
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

    /// Whether the pipeline plays, or was asked to.
    package var isAskedToPlay: Bool {
        withTopLevel {
            UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstElement.self).pointee.target_state
                == GST_STATE_PLAYING
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
            // SAFETY: the path is this call's own.
            let path = gst_object_get_path_string(ek_as_object(pointer))
            defer { g_free(path) }
            // As GStreamer writes it for the others.
            let place = "\(file)(\(line)): \(function) (): \(path.map { String(cString: $0) } ?? ""):"
            postError(beyond: demuxer, domain, code, text, "\(place)\n\(debug)")
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

    /// Whether a player made the source of what comes to the element, for a URI, with no queue in between whose level says
    /// how fast the network is: `playbin3` and the bins that it is made of.
    public var hasPlayersSource: Bool { ek_has_players_source(pointer) != 0 }

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
        forEachNeighbour(madeBy: factory) { neighbour in
            if let element = Element.implementation(of: neighbour.pointer) { body(element) }
        }
    }

    /// The same with any elements that a factory made.
    public func forEachNeighbour(madeBy factory: String, _ body: (ElementReference) -> Void) {
        guard let found = ek_elements_of_factory_around(pointer, factory) else { return }
        defer { g_ptr_array_unref(found) }
        for index in 0..<Int(found.pointee.len) {
            // SAFETY: the array holds references to that many elements.
            guard let item = found.pointee.pdata[index] else { continue }
            body(ElementReference(item.assumingMemoryBound(to: GstElement.self)))
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
        connectPadSignal(signal, of: pointer, body)
    }
}

/// Connects to a signal. `callback`: a C function of the signal's type, whose last argument is `box`. The connection keeps `box`
/// until it ends, with the instance at the latest.
@discardableResult
func connectSignal(
    _ signal: String, of instance: UnsafeMutableRawPointer, _ callback: GCallback, _ box: AnyObject
) -> gulong {
    // SAFETY: the connection owns one reference, and gives it up once.
    g_signal_connect_data(
        instance, signal, callback, Unmanaged.passRetained(box).toOpaque(),
        { data, _ in if let data { Unmanaged<AnyObject>.fromOpaque(data).release() } }, GConnectFlags(rawValue: 0))
}

/// Connects to a signal whose only argument is a pad. `instance`: the element or pad that emits it.
func connectPadSignal(
    _ signal: String, of instance: UnsafeMutableRawPointer, _ body: @escaping (PadReference) -> Void
) -> gulong {
    connectSignal(signal, of: instance, unsafeBitCast(padSignal, to: GCallback.self), PadHandler(body))
}

/// Connects to the changes of a property. `instance`: the element or pad that has it.
func connectNotice(
    of property: String, _ instance: UnsafeMutableRawPointer, _ body: @escaping () -> Void
) -> gulong {
    connectSignal("notify::\(property)", of: instance, unsafeBitCast(notice, to: GCallback.self), NoticeHandler(body))
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

private let padSignal: @convention(c) (gpointer?, UnsafeMutablePointer<GstPad>?, gpointer?) -> Void = { _, pad, data in
    guard let pad, let data else { return }
    Unmanaged<PadHandler>.fromOpaque(data).takeUnretainedValue().body(PadReference(sharing: pad))
}

private final class NoticeHandler {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
}

private let notice: @convention(c) (gpointer?, gpointer?, gpointer?) -> Void = { _, _, data in
    guard let data else { return }
    Unmanaged<NoticeHandler>.fromOpaque(data).takeUnretainedValue().body()
}

extension UnsafeMutablePointer<GstElement> {
    /// Sets a property of any element, for applications and tests written in Swift.
    public func setProperty(_ name: String, _ value: FieldValue) {
        var stored = GValue()
        ek_value_init(&stored, value.type)
        value.store(in: &stored)
        // SAFETY: an element is a GObject; GLib copies the value.
        g_object_set_property(UnsafeMutableRawPointer(self).assumingMemoryBound(to: GObject.self), name, &stored)
        g_value_unset(&stored)
    }

    /// Reads a property of any element, of one of the types that `FieldValue` knows.
    public func property(_ name: String) -> FieldValue {
        var stored = GValue()
        // SAFETY: an element is a GObject; the value is this function's, and is unset in the end.
        g_object_get_property(UnsafeMutableRawPointer(self).assumingMemoryBound(to: GObject.self), name, &stored)
        defer { g_value_unset(&stored) }
        return FieldValue(reading: &stored)
    }

    /// Emits an action signal that returns a boolean. False where the element has no such signal.
    public func emit(_ signal: String, _ arguments: [FieldValue]) -> Bool {
        let type = ek_object_type(self)
        let id = g_signal_lookup(signal, type)
        guard id != 0 else { return false }
        var values = [GValue](repeating: GValue(), count: arguments.count + 1)
        ek_value_init(&values[0], type)
        g_value_set_object(&values[0], UnsafeMutableRawPointer(self))
        for (index, argument) in arguments.enumerated() {
            ek_value_init(&values[index + 1], argument.type)
            argument.store(in: &values[index + 1])
        }
        var result = GValue()
        ek_value_init(&result, ek_type_boolean())
        g_signal_emitv(values, id, 0, &result)
        for index in values.indices { g_value_unset(&values[index]) }
        return g_value_get_boolean(&result) != 0
    }
}

extension ElementReference {
    /// What a source element reads, such as the `location` of `souphttpsrc`; nil for other elements, and where nothing is set.
    public var sourceURI: String? {
        guard let handler = sourceHandler, let text = gst_uri_handler_get_uri(handler) else { return nil }
        defer { g_free(text) }
        return String(cString: text)
    }

    /// Has a source element read something else. For one that has not begun: below PAUSED. False where it refuses.
    public func setSourceURI(_ uri: String) -> Bool {
        guard let handler = sourceHandler else { return false }
        return gst_uri_handler_set_uri(handler, uri, nil) != 0
    }

    private var sourceHandler: OpaquePointer? {
        let object = UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GTypeInstance.self)
        guard g_type_check_instance_is_a(object, gst_uri_handler_get_type()) != 0 else { return nil }
        let handler = OpaquePointer(pointer)
        return gst_uri_handler_get_uri_type(handler) == GST_URI_SRC ? handler : nil
    }

    /// Calls `body` with each element that has a URI: this one, or those in this bin and in bins inside it.
    public func forEachWithURI(_ body: (ElementReference) -> Void) {
        guard Pipeline.isBin(pointer) else { return body(self) }
        let bin = UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GstBin.self)
        guard let iterator = gst_bin_iterate_all_by_interface(bin, gst_uri_handler_get_type()) else { return }
        defer { gst_iterator_free(iterator) }
        var seen: Set<OpaquePointer> = []
        var value = GValue()
        while true {
            switch gst_iterator_next(iterator, &value) {
            case GST_ITERATOR_OK:
                if let object = g_value_get_object(&value), seen.insert(OpaquePointer(object)).inserted {
                    // SAFETY: bins hold elements; the value keeps this one alive.
                    body(ElementReference(object.assumingMemoryBound(to: GstElement.self)))
                }
                g_value_reset(&value)
            case GST_ITERATOR_RESYNC: gst_iterator_resync(iterator)
            default:
                if value.g_type != 0 { g_value_unset(&value) }
                return
            }
        }
    }
}

extension ElementReference {
    /// Runs `body` while the state of the pipeline around the element does not change: at once if no change is under way,
    /// else on a thread of GStreamer's when the change is over. `body` itself finds out what there is to do then.
    ///
    /// For a flush that no seek asked for. A sink that is flushed while it goes to NULL waits there for a preroll for
    /// ever, and a queue starts its thread again while it is stopped.
    public func whileStateStays(_ body: @escaping @Sendable () -> Void) {
        if withStateLock(waiting: false, body) { return }
        // SAFETY: GStreamer keeps the element until the call is over, and gives up the box once.
        gst_element_call_async(
            pointer,
            { element, box in
                guard let element, let box else { return }
                let body = Unmanaged<StateBody>.fromOpaque(box).takeUnretainedValue().body
                _ = ElementReference(element).withStateLock(waiting: true, body)
            }, Unmanaged.passRetained(StateBody(body)).toOpaque(),
            { box in if let box { Unmanaged<StateBody>.fromOpaque(box).release() } })
    }

    /// Runs `body` on a thread of GStreamer's, and keeps the element until it is over.
    public func callAsync(_ body: @escaping @Sendable () -> Void) {
        // SAFETY: GStreamer calls this once and gives up the box once.
        gst_element_call_async(
            pointer, { _, box in if let box { Unmanaged<StateBody>.fromOpaque(box).takeUnretainedValue().body() } },
            Unmanaged.passRetained(StateBody(body)).toOpaque(),
            { box in if let box { Unmanaged<StateBody>.fromOpaque(box).release() } })
    }

    private func withStateLock(waiting: Bool, _ body: () -> Void) -> Bool {
        withTopLevel { top in
            let element = UnsafeMutableRawPointer(top).assumingMemoryBound(to: GstElement.self)
            // SAFETY: `withTopLevel` keeps the element, and the lock is a part of it.
            if waiting {
                g_rec_mutex_lock(&element.pointee.state_lock)
            } else if g_rec_mutex_trylock(&element.pointee.state_lock) == 0 {
                return false
            }
            defer { g_rec_mutex_unlock(&element.pointee.state_lock) }
            // The thread that changes the state gets the lock as well.
            if !waiting, element.pointee.pending_state != GST_STATE_VOID_PENDING { return false }
            body()
            return true
        }
    }
}

private final class StateBody {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

/// What GStreamer's registry has.
public enum ElementFactories {
    /// Whether a player would find a decoder that takes these caps. Thread-safe.
    public static func hasDecoder(for caps: Caps) -> Bool {
        GStreamer.initialize()
        let all = gst_element_factory_list_get_elements(ek_factory_type_decoder(), GST_RANK_MARGINAL)
        defer { gst_plugin_feature_list_free(all) }
        let fitting = caps.withPointer { gst_element_factory_list_filter(all, $0, GST_PAD_SINK, 0) }
        defer { gst_plugin_feature_list_free(fitting) }
        return fitting != nil
    }
}
