// SPDX-License-Identifier: MPL-2.0

import KeySystems
import MediaFormats
import ProtectionModel

extension DASHManifest {
    /// What to ask for early. Media whose manifest has nothing that a request could be made of is not in it: its own
    /// boxes may have more.
    func keyGroups(choose: ([ProtectionSystem]) -> ProtectionSystem?) -> [ManifestKeyGroup] {
        struct Kind: Hashable {
            var system: ProtectionSystem
            var boxes: [PSSHBox]
            var licenseURL: String?
        }
        var order: [Kind] = []
        var keyIDs: [Kind: [KeyID]] = [:]
        for protection in protections {
            let askable = protection.systems.filter { system in
                // KIDs are enough for ClearKey.
                KeySystem(system) == .clearKey || protection.descriptor(of: system)?.systemBoxes.isEmpty == false
            }
            guard let system = choose(askable), let descriptor = protection.descriptor(of: system) else { continue }
            let kind = Kind(system: system, boxes: descriptor.systemBoxes, licenseURL: descriptor.licenseURLs.first)
            if keyIDs[kind] == nil { order.append(kind) }
            keyIDs[kind, default: []] += protection.defaultKeyIDs + descriptor.keyIDs
        }
        return order.map { kind in
            var seen: Set<KeyID> = []
            return ManifestKeyGroup(
                system: kind.system, keyIDs: (keyIDs[kind] ?? []).filter { seen.insert($0).inserted },
                boxes: kind.boxes, licenseURL: kind.licenseURL)
        }
    }
}

extension DASHContentProtection {
    /// The KIDs that the system's data names.
    fileprivate var keyIDs: [KeyID] {
        systemBoxes.flatMap { box -> [KeyID] in
            guard box.system == .playReady, box.keyIDs.isEmpty else { return box.keyIDs }
            let header = try? PlayReadyObject(initializationData: box.data).header()
            return header?.keys.map(\.keyID) ?? []
        }
    }
}
