// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyManifests
public import LatchkeyProtection

extension SmoothManifest {
    /// What the headers hold, by their systems. Headers without a SystemID that is a UUID are PlayReady's, as the format knew no
    /// other when it was made. They do not count if another header says that it is PlayReady's.
    package var headersBySystem: [(system: ProtectionSystem, data: [UInt8]?)] {
        let isTold = protectionHeaders.contains { $0.system == .playReady }
        return protectionHeaders.compactMap { header in
            (header.system ?? (isTold ? nil : .playReady)).map { ($0, header.data) }
        }
    }

    /// The PlayReady header; nil where no ProtectionHeader is PlayReady's. Throws why it cannot be read.
    public func playReadyHeader() throws(FormatError) -> WRMHeader? {
        guard let header = headersBySystem.first(where: { $0.system == .playReady }) else { return nil }
        guard let data = header.data else { throw .malformed("ProtectionHeader: no Base64") }
        return try PlayReadyObject(initializationData: data).header()
    }

    /// Whether the PlayReady header leaves it to the fragments to name their keys: DECRYPTORSETUP is ONDEMAND.
    public var namesKeysInFragments: Bool { (try? playReadyHeader())?.details.isOnDemand == true }

    /// Whether nothing tells which keys the fragments are encrypted with.
    package var lacksKeyIDs: Bool { isProtected && keyIDs.isEmpty && !namesKeysInFragments }

    /// The KIDs of all headers that can be read, each once: the ones of PlayReady first.
    public var keyIDs: [KeyID] {
        let ready = (try? playReadyHeader())?.keys.map(\.keyID) ?? []
        let others = protectionHeaders.flatMap { PSSHBox.readableBoxes(in: $0.data ?? []).flatMap(\.keyIDs) }
        var seen: Set<KeyID> = []
        return (ready + others).filter { seen.insert($0).inserted }
    }

    /// How fragments are encrypted that do not say so themselves: with the first key, in counter mode unless the
    /// PlayReady header says otherwise. Nil for clear media.
    public var encryption: ISOEncryption? {
        guard isProtected else { return nil }
        let key = (try? playReadyHeader())?.keys.first
        let isChained = key?.algorithm == .aesCBC
        return ISOEncryption(
            scheme: isChained ? .cbc1 : .cenc, initializationVectorSize: isChained ? 16 : 8,
            keyID: key?.keyID ?? keyIDs.first)
    }
}
