// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension PadReference {
    /// Puts a new element into a stream that is under way: between the typefinder of the `parsebin` whose sink pad this is,
    /// and the element that this one chose. The bin owns the new one from then on.
    ///
    /// Call it on the thread that feeds the pad, between two buffers, while the bin is at PAUSED or PLAYING. The new element
    /// gets the sticky events of the stream before the next buffer. Returns false where the bin has no such place; it is as
    /// it was then, and the element is gone.
    public func insertBehindTypefinder(_ element: ElementReference) -> Bool {
        // A new element floats.
        gst_object_ref_sink(UnsafeMutableRawPointer(element.pointer))
        defer { gst_object_unref(UnsafeMutableRawPointer(element.pointer)) }
        guard let arrival = entrance?.peer, let finder = gst_pad_get_parent_element(arrival.pointer) else {
            return false
        }
        defer { gst_object_unref(UnsafeMutableRawPointer(finder)) }
        guard ElementReference(finder).factoryName == "typefind", let source = ElementReference(finder).pad("src"),
            let next = source.peer, let sink = element.pad("sink"), let exit = element.pad("src"),
            let parent = gst_object_get_parent(ek_as_object(finder))
        else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(parent)) }
        let bin = ek_as_bin(UnsafeMutableRawPointer(parent))
        guard gst_bin_add(bin, element.pointer) != 0 else { return false }
        gst_pad_unlink(source.pointer, next.pointer)
        let isThere =
            Self.link(exit, next) && gst_element_sync_state_with_parent(element.pointer) != 0
            && Self.link(source, sink)
        if isThere { return true }
        gst_element_set_state(element.pointer, GST_STATE_NULL)
        // Takes its links away too.
        gst_bin_remove(bin, element.pointer)
        _ = Self.link(source, next)
        return false
    }

    private static func link(_ source: PadReference, _ sink: PadReference) -> Bool {
        gst_pad_link_full(source.pointer, sink.pointer, GST_PAD_LINK_CHECK_NOTHING) == GST_PAD_LINK_OK
    }
}
