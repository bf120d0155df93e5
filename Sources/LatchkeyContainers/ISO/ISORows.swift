// SPDX-License-Identifier: MPL-2.0

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
