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
        guard range.lowerBound >= 0, range.upperBound <= bytes.count else {
            throw .truncated("\(container): its boxes go past the end")
        }
        var boxes: [ISOBox] = []
        var reader = ByteReader(bytes[range], structure: container)
        while !reader.isAtEnd {
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

    /// The boxes within this one, `skipping` that many bytes behind its header. Throws `truncated` where the box ends
    /// before that or a box within goes past its end, `malformed` for a size below that of a header, `tooLarge` for too
    /// many boxes.
    public func children(in bytes: [UInt8], skipping: Int = 0) throws(FormatError) -> [ISOBox] {
        guard skipping >= 0, skipping <= body.count else { throw .truncated("box “\(type)”: \(body.count) bytes") }
        return try Self.boxes(
            in: bytes, range: body.lowerBound + skipping..<body.upperBound, container: "box “\(type)”")
    }

    /// A cursor over what stands behind the header.
    public func reader(_ bytes: [UInt8]) -> ByteReader {
        ByteReader(bytes[body.clamped(to: 0..<bytes.count)], structure: "box “\(type)”")
    }
}
