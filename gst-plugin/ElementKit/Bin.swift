// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// What a bin written in Swift derives from: an `Element` with elements inside.
///
/// Subclasses add their children in `init` and expose the children's pads as their own. Any thread may call its
/// methods.
open class Bin: Element, @unchecked Sendable {
    // SAFETY: as for Element; GstBin does its own locking.

    private var bin: UnsafeMutablePointer<GstBin> { ek_as_bin(reference.pointer) }

    /// Puts a new element inside. The bin owns it from then on and takes its state along.
    @discardableResult
    public func add(_ child: ElementReference) -> Bool { gst_bin_add(bin, child.pointer) != 0 }

    /// Adds a ghost pad: it stands for `target`, the pad of a child, which may come later. Its name must be that of a
    /// template, or fit its pattern. Call it from any thread.
    @discardableResult
    public func expose(_ target: PadReference?, as name: String, template: String) -> PadReference? {
        let template = gst_element_class_get_pad_template(
            ek_element_class(ek_object_class(reference.pointer)), template)
        guard
            let ghost = target.map({ ek_ghost_pad(name, $0.pointer, template) })
                ?? gst_ghost_pad_new_no_target_from_template(name, template)
        else { return nil }
        gst_pad_set_active(ghost, 1)
        // Who sees the pad come asks at once which stream it is.
        if let target, let start = gst_pad_get_sticky_event(target.pointer, GST_EVENT_STREAM_START, 0) {
            gst_pad_store_sticky_event(ghost, start)
            ek_mini_object_unref(start)
        }
        // The element takes over the floating reference.
        let exposed = PadReference(sharing: ghost)
        return gst_element_add_pad(reference.pointer, ghost) != 0 ? exposed : nil
    }

    /// Takes a ghost pad away.
    public func withdraw(_ pad: PadReference) {
        gst_pad_set_active(pad.pointer, 0)
        gst_element_remove_pad(reference.pointer, pad.pointer)
    }

    /// Tells the bins around that this one handles streams and their selection.
    public func declareStreamsAware() { ek_set_streams_aware(reference.pointer) }

    /// Whether the bin around this one handles streams and their selection.
    public var isParentStreamsAware: Bool { ek_parent_is_streams_aware(reference.pointer) != 0 }

    /// An element was added to this bin or to one inside it. It has not left NULL yet, or is about to.
    open func elementDidAppear(_ element: ElementReference) {}

    /// A message of something inside. `forward` gives it to GStreamer's own handling, which passes most on.
    open func handle(_ message: consuming Message) { forward(message) }

    /// GStreamer's own handling of a message, which takes it over and passes most on to the application.
    public func forward(_ message: consuming Message) {
        guard let parent = parentClass(of: UnsafeMutableRawPointer(reference.pointer)),
            let parentClass = ek_bin_class(parent)
        else { return }
        parentClass.pointee.handle_message?(bin, message.release())
    }

    /// An event that was sent to the bin itself. Returns whether it was handled.
    open func send(_ event: consuming Event) -> Bool {
        guard let parent = parentClass(of: UnsafeMutableRawPointer(reference.pointer)),
            let parentClass = ek_element_class(parent), let send = parentClass.pointee.send_event
        else { return false }
        return send(reference.pointer, event.release()) != 0
    }

    /// A query that was sent to the bin itself. Returns whether it was answered.
    open func answer(_ query: borrowing Query) -> Bool {
        guard let parent = parentClass(of: UnsafeMutableRawPointer(reference.pointer)),
            let parentClass = ek_element_class(parent), let answer = parentClass.pointee.query
        else { return false }
        return answer(reference.pointer, query.pointer) != 0
    }

    static func initializeClass(_ classPointer: gpointer) {
        guard let binClass = ek_bin_class(classPointer), let elementClass = ek_element_class(classPointer) else {
            return
        }
        binClass.pointee.handle_message = handleMessage
        binClass.pointee.deep_element_added = elementAdded
        elementClass.pointee.send_event = sendEvent
        elementClass.pointee.query = answerQuery
    }

    /// Nil while the bin is being made: it may get its children then.
    fileprivate static func of(_ pointer: UnsafeMutableRawPointer) -> Bin? {
        // SAFETY: only called with instances of types that ElementType registered.
        ek_swift_object(pointer).pointee.flatMap { Unmanaged<Element>.fromOpaque($0).takeUnretainedValue() as? Bin }
    }
}

private func handleMessage(_ bin: UnsafeMutablePointer<GstBin>?, _ message: UnsafeMutablePointer<GstMessage>?) {
    guard let bin, let message else { return }
    let owned = Message(owning: message)
    Bin.of(UnsafeMutableRawPointer(bin))?.handle(owned)
}

private func elementAdded(
    _ bin: UnsafeMutablePointer<GstBin>?, _ subBin: UnsafeMutablePointer<GstBin>?,
    _ element: UnsafeMutablePointer<GstElement>?
) {
    guard let bin, let element else { return }
    Bin.of(UnsafeMutableRawPointer(bin))?.elementDidAppear(ElementReference(element))
    if let parent = parentClass(of: UnsafeMutableRawPointer(bin)), let parentClass = ek_bin_class(parent) {
        parentClass.pointee.deep_element_added?(bin, subBin, element)
    }
}

private func sendEvent(_ element: UnsafeMutablePointer<GstElement>?, _ event: UnsafeMutablePointer<GstEvent>?)
    -> gboolean
{
    guard let element, let event else { return 0 }
    let owned = Event(owning: event)
    return Bin.of(UnsafeMutableRawPointer(element))?.send(owned) == true ? 1 : 0
}

private func answerQuery(_ element: UnsafeMutablePointer<GstElement>?, _ query: UnsafeMutablePointer<GstQuery>?)
    -> gboolean
{
    guard let element, let query else { return 0 }
    return Bin.of(UnsafeMutableRawPointer(element))?.answer(Query(lending: query)) == true ? 1 : 0
}
