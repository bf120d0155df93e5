// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

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
