// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct KeyIDTests {
    private let digits = "00112233445566778899aabbccddeeff"

    @Test func bothSpellingsAreTheSameKID() throws {
        let plain = try #require(KeyID(hex: digits))
        #expect(KeyID(hex: "00112233-4455-6677-8899-AABBCCDDEEFF") == plain)
        #expect(KeyID(hex: digits.uppercased()) == plain)
        #expect(plain.description == digits)
        #expect(plain.uuidString == "00112233-4455-6677-8899-aabbccddeeff")
        #expect(plain.bytes == (0..<16).map { UInt8($0 * 0x11) })
    }

    @Test func bytesGoThereAndBack() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            let kid = try #require(KeyID(bytes))
            #expect(kid.bytes == bytes)
            #expect(KeyID(hex: kid.uuidString) == kid)
            #expect(KeyID(hex: kid.description) == kid)
            #expect(KeyID(bytes[...]) == kid)
        }
    }

    @Test(arguments: [0, 1, 15, 17, 32])
    func otherSizesAreNoKID(count: Int) {
        #expect(KeyID([UInt8](repeating: 1, count: count)) == nil)
        #expect(KeyID(hex: String(repeating: "01", count: count)) == nil)
    }

    @Test(arguments: [
        "00112233445566778899aabbccddeef", "00112233445566778899aabbccddeefg", "{00112233445566778899aabbccddeeff}",
        "0011223344556677-8899aabbccddeeff", "------------------------------------",
        "00112233445566778899aabbccddeeff ",
    ])
    func textThatIsNoKID(text: String) {
        #expect(KeyID(hex: text) == nil)
    }

    @Test(arguments: [
        "00112233445566778899aabbccddeeff", "{00112233-4455-6677-8899-AABBCCDDEEFF}",
        "{00112233445566778899aabbccddeeff}", "URN:UUID:00112233-4455-6677-8899-aabbccddeeff",
    ])
    func spellingsOfUUIDs(text: String) {
        #expect(KeyID(uuid: text) == KeyID(hex: digits))
        #expect(KeyID(uuid: "\(text)}") == nil)
    }

    @Test func onlyTheZeroKIDIsZero() throws {
        #expect(try #require(KeyID([UInt8](repeating: 0, count: 16))).isZero)
        for position in 0..<16 {
            var bytes = [UInt8](repeating: 0, count: 16)
            bytes[position] = 1
            #expect(try !#require(KeyID(bytes)).isZero)
        }
    }
}
