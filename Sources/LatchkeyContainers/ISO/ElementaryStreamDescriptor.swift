// SPDX-License-Identifier: MPL-2.0

/// What an `esds` box says of sound in a sample entry `mp4a` (ISO/IEC 14496-1, 7.2.6; 14496-14, 5.6).
///
/// Many codecs go by these four characters. Only those whose frames are known here are named: the frames of xHE-AAC and
/// of the low-delay kinds of AAC begin in another way.
struct ElementaryStreamDescriptor {
    /// Nil for other codecs.
    private(set) var codec: SampleCodec?

    /// `reader` stands behind the header of the box.
    init(_ reader: ByteReader) throws(FormatError) {
        var reader = reader
        try reader.skip(4)
        try Self.enter(3, in: &reader)
        try reader.skip(2)
        let flags = try reader.readUInt8()
        if flags & 0x80 != 0 { try reader.skip(2) }
        if flags & 0x40 != 0 { try reader.skip(Int(try reader.readUInt8())) }
        if flags & 0x20 != 0 { try reader.skip(2) }
        try Self.enter(4, in: &reader)
        let type = try reader.readUInt8()
        try reader.skip(12)
        switch type {
        case 0x40:
            try Self.enter(5, in: &reader)
            if Self.isAAC(try reader.readBytes(min(reader.remaining, 9))) { codec = .aac }
        case 0x66...0x68: codec = .aac
        case 0x69, 0x6B: codec = .mp3
        case 0xA5, 0xA6: codec = .ac3
        default: break
        }
    }

    /// The tag and the size of a descriptor.
    private static func enter(_ tag: UInt8, in reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        guard try reader.readUInt8() == tag else { throw .malformed("\(place): no descriptor \(tag)") }
        for _ in 0..<4 {
            if try reader.readUInt8() & 0x80 == 0 { return }
        }
        throw .malformed("\(place): the size of a descriptor has more than four bytes")
    }

    /// Whether an AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1) is of Main, LC, SSR or LTP, with SBR and PS or without.
    private static func isAAC(_ configuration: ArraySlice<UInt8>) -> Bool {
        let bytes = Array(configuration)
        var offset = 0
        // Zero behind the end.
        func take(_ count: Int) -> Int {
            defer { offset += count }
            return (offset..<offset + count).reduce(0) { value, bit in
                value << 1 | (bit / 8 < bytes.count ? Int(bytes[bit / 8] >> (7 - bit % 8) & 1) : 0)
            }
        }
        func takeFrequency() { if take(4) == 15 { _ = take(24) } }

        let kind = take(5)
        guard kind == 5 || kind == 29 else { return 1...4 ~= kind }
        takeFrequency()
        _ = take(4)
        takeFrequency()
        return 1...4 ~= take(5)
    }
}
