// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// Where the picture goes: 8 bytes. See `TLLV` for the sources of the numbers.
public struct StreamingIndicator: TLLVValue, RawRepresentable {
    /// `abb0256a31843974`, in the SPC.
    public static let tag = TLLV.Tag.streamingIndicator

    /// Everything that is neither of the two below means playback on the device.
    public var rawValue: UInt64
    /// Takes any number; one that is not known means playback on the device.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Playback on the device. Any other number than the two below would do.
    public static let onDevice = StreamingIndicator(rawValue: 0)
    /// Over AirPlay. The number is that of the tag itself.
    public static let airPlay = StreamingIndicator(rawValue: 0xABB0_256A_3184_3974)
    /// A digital AV adapter. The anonymised device identifier has no meaning then.
    public static let digitalAVAdapter = StreamingIndicator(rawValue: 0x5F9C_8132_B59F_2FDE)

    /// Throws `malformed` for another length than 8 bytes.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 8)
        rawValue = try reader.readUInt64()
    }

    /// 8 bytes.
    public var tllvValue: [UInt8] { bigEndian(rawValue) }
}
