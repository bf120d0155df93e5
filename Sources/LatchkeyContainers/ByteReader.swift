// SPDX-License-Identifier: MPL-2.0

/// A cursor over bytes from outside that checks each step against the end.
///
/// Every read throws `FormatError.truncated` instead of going past the end, and leaves the cursor where it was. Slices
/// are shared with the source, so that a size in the input never makes an allocation. Integers are unsigned and
/// big-endian unless the name says otherwise. A value type: use one from one thread at a time.
public struct ByteReader: Sendable {
    /// What is read, for error texts: "pssh box".
    public var structure: String
    private let bytes: ArraySlice<UInt8>
    private let origin: Int
    private var position: Int

    /// Reads from the first byte of `bytes`. `structure` names them in errors.
    public init(_ bytes: [UInt8], structure: String) { self.init(bytes[...], structure: structure) }

    /// Reads from the first byte of `bytes`, whose offset counts as 0.
    public init(_ bytes: ArraySlice<UInt8>, structure: String) {
        self.init(bytes, structure: structure, origin: bytes.startIndex)
    }

    private init(_ bytes: ArraySlice<UInt8>, structure: String, origin: Int) {
        self.bytes = bytes
        self.structure = structure
        self.origin = origin
        position = bytes.startIndex
    }

    /// Bytes from the start of the outermost reader to the cursor.
    public var offset: Int { position - origin }

    /// Bytes from the cursor to the end.
    public var remaining: Int { bytes.endIndex - position }

    /// Whether the cursor stands at the end.
    public var isAtEnd: Bool { remaining == 0 }

    /// The bytes from the cursor to the end; the cursor stays.
    public var rest: ArraySlice<UInt8> { bytes[position...] }

    /// The next `count` bytes. A negative count is malformed.
    public mutating func readBytes(_ count: Int) throws(FormatError) -> ArraySlice<UInt8> {
        guard count >= 0 else { throw .malformed("\(place): negative size") }
        guard count <= remaining else { throw .truncated("\(place): \(count) bytes wanted, \(remaining) left") }
        defer { position += count }
        return bytes[position..<position + count]
    }

    /// The next `count` bytes, where `count` comes from the input and may be larger than an `Int`. Throws `truncated`
    /// for more than is left.
    public mutating func readBytes(_ count: some UnsignedInteger) throws(FormatError) -> ArraySlice<UInt8> {
        guard let size = Int(exactly: count) else {
            throw .truncated("\(place): \(count) bytes wanted, \(remaining) left")
        }
        return try readBytes(size)
    }

    /// Steps over `count` bytes. Throws as `readBytes` does.
    public mutating func skip(_ count: Int) throws(FormatError) { _ = try readBytes(count) }

    /// A reader over the next `count` bytes; this one goes on behind them. Its offsets count from the same start.
    /// Throws as `readBytes` does.
    public mutating func readStructure(_ count: Int, _ structure: String) throws(FormatError) -> ByteReader {
        ByteReader(try readBytes(count), structure: structure, origin: origin)
    }

    /// One byte. Throws `truncated` at the end.
    public mutating func readUInt8() throws(FormatError) -> UInt8 { UInt8(truncatingIfNeeded: try readInteger(1)) }
    /// Two bytes. Throws `truncated` near the end.
    public mutating func readUInt16() throws(FormatError) -> UInt16 { UInt16(truncatingIfNeeded: try readInteger(2)) }
    /// Three bytes. Throws `truncated` near the end.
    public mutating func readUInt24() throws(FormatError) -> UInt32 { UInt32(truncatingIfNeeded: try readInteger(3)) }
    /// Four bytes. Throws `truncated` near the end.
    public mutating func readUInt32() throws(FormatError) -> UInt32 { UInt32(truncatingIfNeeded: try readInteger(4)) }
    /// Eight bytes. Throws `truncated` near the end.
    public mutating func readUInt64() throws(FormatError) -> UInt64 { try readInteger(8) }

    /// Two bytes, the least significant first, as PlayReady objects have them. Throws `truncated` near the end.
    public mutating func readUInt16LittleEndian() throws(FormatError) -> UInt16 { try readUInt16().byteSwapped }
    /// Four bytes, the least significant first. Throws `truncated` near the end.
    public mutating func readUInt32LittleEndian() throws(FormatError) -> UInt32 { try readUInt32().byteSwapped }

    /// Four bytes as the characters of a box type; a byte outside printable ASCII becomes `.`, so that the text is safe
    /// in messages. Throws `truncated` near the end.
    public mutating func readFourCC() throws(FormatError) -> String {
        let code = try readBytes(4)
        return String(decoding: code.map { 0x20..<0x7F ~= $0 ? $0 : UInt8(ascii: ".") }, as: UTF8.self)
    }

    /// "pssh box, offset 12", for error texts.
    public var place: String { "\(structure), offset \(offset)" }

    private mutating func readInteger(_ size: Int) throws(FormatError) -> UInt64 {
        try readBytes(size).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
