// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

extension DASHManifest {
    /// What to ask for early. Media whose manifest has nothing that a request could be made of is not in it: its own
    /// boxes may have more.
    package func keyGroups(choose: ([ProtectionSystem]) -> ProtectionSystem?) -> [ManifestKeyGroup] {
        struct Kind: Hashable {
            var system: ProtectionSystem
            var boxes: [PSSHBox]
            var licenseURL: String?
        }
        var groups: [ManifestKeyGroup] = []
        // Many parts of a manifest repeat the same data: it is read once, and each KID counts once.
        var places: [Kind: Int] = [:]
        var known: [Set<KeyID>] = []
        func add(_ keyIDs: some Sequence<KeyID>, to place: Int) {
            for keyID in keyIDs
            where known[place].count < ManifestKeys.limit && known[place].insert(keyID).inserted {
                groups[place].keyIDs.append(keyID)
            }
        }
        for protection in protections {
            let askable = protection.systems.filter { system in
                // KIDs are enough for ClearKey.
                KeySystem(system) == .clearKey || protection.descriptor(of: system)?.systemBoxes.isEmpty == false
            }
            guard let system = choose(askable), let descriptor = protection.descriptor(of: system) else { continue }
            let kind = Kind(system: system, boxes: descriptor.systemBoxes, licenseURL: descriptor.licenseURLs.first)
            let place = places[kind] ?? groups.count
            if place == groups.count {
                places[kind] = place
                known.append([])
                groups.append(
                    ManifestKeyGroup(system: system, keyIDs: [], boxes: kind.boxes, licenseURL: kind.licenseURL))
                add(descriptor.keyIDs, to: place)
            }
            for descriptor in protection.descriptors { add(descriptor.defaultKeyIDs, to: place) }
        }
        return groups
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
