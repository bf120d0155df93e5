// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// Where the init segment of a Representation is. A value.
package struct DASHInitSegment: Hashable, Sendable {
    /// Absolute.
    package var url: String
    /// Nil: all of it.
    package var byteRange: HLSByteRange?

    /// How much of a file is looked at that does not tell where its media begins, in bytes.
    private static let startSize: UInt64 = 64 << 10

    /// `levels` are the MPD, the Period, the AdaptationSet and the Representation, and `manifest` is where the MPD came from. Nil
    /// where the segments have no init segment, or one that is no MP4.
    init?(_ levels: [XMLElement], from manifest: URIReference) {
        let types = levels.compactMap { $0[attribute: "mimeType"] }
        guard !types.contains(where: { $0.hasSuffix("/webm") || $0.hasPrefix("text/") || $0.hasSuffix("+xml") }) else {
            return nil
        }
        var base = manifest
        for level in levels {
            base = DASHOfflinePresentation.base(of: level, in: base)
            guard base.text.utf8.count <= URIReference.maximumURLSize else { return nil }
        }
        guard let addressing = try? DASHAddressing(Array(levels.dropFirst()), base: base),
            let place = (try? addressing.initialization(elseFirst: Self.startSize)) ?? nil
        else { return nil }
        (url, byteRange) = place
    }

    /// What an init segment says of protection, as the manifest would. Nothing if keys come in sample groups alone.
    package static func protections(of segment: InitSegment) -> [DASHContentProtection] {
        let keyIDs = segment.keyIDs.filter { !$0.isZero }
        guard !keyIDs.isEmpty else { return [] }
        return [DASHContentProtection(scheme: .commonEncryption, defaultKeyIDs: Array(keyIDs.prefix(limit)))]
            + segment.protectionBoxes.prefix(limit).filter { $0.data.count <= dataLimit }.map { box in
                DASHContentProtection(scheme: .system(box.system), protectionBoxes: [box])
            }
    }

    /// The most KIDs and boxes of one that are taken.
    private static let limit = 32
    /// A larger box is left to the decryptor. In bytes.
    private static let dataLimit = 64 << 10
}
