// SPDX-License-Identifier: MPL-2.0

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
