// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import Testing

@Suite struct ByteReaderTests {
    @Test func readsIntegersOfAllSizesInBothOrders() throws {
        var reader = ByteReader(Array(0...32), structure: "bytes")
        #expect(try reader.readUInt8() == 0)
        #expect(try reader.readUInt16() == 0x0102)
        #expect(try reader.readUInt24() == 0x03_0405)
        #expect(try reader.readUInt32() == 0x0607_0809)
        #expect(try reader.readUInt64() == 0x0A0B_0C0D_0E0F_1011)
        #expect(try reader.readUInt16LittleEndian() == 0x1312)
        #expect(try reader.readUInt32LittleEndian() == 0x1716_1514)
        try reader.skip(8)
        #expect(reader.remaining == 1)
        #expect(Array(reader.rest) == [32])
        #expect(!reader.isAtEnd)
    }

    @Test func aReadPastTheEndThrowsAndLeavesTheCursor() throws {
        var reader = ByteReader([1, 2, 3], structure: "box")
        try reader.skip(1)
        #expect(throws: FormatError.truncated("box, offset 1: 4 bytes wanted, 2 left")) { try reader.readUInt32() }
        #expect(throws: FormatError.truncated("box, offset 1: 18446744073709551615 bytes wanted, 2 left")) {
            try reader.readBytes(UInt64.max)
        }
        #expect(throws: FormatError.self) { try reader.readBytes(-1) }
        #expect(throws: FormatError.self) { try reader.skip(Int.max) }
        #expect(try reader.readUInt16() == 0x0203)
        #expect(reader.isAtEnd)
        #expect(throws: FormatError.self) { try reader.readUInt8() }
        #expect(try reader.readBytes(0).isEmpty)
    }

    @Test func offsetsOfANestedReaderCountFromTheOuterStart() throws {
        let bytes: [UInt8] = [9, 9, 0, 1, 2, 3, 4, 5]
        var outer = ByteReader(bytes[2...], structure: "outer")
        try outer.skip(1)
        var inner = try outer.readStructure(3, "inner")
        #expect(outer.offset == 4)
        #expect(inner.offset == 1)
        #expect(try inner.readUInt16() == 0x0102)
        #expect(throws: FormatError.truncated("inner, offset 3: 2 bytes wanted, 1 left")) { try inner.readUInt16() }
        #expect(try outer.readUInt8() == 4)
    }

    @Test func aBoxTypeIsPrintable() throws {
        var reader = ByteReader(Array("pssh".utf8) + [0, 0xFF, 0x41, 0x0A], structure: "box")
        #expect(try reader.readFourCC() == "pssh")
        #expect(try reader.readFourCC() == "..A.")
    }
}
