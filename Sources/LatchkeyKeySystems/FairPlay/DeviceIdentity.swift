// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// What kind of device asks.
///
/// ```
/// UInt32 version, UInt32 device class, UInt8[8] vendor hash, UInt8[8] product hash,
/// UInt32 REE version, UInt32 TEE version, UInt32 OS version, more in later versions
/// ```
///
/// Integers are big-endian. The layout is that of one public source. A value; thread-safe.
public struct DeviceIdentity: TLLVValue {
    /// `94c17cd676c69b59`, in the SPC.
    public static let tag = TLLV.Tag.deviceIdentity
    /// In bytes, without what later versions add.
    public static let minimumSize = 36

    /// Of the block's layout. Only 1 is known; what later ones add is `rest`.
    public var version: UInt32
    /// A number that the vendor gives to kinds of devices.
    public var deviceClass: UInt32
    /// A hash of 8 bytes that stands for the vendor, as a big-endian number.
    public var vendorHash: UInt64
    /// The same for the product.
    public var productHash: UInt64
    /// Of the player's rich execution environment.
    public var reeVersion: UInt32
    /// Of the trusted execution environment.
    public var teeVersion: UInt32
    /// Of the operating system, as the vendor counts.
    public var osVersion: UInt32
    /// What stands behind the fields that are known.
    public var rest: [UInt8]

    /// Versions that are not given are 0, which tells a key server nothing.
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

    /// Throws `malformed` below `minimumSize`. No number is rejected.
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

    /// `minimumSize` bytes and `rest`.
    public var tllvValue: [UInt8] {
        bigEndian(version) + bigEndian(deviceClass) + bigEndian(vendorHash) + bigEndian(productHash)
            + bigEndian(reeVersion) + bigEndian(teeVersion) + bigEndian(osVersion) + rest
    }
}
