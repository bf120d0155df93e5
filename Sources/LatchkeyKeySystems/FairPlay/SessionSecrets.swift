// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What [SK..R1] holds, in clear: session key 16, anonymised device identifier (HU) 20, R1 44 bytes, and behind them 16
/// bytes of integrity. Its owner wipes it.
package struct SessionSecrets {
    static let deviceIdentifierSize = 20
    static let r1Size = 44
    package static let r2Size = 21
    /// In bytes, of the block's value: an IV and the four parts.
    package static let sealedSize = 16 + 16 + deviceIdentifierSize + r1Size + 16

    private(set) var sk: [UInt8]
    package private(set) var deviceIdentifier: [UInt8]
    package private(set) var r1: [UInt8]

    /// A new session key and a new R1.
    package init(deviceIdentifier: [UInt8], random: RandomSource) throws(CryptoError) {
        guard deviceIdentifier.count == Self.deviceIdentifierSize else { throw CryptoError(reason: 0) }
        sk = try random.bytes(16)
        self.deviceIdentifier = deviceIdentifier
        r1 = try random.bytes(Self.r1Size)
    }

    /// Opens the value of [SK..R1]. Nil where it is not 112 bytes long, or the bytes at its end are not `integrity`.
    package init?(sealed: [UInt8], dask: ContentKey, integrity: [UInt8]) throws(CryptoError) {
        guard sealed.count == Self.sealedSize else { return nil }
        var clear = try AES.cbc(.decrypt, key: dask, iv: Array(sealed.prefix(16)), Array(sealed.dropFirst(16)))
        defer { wipe(&clear) }
        guard isEqualInConstantTime(Array(clear.suffix(16)), integrity) else { return nil }
        sk = Array(clear[..<16])
        deviceIdentifier = Array(clear[16..<36])
        r1 = Array(clear[36..<80])
    }

    /// The value of [SK..R1]: the IV and AES-128-CBC over the four parts, with DASk.
    package func sealed(dask: ContentKey, iv: [UInt8], integrity: [UInt8]) throws(CryptoError) -> [UInt8] {
        var clear = sk + deviceIdentifier + r1 + integrity
        defer { wipe(&clear) }
        return iv + (try AES.cbc(.encrypt, key: dask, iv: iv, clear))
    }

    package func sessionKey() throws(CryptoError) -> ContentKey {
        guard let key = ContentKey(sk) else { throw CryptoError(reason: 0) }
        return key
    }

    /// The key of the CKC's payload: AES-128-ECB(key the first 16 bytes of SHA-1(R1), AR seed).
    package static func responseKey(r1: [UInt8], seed: [UInt8]) throws(CryptoError) -> ContentKey {
        var digest = try Digest.sha1(r1)
        defer { wipe(&digest) }
        guard let key = ContentKey(digest.prefix(16)) else { throw CryptoError(reason: 0) }
        var bytes = try AES.ecb(.encrypt, key: key, seed)
        defer { wipe(&bytes) }
        guard let result = ContentKey(bytes) else { throw CryptoError(reason: 0) }
        return result
    }

    package mutating func wipeAll() {
        wipe(&sk)
        wipe(&r1)
        deviceIdentifier.removeAll()
    }
}
