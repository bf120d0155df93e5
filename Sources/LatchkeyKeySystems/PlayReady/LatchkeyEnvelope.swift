// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// Latchkey's own envelope, version 1: a whole segment in AES-128-CTR, with a PlayReady object in front.
///
/// ```
/// "LKEN", UInt8 version (1), UInt8 cipher (1: AES-128-CTR), UInt16 reserved (0)
/// UInt8[16] initial counter block
/// UInt32 size of the PlayReady object, then the object
/// ciphertext up to the end
/// ```
///
/// Integers are big-endian. The counter is the last 8 bytes of the block and starts at the value that stands there; it
/// goes up by one for each 16 bytes and wraps round within its 8 bytes. The format is Latchkey's and no other player
/// reads it: the layout of PlayReady's own envelope is not public.
public struct LatchkeyEnvelope: EnvelopeParser {
    /// The first four bytes of a file.
    public static let magic = Array("LKEN".utf8)
    /// The fifth byte; the only version that there is.
    public static let version: UInt8 = 1
    private static let counterMode: UInt8 = 1
    private static let fixedSize = 28

    /// A parser without settings; any number of threads may share it.
    public init() {}

    /// 4 bytes: the magic.
    public var probeSize: Int { Self.magic.count }

    /// Looks at the first four bytes alone. Fewer are no envelope.
    public func isEnvelope(_ bytes: [UInt8]) -> Bool { bytes.starts(with: Self.magic) }

    /// Throws `unsupported` for another version or cipher, `malformed` for other bytes and for reserved bits that are
    /// set, `tooLarge` where the PlayReady object is, and the errors of reading it.
    public func header(of bytes: [UInt8]) throws(FormatError) -> EnvelopeHeader? {
        guard bytes.prefix(Self.magic.count).elementsEqual(Self.magic.prefix(bytes.count)) else {
            throw .malformed("envelope: not one")
        }
        guard bytes.count >= Self.fixedSize else { return nil }
        var reader = ByteReader(bytes, structure: "envelope")
        try reader.skip(Self.magic.count)
        let (version, cipher) = (try reader.readUInt8(), try reader.readUInt8())
        guard version == Self.version, cipher == Self.counterMode else {
            throw .unsupported("envelope of version \(version), cipher \(cipher)")
        }
        guard try reader.readUInt16() == 0 else { throw .malformed("envelope: reserved bits are set") }
        let counter = Array(try reader.readBytes(16))
        let size = try reader.readUInt32()
        guard size <= PlayReadyObject.maximumSize else {
            throw .tooLarge("envelope with a PlayReady object of \(size) bytes")
        }
        guard reader.remaining >= Int(size) else { return nil }
        let object = try PlayReadyObject(reading: Array(try reader.readBytes(size)))
        return EnvelopeHeader(playReadyObject: object, initialCounter: counter, payloadOffset: reader.offset)
    }

    /// What stands in front of the ciphertext. Throws `malformed` where the counter has not 16 bytes, and the errors of
    /// writing the object.
    public static func serialized(
        playReadyObject: PlayReadyObject, initialCounter: [UInt8]
    ) throws(FormatError) -> [UInt8] {
        guard initialCounter.count == 16 else {
            throw .malformed("envelope: a counter of \(initialCounter.count) bytes")
        }
        let object = try playReadyObject.serialized()
        let head = magic + [version, counterMode, 0, 0] + initialCounter
        return head + bigEndian(UInt32(clamping: object.count)) + object
    }
}
