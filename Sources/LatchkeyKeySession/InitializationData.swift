// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection

/// What media says about its protection: a `pssh` box, a ContentProtection element, a WebM content encryption key id.
public struct InitializationData: Sendable, Hashable {
    /// Nil where the format names none, as WebM.
    public let system: ProtectionSystem?
    /// As the media has it: whole `pssh` boxes, a PlayReady object, JSON, …
    public let bytes: [UInt8]
    /// Where it was found, as GStreamer's protection events say it: `isobmff/moov`, `isobmff/moof`, `dash/mpd`,
    /// `matroskademux`, …
    public let origin: String
    /// What can be read out of the bytes. Empty where they name no KID or cannot be read.
    public let keyIDs: [KeyID]

    /// Reads the KIDs. Never fails: bytes that cannot be read have no KIDs.
    public init(system: ProtectionSystem?, bytes: [UInt8], origin: String) {
        self.system = system
        self.bytes = bytes
        self.origin = origin
        let listed = InitDataType.anyKeyIDs(in: bytes)
        keyIDs = listed.isEmpty && system == .playReady ? Self.playReadyKeyIDs(in: bytes) : listed
    }

    /// A box of version 0 lists none, and a PlayReady object is no box at all, but the header in both may.
    private static func playReadyKeyIDs(in bytes: [UInt8]) -> [KeyID] {
        let header = try? PlayReadyObject(initializationData: bytes).header()
        // With DECRYPTORSETUP=ONDEMAND, keys change while the content plays: what is needed, the segments say.
        guard header?.details.isOnDemand != true else { return [] }
        return header?.keys.map(\.keyID) ?? []
    }
}
