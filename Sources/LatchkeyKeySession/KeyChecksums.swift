// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// What PlayReady headers say of keys: their checksums.
struct KeyChecksums {
    /// Content names its KIDs: the most of them that are remembered.
    private static let limit = 16_384

    private struct Checksum {
        var algorithm: WRMHeader.Algorithm
        var bytes: [UInt8]
    }

    private var checksums: [KeyID: Checksum] = [:]

    mutating func add(_ keys: [WRMHeader.Key]) {
        for key in keys where !key.checksum.isEmpty && checksums.count < Self.limit {
            checksums[key.keyID] = Checksum(algorithm: key.algorithm ?? .aesCTR, bytes: key.checksum)
        }
    }

    /// Whether a header says that the key for this KID is another one.
    func contradicts(_ key: ContentKey, _ keyID: KeyID) -> Bool {
        guard let expected = checksums[keyID],
            let found = try? ExitGate.passIfOpen({ () throws(PlayReadyError) in
                try PlayReadyChecksum.checksum(of: key, keyID: keyID, algorithm: expected.algorithm)
            })
        else { return false }
        return found != expected.bytes
    }
}

extension KeySession {
    /// Remembers the checksums in PlayReady headers among `data`.
    package func noteChecksums(of data: [InitializationData]) {
        let keys = data.filter { $0.system == .playReady }.flatMap { item -> [WRMHeader.Key] in
            (try? PlayReadyObject(initializationData: item.bytes).header())?.keys ?? []
        }
        guard keys.contains(where: { !$0.checksum.isEmpty }) else { return }
        core.withLock { $0.checksums.add(keys) }
    }

    /// Whether the content says that the key for this KID is another one.
    package func contradicts(_ key: ContentKey, _ keyID: KeyID) -> Bool {
        let checksums = core.withLock(\.checksums)
        return checksums.contradicts(key, keyID)
    }
}
