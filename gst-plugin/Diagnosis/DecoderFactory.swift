// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit

/// A decoder that GStreamer's registry has.
public struct DecoderFactory: Encodable, Sendable, Hashable {
    public let name: String
    /// After what `GST_PLUGIN_FEATURE_RANK` changes.
    public let rank: UInt32
    /// The class says that it is done by hardware.
    public let isHardware: Bool
    public let plugin: String

    public init(name: String, rank: UInt32, isHardware: Bool, plugin: String) {
        (self.name, self.rank, self.isHardware, self.plugin) = (name, rank, isHardware, plugin)
    }

    /// As GStreamer names ranks: NONE, MARGINAL, SECONDARY, PRIMARY, with what is above or below.
    public var rankText: String {
        let known: [(UInt32, String)] = [(256, "PRIMARY"), (128, "SECONDARY"), (64, "MARGINAL"), (0, "NONE")]
        let (value, text) = known.first { $0.0 <= rank } ?? (0, "NONE")
        return value == rank ? text : "\(text)+\(rank - value)"
    }

    /// Players plug nothing below.
    static let leastRank: UInt32 = 64

    /// All that take these caps, in the order in which players try them.
    public static func all(for caps: String) -> [DecoderFactory] {
        guard let caps = Caps(caps) else { return [] }
        let list = gst_element_factory_list_get_elements(ek_factory_type_decoder(), GST_RANK_NONE)
        defer { gst_plugin_feature_list_free(list) }
        let fitting = caps.withPointer { gst_element_factory_list_filter(list, $0, GST_PAD_SINK, 0) }
        defer { gst_plugin_feature_list_free(fitting) }
        var found: [DecoderFactory] = []
        var item = fitting
        while let current = item {
            item = current.pointee.next
            guard let pointer = current.pointee.data, let name = name(of: pointer) else { continue }
            let feature = OpaquePointer(pointer)
            let klass = gst_element_factory_get_metadata(OpaquePointer(pointer), GST_ELEMENT_METADATA_KLASS)
            found.append(
                DecoderFactory(
                    name: name, rank: UInt32(gst_plugin_feature_get_rank(feature)),
                    isHardware: klass.map { String(cString: $0).split(separator: "/").contains("Hardware") } ?? false,
                    plugin: gst_plugin_feature_get_plugin_name(feature).map { String(cString: $0) } ?? ""))
        }
        return ordered(found)
    }

    private static func name(of feature: UnsafeMutableRawPointer) -> String? {
        guard let name = gst_object_get_name(feature.assumingMemoryBound(to: GstObject.self)) else { return nil }
        defer { g_free(name) }
        return String(cString: name)
    }

    /// The higher rank first; where it is the same, the name decides.
    static func ordered(_ factories: [DecoderFactory]) -> [DecoderFactory] {
        factories.sorted { $0.rank != $1.rank ? $0.rank > $1.rank : $0.name < $1.name }
    }
}
