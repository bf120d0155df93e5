// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Keys and KIDs: the checksum of a header, and keys that are derived from a seed.
///
/// From Microsoft's "PlayReady Header Specification" and "PlayReady Key Seed"
/// (<https://learn.microsoft.com/playready/specifications/playready-key-seed>).
public enum PlayReadyChecksum {
    /// The checksum of a content key in a header: 8 bytes for AESCTR, 7 for COCKTAIL, none for AESCBC.
    ///
    /// For COCKTAIL, each round hashes the key buffer of 21 bytes, whose front the round before has overwritten; the
    /// specification can be read in another way. A key for COCKTAIL has 7 bytes in front here. Throws `internalError`
    /// where OpenSSL refuses.
    public static func checksum(
        of key: ContentKey, keyID: KeyID, algorithm: WRMHeader.Algorithm
    ) throws(PlayReadyError) -> [UInt8] {
        do throws(CryptoError) {
            switch algorithm {
            case .aesCBC: return []
            case .aesCTR: return Array(try AES.ecb(.encrypt, key: key, keyID.guidOrderBytes).prefix(8))
            case .cocktail:
                // A sum of arrays would leave a part of the key behind.
                var buffer = [UInt8](repeating: 0, count: 21)
                defer { wipe(&buffer) }
                key.withBytes { bytes in
                    for index in 0..<7 { buffer[index] = bytes[index] }
                }
                for _ in 0..<5 { buffer.replaceSubrange(0..<20, with: try Digest.sha1(buffer)) }
                return Array(buffer.prefix(7))
            }
        } catch {
            throw .internalError("no checksum can be computed: \(error)")
        }
    }

    /// The content key for a KID that services derive from a seed of 30 bytes or more. The caller wipes the seed.
    ///
    /// Throws `provisioning` for a shorter seed.
    public static func key(seed: [UInt8], keyID: KeyID) throws(PlayReadyError) -> ContentKey {
        guard seed.count >= 30 else { throw .provisioning("a key seed has 30 bytes") }
        var (first, id) = (Array(seed.prefix(30)), keyID.guidOrderBytes)
        defer {
            wipe(&first)
            wipe(&id)
        }
        do throws(CryptoError) {
            var digests = try Digest.sha256(first + id)
            digests += try Digest.sha256(first + id + first)
            digests += try Digest.sha256(first + id + first + id)
            defer { wipe(&digests) }
            var bytes = (0..<16).map { index in
                stride(from: index, to: 96, by: 16).reduce(UInt8(0)) { $0 ^ digests[$1] }
            }
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else { throw CryptoError(reason: 0) }
            return key
        } catch {
            throw .internalError("no key can be derived: \(error)")
        }
    }
}
