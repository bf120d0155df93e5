// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyTestServer

@Suite struct ByteRangeTests {
    @Test(arguments: [
        (nil, ByteRange.whole), ("bytes=0-0", .part(0...0)), ("bytes=0-99", .part(0...99)),
        ("bytes=0-100", .part(0...99)), ("bytes=10-19", .part(10...19)), ("bytes=90-", .part(90...99)),
        ("bytes=99-", .part(99...99)), ("bytes=-1", .part(99...99)), ("bytes=-100", .part(0...99)),
        ("bytes=-101", .part(0...99)), ("BYTES= 5 - 6 ", .part(5...6)),
        ("bytes=5-99999999999999999999999", .part(5...99)), ("bytes=-99999999999999999999999", .part(0...99)),
        // beyond the end
        ("bytes=100-", .unsatisfiable), ("bytes=100-200", .unsatisfiable), ("bytes=-0", .unsatisfiable),
        ("bytes=99999999999999999999999-", .unsatisfiable),
        // several, other units, nonsense: as if there were no header
        ("bytes=0-1,3-4", .whole), ("items=0-1", .whole), ("bytes=", .whole), ("bytes=-", .whole),
        ("bytes=5", .whole), ("bytes=6-5", .whole), ("bytes=a-b", .whole), ("bytes=1-2-3", .whole),
        ("bytes=--1", .whole), ("bytes=+1-2", .whole), ("bytes=1 2-3", .whole), ("", .whole),
    ])
    func of100Bytes(header: String?, range: ByteRange) {
        #expect(ByteRange(header: header, size: 100) == range)
    }

    @Test(arguments: ["bytes=0-", "bytes=0-0", "bytes=-1"])
    func anEmptyFileHasNoRange(header: String) {
        #expect(ByteRange(header: header, size: 0) == .unsatisfiable)
    }
}
