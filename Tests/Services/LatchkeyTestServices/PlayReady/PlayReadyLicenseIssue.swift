// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// A licence to be made: a key and its terms.
struct PlayReadyLicenseIssue {
    var keyID: KeyID
    var key: ContentKey
    var type: XMRTerms.KeyType
    var terms: XMRTerms

    /// Wraps integrity key and content key for `receiver` (P-256, x and y) and signs with the integrity key.
    func license(rightsID: [UInt8], receiver: [UInt8], random: RandomSource) throws -> XMRLicense {
        guard let rightsID = GUID(uuidOrder: rightsID) else { throw CryptoError(reason: 0) }
        let (integrity, point) = try pointOfKeys(random)
        var terms = terms
        terms.boundKey = receiver
        terms.key = .init(keyID: keyID, type: type, data: try P256.encrypt(point, for: receiver, random: random))
        return try XMRLicense.make(rightsID: rightsID, objects: terms.objects) { try AES.cmac(key: integrity, $0) }
    }

    /// A point whose x coordinate is an integrity key and the content key. Every other draw is the x of a point.
    private func pointOfKeys(_ random: RandomSource) throws(CryptoError) -> (ContentKey, P256.Point) {
        for _ in 0..<256 {
            var integrity = try random.bytes(16)
            var x = integrity + key.withBytes { Array($0) }
            defer {
                wipe(&integrity)
                wipe(&x)
            }
            if let point = try P256.Point(x: x), let key = ContentKey(integrity) { return (key, point) }
        }
        throw CryptoError(reason: 0)
    }
}
