// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// What a DASH manifest (MPD, ISO/IEC 23009-1) says about protection and about its own refreshes. The media itself is
/// not looked at: that is the demuxer's work.
public struct DASHManifest: Hashable, Sendable {
    /// What holds for one Representation, or for an AdaptationSet whose Representations have no descriptors of their
    /// own. Descriptors that are inherited are in it.
    public struct Protection: Hashable, Sendable {
        /// In the order of the manifest, those of the AdaptationSet that a Representation inherits included.
        public var descriptors: [DASHContentProtection]
    }

    /// `type="dynamic"`: live, the manifest changes.
    public var isDynamic: Bool
    /// Nil where the manifest is not to be fetched again.
    public var minimumUpdatePeriod: Duration?
    /// Where the next version is, as the manifest spells it.
    public var location: String?
    /// Each once, in order. Empty for clear media.
    public var protections: [Protection]
    /// The Representations that tell their bit rate and the size of their pictures.
    public var qualities: [PictureQuality]

    /// Whether anything is marked as protected.
    public var isProtected: Bool { !protections.isEmpty }
    /// What could not be used, in words for a log, each once.
    public var flaws: [String] {
        var all: Set<String> = []
        for protection in protections {
            for descriptor in protection.descriptors { all.formUnion(descriptor.flaws) }
        }
        return all.sorted()
    }
}

extension DASHManifest.Protection {
    /// The KIDs of `default_KID`, each once.
    public var defaultKeyIDs: [KeyID] {
        var seen: Set<KeyID> = []
        return descriptors.flatMap(\.defaultKeyIDs).filter { seen.insert($0).inserted }
    }

    /// The protection systems, in the order of the manifest.
    public var systems: [ProtectionSystem] {
        descriptors.compactMap { if case .system(let system) = $0.scheme { system } else { nil } }
    }

    /// The descriptor of that system.
    public func descriptor(of system: ProtectionSystem) -> DASHContentProtection? {
        descriptors.first { $0.scheme == .system(system) }
    }
}
