// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct HexTests {
    @Test func everyByteGoesThereAndBack() {
        for byte in UInt8.min...UInt8.max {
            let text = Hex.encode([byte])
            #expect(text.utf8.count == 2)
            #expect(text == text.lowercased())
            #expect(Hex.decode(text) == [byte])
            #expect(Hex.decode(text.uppercased()) == [byte])
            #expect(UInt8(text, radix: 16) == byte)
        }
    }

    @Test func randomBytesGoThereAndBack() {
        var generator = SystemRandomNumberGenerator()
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            #expect(Hex.decode(Hex.encode(bytes)) == bytes)
        }
    }

    @Test(arguments: [
        "0", "abc", "0x00", "00 11", " 00", "00 ", "g0", "0g", "-1", "+1", "٠٠", "００", "é", "0\0", "a:b", "/:", "@G",
        "`g",
    ])
    func textThatIsNoHex(text: String) {
        #expect(Hex.decode(text) == nil)
    }

    @Test func emptyTextIsNoBytes() {
        #expect(Hex.decode("") == [])
        #expect(Hex.encode([]) == "")
    }

    @Test func substringsAreRead() {
        #expect(Hex.decode("xx0aFFyy".dropFirst(2).dropLast(2)) == [0x0a, 0xff])
    }
}
