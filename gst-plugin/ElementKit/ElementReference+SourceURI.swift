// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

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
