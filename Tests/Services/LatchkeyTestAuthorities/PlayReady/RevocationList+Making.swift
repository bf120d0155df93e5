// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension RevocationList {
    /// A list. `sign` is given the signed bytes and returns r and s in 64 bytes.
    ///
    /// Throws what `sign` throws, and the errors of reading if the parts make no list.
    package static func make(
        id: GUID, version: UInt32, keyDigests: [[UInt8]], chain: BCertChain, sign: ([UInt8]) throws -> [UInt8]
    ) throws -> RevocationList {
        let certificates = chain.serialized
        var signed = Array("LKRL".utf8) + bigEndian(UInt32(1)) + id.guidOrderBytes + bigEndian(version)
        signed += bigEndian(UInt32(clamping: keyDigests.count)) + keyDigests.flatMap(\.self)
        signed += bigEndian(UInt32(clamping: certificates.count)) + certificates
        return try RevocationList(reading: signed + (try sign(signed)))
    }
}
