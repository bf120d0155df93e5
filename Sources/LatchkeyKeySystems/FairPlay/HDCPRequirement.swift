// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// Which HDCP an output needs.
///
/// ```
/// UInt64 level, UInt64 reserved (some servers leave it out)
/// ```
///
/// Integers are big-endian. See `TLLV` for the sources. A value; thread-safe.
public struct HDCPRequirement: TLLVValue {
    /// `2e52f1530d8ddb4a`, in the CKC. Without the block, Apple's players require HDCP type 0.
    public static let tag = TLLV.Tag.hdcp

    /// On the wire a fixed number of 64 bits for each of the three; public key servers agree on them.
    public var requirement: OutputRequirement

    /// The rule that a CKC is to carry.
    public init(_ requirement: OutputRequirement) { self.requirement = requirement }

    /// Throws `unsupported` for a level that is not known.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 8, 16)
        let level = try reader.readUInt64()
        guard let requirement = OutputRequirement.allCases.first(where: { Self.level(of: $0) == level }) else {
            throw .unsupported("TLLV \(Self.tag) names an unknown level")
        }
        self.requirement = requirement
    }

    /// 16 bytes.
    public var tllvValue: [UInt8] { bigEndian(Self.level(of: requirement)) + bigEndian(UInt64(0)) }

    private static func level(of requirement: OutputRequirement) -> UInt64 {
        switch requirement {
        case .unprotected: 0xEF72_894C_A789_5B78
        case .hdcpType0: 0x4079_1AC7_8BD5_C571
        case .hdcpType1: 0x285A_0863_BBA8_E1D3
        }
    }
}
