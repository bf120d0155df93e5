// SPDX-License-Identifier: MPL-2.0

/// Where a box of ISO media stands (ISO/IEC 14496-12, 4.2): its type and its bytes in the array that it was found in.
///
/// ```
/// UInt32 size, UInt32 type        size 1: UInt64 size behind the type; size 0: to the end
/// type "uuid": UInt8[16] behind the header
/// ```
public struct ISOBox: Hashable, Sendable {
    /// The most boxes of one container that are read.
    public static let maximumCount = 65_536

    /// Four characters; one outside printable ASCII is `.`.
    public let type: String
    /// The whole box with its header, as offsets into the bytes that it was read from.
    public let range: Range<Int>
    /// What stands behind the header.
    public let body: Range<Int>

    /// The boxes of `range` in `bytes`, which have to fill it. They are not looked into.
    ///
    /// Throws `truncated` for a box that goes past the end, `malformed` for a size below that of the header, `tooLarge`
    /// above `maximumCount`. `container` names the place in error texts. Time and memory go with the number of boxes.
    public static func boxes(
        in bytes: [UInt8], range: Range<Int>, container: String = "file"
    ) throws(FormatError) -> [ISOBox] {
        try boxes(in: bytes, range: range, container: container, mayEndInZeros: false)
    }

    private static func boxes(
        in bytes: [UInt8], range: Range<Int>, container: String, mayEndInZeros: Bool
    ) throws(FormatError) -> [ISOBox] {
        guard range.lowerBound >= 0, range.upperBound <= bytes.count else {
            throw .truncated("\(container): its boxes go past the end")
        }
        var boxes: [ISOBox] = []
        var reader = ByteReader(bytes[range], structure: container)
        while !reader.isAtEnd, !mayEndInZeros || reader.rest.contains(where: { $0 != 0 }) {
            guard boxes.count < maximumCount else {
                throw .tooLarge("\(container): more than \(maximumCount) boxes")
            }
            let start = range.lowerBound + reader.offset
            let place = reader.place
            var header = reader
            var size = UInt64(try header.readUInt32())
            let type = try header.readFourCC()
            if size == 0 {
                size = UInt64(reader.remaining)
            } else if size == 1 {
                size = try header.readUInt64()
            }
            let headerSize = header.offset - reader.offset
            guard size >= headerSize else { throw .malformed("\(place): a box of \(size) bytes") }
            guard let whole = Int(exactly: size), whole <= reader.remaining else {
                throw .truncated("\(place): box “\(type)” of \(size) bytes, \(reader.remaining) left")
            }
            try reader.skip(whole)
            boxes.append(ISOBox(type: type, range: start..<start + whole, body: start + headerSize..<start + whole))
        }
        return boxes
    }

    /// The boxes within this one, `skipping` that many bytes behind its header. Zeros behind the last box are no box:
    /// QuickTime ends lists with four of them, and some writers pad boxes. Throws `truncated` where the box ends before
    /// its first box or a box within goes past its end, `malformed` for a size below that of a header, `tooLarge` for too
    /// many boxes.
    public func children(in bytes: [UInt8], skipping: Int = 0) throws(FormatError) -> [ISOBox] {
        guard skipping >= 0, skipping <= body.count else { throw .truncated("box “\(type)”: \(body.count) bytes") }
        return try Self.boxes(
            in: bytes, range: body.lowerBound + skipping..<body.upperBound, container: "box “\(type)”",
            mayEndInZeros: true)
    }

    /// A cursor over what stands behind the header.
    public func reader(_ bytes: [UInt8]) -> ByteReader {
        ByteReader(bytes[body.clamped(to: 0..<bytes.count)], structure: "box “\(type)”")
    }
}

/// The header of a box that is not there as a whole (ISO/IEC 14496-12, 4.2).
package struct ISOBoxHeader: Hashable, Sendable {
    /// The most bytes that a header without `uuid` has.
    package static let maximumSize = 16

    /// Four characters; one outside printable ASCII is `.`.
    package var type: String
    /// In bytes: 8 or 16.
    package var headerSize: Int
    /// With the header; nil for a box that goes to the end of the file.
    package var size: UInt64?

    /// Nil where `bytes` end too early. Throws `malformed` for a size below that of the header.
    package init?(_ bytes: ArraySlice<UInt8>, at position: UInt64) throws(FormatError) {
        var reader = ByteReader(bytes, structure: "box header")
        guard reader.remaining >= 8 else { return nil }
        let short = try reader.readUInt32()
        type = try reader.readFourCC()
        headerSize = 8
        size = short == 0 ? nil : UInt64(short)
        if short == 1 {
            guard reader.remaining >= 8 else { return nil }
            headerSize = 16
            size = try reader.readUInt64()
        }
        guard size ?? 16 >= UInt64(headerSize) else {
            throw .malformed("box “\(type)” at \(position): a size of \(size ?? 0) bytes")
        }
    }

    /// Behind the last byte of the box that starts at `position`; the largest number for one that goes to the end.
    package func end(from position: UInt64) throws(FormatError) -> UInt64 {
        guard let size else { return .max }
        let (end, overflow) = position.addingReportingOverflow(size)
        guard !overflow else { throw .malformed("box “\(type)” at \(position): a size of \(size) bytes") }
        return end
    }
}

/// A table of big-endian numbers in a box: rows of one size, all of them there.
package struct ISORows: Sendable {
    package let count: Int
    private let bytes: ArraySlice<UInt8>
    private let stride: Int

    /// Takes `count` rows off a cursor, which checks the count before anything grows by it.
    package init(_ reader: inout ByteReader, count: UInt32, stride: Int) throws(FormatError) {
        bytes = try reader.readBytes(UInt64(count) * UInt64(stride))
        self.count = Int(count)
        self.stride = stride
    }

    package static let none = ISORows()

    private init() {
        count = 0
        bytes = []
        stride = 1
    }

    package func uint8(_ row: Int, _ offset: Int = 0) -> UInt8 { bytes[bytes.startIndex + row * stride + offset] }

    package func uint16(_ row: Int, _ offset: Int = 0) -> UInt16 {
        UInt16(uint8(row, offset)) << 8 | UInt16(uint8(row, offset + 1))
    }

    package func uint32(_ row: Int, _ offset: Int = 0) -> UInt32 {
        UInt32(uint16(row, offset)) << 16 | UInt32(uint16(row, offset + 2))
    }

    package func uint64(_ row: Int, _ offset: Int = 0) -> UInt64 {
        UInt64(uint32(row, offset)) << 32 | UInt64(uint32(row, offset + 4))
    }
}
