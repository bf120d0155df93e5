// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

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
