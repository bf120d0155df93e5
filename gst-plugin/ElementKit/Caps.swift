// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// One reference to `GstCaps`. The caps are never changed; the transforming functions make new ones. Thread-safe.
public final class Caps: @unchecked Sendable {
    // SAFETY: caps that others hold too are immutable; the reference count is atomic. The pointer is good while the
    // object is, and Swift ends an object after its last use: hence `withPointer`.
    private let pointer: UnsafeMutablePointer<GstCaps>

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstCaps>) { self.pointer = pointer }
    /// Takes a reference of its own.
    public init(sharing pointer: UnsafeMutablePointer<GstCaps>) { self.pointer = gst_caps_ref(pointer) }
    /// Reads the text form that gst-launch uses; nil for text that is no caps.
    public init?(_ text: String) {
        GStreamer.initialize()
        guard let pointer = gst_caps_from_string(text) else { return nil }
        self.pointer = pointer
    }

    deinit { ek_mini_object_unref(pointer) }

    /// For caps that are kept for the life of the process: GStreamer's leak tracer does not count them.
    public static func permanent(_ text: String) -> Caps? {
        let caps = Caps(text)
        caps?.withPointer { $0.pointee.mini_object.flags |= GST_MINI_OBJECT_FLAG_MAY_BE_LEAKED.rawValue }
        return caps
    }

    /// Lends the C pointer for the time of the call.
    public func withPointer<Result>(_ body: (UnsafeMutablePointer<GstCaps>) -> Result) -> Result {
        withExtendedLifetime(self) { body(pointer) }
    }
    /// Caps that every other caps are a subset of.
    public static var any: Caps {
        GStreamer.initialize()
        return Caps(owning: gst_caps_new_any())
    }

    /// The number of structures.
    public var count: Int { withPointer { Int(gst_caps_get_size($0)) } }
    /// Whether these are the caps of anything.
    public var isAny: Bool { withPointer { gst_caps_is_any($0) != 0 } }
    /// Whether no media fits these caps.
    public var isEmpty: Bool { withPointer { gst_caps_is_empty($0) != 0 } }

    /// The media type of one structure.
    public func mediaType(at index: Int = 0) -> String? {
        withStructure(at: index) { String(cString: gst_structure_get_name($0)) }
    }

    /// A string field of one structure.
    public func string(_ field: String, at index: Int = 0) -> String? {
        withStructure(at: index) { gst_structure_get_string($0, field).map { String(cString: $0) } } ?? nil
    }

    /// The bytes of a buffer in a field of the first structure.
    public func bytes(_ field: String) -> [UInt8]? {
        withStructure(at: 0) { structure -> [UInt8]? in
            guard let buffer = ek_value_buffer(gst_structure_get_value(structure, field)) else { return nil }
            return Buffer.withBytes(of: buffer) { Array($0) }
        } ?? nil
    }

    /// The media type of the caps in a field of the first structure.
    public func mediaType(inside field: String) -> String? {
        withStructure(at: 0) { structure -> String? in
            guard let value = gst_structure_get_value(structure, field), ek_value_holds_caps(value) != 0,
                let caps = gst_value_get_caps(value)
            else { return nil }
            return Caps(sharing: UnsafeMutablePointer(mutating: caps)).mediaType()
        } ?? nil
    }

    /// Whether all media that fits these caps also fits `other`.
    public func isSubset(of other: Caps) -> Bool {
        withPointer { mine in other.withPointer { gst_caps_is_subset(mine, $0) != 0 } }
    }

    /// Whether some media fits both.
    public func canIntersect(_ other: Caps) -> Bool {
        withPointer { mine in other.withPointer { gst_caps_can_intersect(mine, $0) != 0 } }
    }

    /// New caps of what fits both, in the order of these.
    public func intersection(_ other: Caps) -> Caps {
        withPointer { mine in
            other.withPointer { Caps(owning: gst_caps_intersect_full(mine, $0, GST_CAPS_INTERSECT_FIRST)) }
        }
    }

    /// New caps of what fits either; the structures of `other` come last.
    public func merging(_ other: Caps) -> Caps {
        withPointer { mine in
            other.withPointer { Caps(owning: gst_caps_merge(gst_caps_ref(mine), gst_caps_ref($0))) }
        }
    }

    /// Whether the same media fits both.
    public func isEqual(to other: Caps) -> Bool {
        withPointer { mine in other.withPointer { gst_caps_is_equal(mine, $0) != 0 } }
    }

    /// New caps in which each structure has gone through `transform`; features stay. A structure for which it
    /// returns false is left out.
    public func map(_ transform: (inout CapsStructure) -> Bool) -> Caps {
        let result = gst_caps_new_empty()
        withPointer { pointer in
            for index in 0..<gst_caps_get_size(pointer) {
                guard let copy = gst_structure_copy(gst_caps_get_structure(pointer, index)) else { continue }
                var structure = CapsStructure(pointer: copy)
                guard transform(&structure) else {
                    gst_structure_free(copy)
                    continue
                }
                let features = gst_caps_get_features(pointer, index).flatMap { gst_caps_features_copy($0) }
                gst_caps_append_structure_full(result, copy, features)
            }
        }
        return Caps(owning: result ?? gst_caps_new_any())
    }

    private func withStructure<Result>(
        at index: Int, _ body: (UnsafeMutablePointer<GstStructure>) -> Result
    ) -> Result? {
        withPointer { pointer in
            guard gst_caps_is_any(pointer) == 0, index >= 0, index < Int(gst_caps_get_size(pointer)) else {
                return nil
            }
            return gst_caps_get_structure(pointer, guint(index)).map(body)
        }
    }
}

