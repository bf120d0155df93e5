// SPDX-License-Identifier: MPL-2.0

/// One object of a certificate.
///
/// ```
/// UInt16 flags, UInt16 tag, UInt32 length (this header of 8 bytes included), body
/// ```
///
/// All integers are big-endian. The layout follows open implementations of the client (playready-rs, MIT).
public struct BCertObject: Hashable, Sendable {
    public struct Tag: RawRepresentable, Hashable, Sendable {
        public var rawValue: UInt16
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        public static let basic = Tag(rawValue: 1)
        public static let domain = Tag(rawValue: 2)
        public static let pc = Tag(rawValue: 3)
        public static let device = Tag(rawValue: 4)
        public static let features = Tag(rawValue: 5)
        public static let keys = Tag(rawValue: 6)
        public static let manufacturer = Tag(rawValue: 7)
        public static let signature = Tag(rawValue: 8)
        public static let metering = Tag(rawValue: 0xA)
        public static let server = Tag(rawValue: 0xF)
        public static let securityVersion = Tag(rawValue: 0x10)
        public static let securityVersion2 = Tag(rawValue: 0x11)
    }

    public static let mustUnderstand: UInt16 = 1

    public var flags: UInt16
    public var tag: Tag
    public var body: [UInt8]

    public init(_ tag: Tag, _ body: [UInt8], flags: UInt16 = mustUnderstand) {
        self.tag = tag
        self.body = body
        self.flags = flags
    }

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
