// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension TLLV {
    /// Whether the padding is 8 bytes or more and all of them are the same: no random bytes, then.
    var hasConstantPadding: Bool { padding.count >= 8 && padding.allSatisfy { $0 == padding.first } }
}

extension TLLV.Tag {
    /// The tags that an SPC must have.
    static let requiredInRequest: [TLLV.Tag] = [
        .sessionKeyAndR1, .sessionKeyAndR1Integrity, .antiReplaySeed, .r2, .assetIdentifier, .transactionIdentifier,
        .protocolVersionsSupported, .protocolVersionUsed, .returnRequest,
    ]
}