extension Caps: CustomStringConvertible {
    /// As gst-launch writes them (`gst_caps_to_string`).
    public var description: String {
        guard let text = withPointer({ gst_caps_to_string($0) }) else { return "" }
        defer { g_free(text) }
        return String(cString: text)
    }
}

/// One structure of caps while it is being changed. Valid only inside `Caps.map`.
public struct CapsStructure {
    // SAFETY: Caps.map lends a structure that no other code holds.
    fileprivate let pointer: UnsafeMutablePointer<GstStructure>
    /// The name of the structure, such as `video/x-h264`.
    public var mediaType: String {
        get { String(cString: gst_structure_get_name(pointer)) }
        nonmutating set { gst_structure_set_name(pointer, newValue) }
    }

    /// A field that is a string; nil where it is missing or of another type.
    public func string(_ field: String) -> String? {
        gst_structure_get_string(pointer, field).map { String(cString: $0) }
    }

    /// Sets a field to a string; the text is copied.
    public func set(_ field: String, _ text: String) {
        var value = GValue()
        ek_value_init(&value, ek_type_string())
        g_value_set_string(&value, text)
        gst_structure_take_value(pointer, field, &value)
    }

    /// Takes a field out, where it is there.
    public func remove(_ field: String) { gst_structure_remove_field(pointer, field) }
}

/// Caps features that name memory, as `memory:DMABuf`. Ordinary memory is `memory:SystemMemory`, or no feature at all.
extension Caps {
    private static let systemMemory = "memory:SystemMemory"

    /// The memory other than ordinary that one structure names.
    public func memoryFeature(at index: Int = 0) -> String? {
        withPointer { pointer in
            guard gst_caps_is_any(pointer) == 0, index >= 0, index < Int(gst_caps_get_size(pointer)),
                let features = gst_caps_get_features(pointer, guint(index)), gst_caps_features_is_any(features) == 0
            else { return nil }
            return (0..<gst_caps_features_get_size(features)).lazy
                .compactMap { gst_caps_features_get_nth(features, $0).map { String(cString: $0) } }
                .first { $0.hasPrefix("memory:") && $0 != Self.systemMemory }
        }
    }

    /// The same media in this memory. Features that name no memory stay.
    public func settingMemory(_ feature: String) -> Caps {
        changingFeatures { $0.filter { !$0.hasPrefix("memory:") } + [feature] }
    }

    /// The same media in ordinary memory, in structures that are not there twice.
    public func inSystemMemory() -> Caps {
        changingFeatures { $0.filter { !$0.hasPrefix("memory:") } }
    }

    private func changingFeatures(_ change: ([String]) -> [String]) -> Caps {
        guard !isAny else { return self }
        let result = gst_caps_new_empty()
        withPointer { pointer in
            for index in 0..<gst_caps_get_size(pointer) {
                guard let structure = gst_structure_copy(gst_caps_get_structure(pointer, index)) else { continue }
                guard let old = gst_caps_get_features(pointer, index), gst_caps_features_is_any(old) == 0 else {
                    gst_caps_append_structure_full(result, structure, gst_caps_features_new_any())
                    continue
                }
                let names = (0..<gst_caps_features_get_size(old)).compactMap {
                    gst_caps_features_get_nth(old, $0).map { String(cString: $0) }
                }
                let features = gst_caps_features_new_empty()
                for name in change(names) { gst_caps_features_add(features, name) }
                if gst_caps_features_get_size(features) == 0 { gst_caps_features_add(features, Self.systemMemory) }
                gst_caps_append_structure_full(result, structure, features)
            }
        }
        return Caps(owning: result ?? gst_caps_new_any())
    }
}
