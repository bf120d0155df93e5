// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// Where a stream may go from a pad.
extension PadReference {
    /// The pads to which what comes to this one, a sink pad, may go on: through its element, or through the border of a bin.
    public var internalLinks: [PadReference] {
        guard let list = ek_internal_links(pointer) else { return [] }
        defer { g_ptr_array_unref(list) }
        return Self.pads(in: list)
    }

    /// The element whose pad this is; nil for the inner end of a bin's pad, and where the element is gone.
    public var element: SharedElement? { gst_pad_get_parent_element(pointer).map { SharedElement(owning: $0) } }

    /// What the pad's template allows.
    public var templateCaps: Caps { gst_pad_get_pad_template_caps(pointer).map { Caps(owning: $0) } ?? .any }

    fileprivate static func pads(in list: UnsafeMutablePointer<GPtrArray>) -> [PadReference] {
        // SAFETY: the array holds pads, with references of its own.
        (0..<Int(list.pointee.len)).compactMap { list.pointee.pdata[$0] }
            .map { PadReference(sharing: $0.assumingMemoryBound(to: GstPad.self)) }
    }
}

/// An element that another one made, with a reference to it. Thread-safe.
public final class SharedElement: @unchecked Sendable {
    // SAFETY: GstElement is thread-safe where its API says so; only such functions are called.
    private let pointer: UnsafeMutablePointer<GstElement>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstElement>) { self.pointer = pointer }

    deinit { gst_object_unref(UnsafeMutableRawPointer(pointer)) }

    /// Good for as long as this object is.
    public var reference: ElementReference { ElementReference(pointer) }

    /// The Swift object, if the element is one of this kit.
    public var implementation: Element? { Element.implementation(of: pointer) }

    /// The bin around the element; nil for the outermost one.
    public var parent: SharedElement? {
        gst_object_get_parent(ek_as_object(pointer)).map {
            // SAFETY: elements have elements around them and nothing else.
            SharedElement(owning: UnsafeMutableRawPointer($0).assumingMemoryBound(to: GstElement.self))
        }
    }

    /// Whether the element says that it is where a stream ends, or has such an element in it.
    public var isSink: Bool { ek_is_flagged_as_sink(pointer) != 0 }

    /// Whether it adds source pads itself, as a demuxer does.
    public var addsSourcePads: Bool { ek_has_source_template(pointer, GST_PAD_SOMETIMES) != 0 }

    /// Whether source pads come on request, as with a tee.
    public var givesSourcePads: Bool { ek_has_source_template(pointer, GST_PAD_REQUEST) != 0 }

    /// The source pads at this moment.
    public var sourcePads: [PadReference] {
        guard let list = ek_source_pads(pointer) else { return [] }
        defer { g_ptr_array_unref(list) }
        return PadReference.pads(in: list)
    }

    /// Whether both are references to one element.
    public func isSame(as other: SharedElement) -> Bool { pointer == other.pointer }

    /// Calls `body` for every pad that comes, on the thread that adds it, until the watch is gone.
    public func watchPads(_ body: @escaping () -> Void) -> PadsWatch { PadsWatch(self, body) }
}

/// Hears of pads that come to an element. Ends when the last reference to it goes. Thread-safe.
public final class PadsWatch: Sendable {
    /// The element that is watched.
    public let element: SharedElement
    private let handler: gulong

    fileprivate init(_ element: SharedElement, _ body: @escaping () -> Void) {
        self.element = element
        handler = element.reference.onPadAdded { _ in body() }
    }

    // A call of the handler that is under way goes on.
    deinit { g_signal_handler_disconnect(UnsafeMutableRawPointer(element.reference.pointer), handler) }
}
