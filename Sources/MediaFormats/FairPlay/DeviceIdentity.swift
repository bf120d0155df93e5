// SPDX-License-Identifier: MPL-2.0

/// What kind of device asks.
///
/// ```
/// UInt32 version, UInt32 device class, UInt8[8] vendor hash, UInt8[8] product hash,
/// UInt32 REE version, UInt32 TEE version, UInt32 OS version, more in later versions
/// ```
public struct DeviceIdentity: TLLVValue {
    public static let tag = TLLV.Tag.deviceIdentity
    /// In bytes, without what later versions add.
    public static let minimumSize = 36

    public var version: UInt32
    public var deviceClass: UInt32
    public var vendorHash: UInt64
    public var productHash: UInt64
    /// Of the player's rich execution environment.
    public var reeVersion: UInt32
    /// Of the trusted execution environment.
    public var teeVersion: UInt32
    public var osVersion: UInt32
    /// What stands behind the fields that are known.
    public var rest: [UInt8]

    public init(
        version: UInt32 = 1, deviceClass: UInt32, vendorHash: UInt64, productHash: UInt64, reeVersion: UInt32 = 0,
        teeVersion: UInt32 = 0, osVersion: UInt32 = 0, rest: [UInt8] = []
    ) {
        self.version = version
        self.deviceClass = deviceClass
        self.vendorHash = vendorHash
        self.productHash = productHash
        self.reeVersion = reeVersion
        self.teeVersion = teeVersion
        self.osVersion = osVersion
        self.rest = rest
    }

    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard bytes.count >= Self.minimumSize else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, fewer than \(Self.minimumSize)")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        version = try reader.readUInt32()
        deviceClass = try reader.readUInt32()
        vendorHash = try reader.readUInt64()
        productHash = try reader.readUInt64()
        reeVersion = try reader.readUInt32()
        teeVersion = try reader.readUInt32()
        osVersion = try reader.readUInt32()
        rest = Array(reader.rest)
    }

    public var tllvValue: [UInt8] {
        bigEndian(version) + bigEndian(deviceClass) + bigEndian(vendorHash) + bigEndian(productHash)
            + bigEndian(reeVersion) + bigEndian(teeVersion) + bigEndian(osVersion) + rest
    }
}
