// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// One object of a certificate.
///
/// ```
/// UInt16 flags, UInt16 tag, UInt32 length (this header of 8 bytes included), body
/// ```
///
/// All integers are big-endian. The layout follows open implementations of the client (playready-rs, MIT).
public struct BCertObject: Hashable, Sendable {
    /// What an object is. A number that is not known is kept.
    public struct Tag: RawRepresentable, Hashable, Sendable {
        /// 16 bits of the header, big-endian.
        public var rawValue: UInt16
        /// Takes any number.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// `BCert.Basic`. Each certificate has one.
        public static let basic = Tag(rawValue: 1)
        /// `BCert.Domain`, in the certificate of a domain.
        public static let domain = Tag(rawValue: 2)
        /// Of a player on a general computer; its body is not read.
        public static let pc = Tag(rawValue: 3)
        /// Three sizes; see `BCert.deviceObject`.
        public static let device = Tag(rawValue: 4)
        /// `BCert.Feature`, counted.
        public static let features = Tag(rawValue: 5)
        /// `BCert.Key`, counted.
        public static let keys = Tag(rawValue: 6)
        /// Texts on who made the thing; see `BCert.manufacturerObject`.
        public static let manufacturer = Tag(rawValue: 7)
        /// `BCert.Signature`. The last object, and not among the signed bytes.
        public static let signature = Tag(rawValue: 8)
        /// Id and URL of a metering service; its body is not read.
        public static let metering = Tag(rawValue: 0xA)
        /// How many days ahead a server certificate warns of its end; its body is not read.
        public static let server = Tag(rawValue: 0xF)
        /// A version of the client's security; its body is not read.
        public static let securityVersion = Tag(rawValue: 0x10)
        /// Another form of `securityVersion`; its body is not read.
        public static let securityVersion2 = Tag(rawValue: 0x11)
    }

    /// Bit 0 of the flags: a reader that does not know the tag has to refuse the certificate.
    public static let mustUnderstand: UInt16 = 1

    /// `mustUnderstand`, and bits that nothing is known of.
    public var flags: UInt16
    /// 16 bits.
    public var tag: Tag
    /// What stands behind the header of 8 bytes.
    public var body: [UInt8]

    /// The length in the header is made when the object is written.
    public init(_ tag: Tag, _ body: [UInt8], flags: UInt16 = mustUnderstand) {
        self.tag = tag
        self.body = body
        self.flags = flags
    }

    /// Header and body. No padding follows.
    public var serialized: [UInt8] {
        bigEndian(flags) + bigEndian(tag.rawValue) + bigEndian(UInt32(clamping: body.count + 8)) + body
    }

    init(reading reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        flags = try reader.readUInt16()
        tag = Tag(rawValue: try reader.readUInt16())
        let length = try reader.readUInt32()
        guard length >= 8 else { throw .malformed("\(place): object of \(length) bytes") }
        body = Array(try reader.readBytes(length - 8))
    }

    /// Tags whose meaning is known, or without meaning to whoever checks a chain. Extended data, `B` to `E`, describes
    /// hardware.
    var isUnderstood: Bool { (1...0xF).contains(tag.rawValue) || tag == .securityVersion || tag == .securityVersion2 }
}
