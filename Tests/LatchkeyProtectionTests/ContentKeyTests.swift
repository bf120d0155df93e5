// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyProtection

@Suite struct ContentKeyTests {
    private let digits = "00112233445566778899aabbccddeeff"

    @Test func readsBytesAndDigits() throws {
        let bytes = (0..<16).map { UInt8($0 * 0x11) }
        let first = try #require(ContentKey(bytes))
        let second = try #require(ContentKey(hex: digits))
        #expect(first.withBytes { Array($0) } == bytes)
        #expect(second.withBytes { Array($0) } == bytes)
        #expect(first == second)
        #expect(try first == #require(ContentKey(bytes[...])))
    }

    @Test(arguments: [0, 1, 15, 17, 32])
    func otherSizesAreNoKey(count: Int) {
        #expect(ContentKey([UInt8](repeating: 1, count: count)) == nil)
        #expect(ContentKey(hex: String(repeating: "01", count: count)) == nil)
    }

    @Test(arguments: [
        (16, "\n", 16), (16, "\r\n", 16), (16, "", 16), (16, "\n\n", 18), (16, "\r", 17), (15, "\n", 16),
        (17, "\n", 18), (0, "", 0),
        (32, "\n", 33),
    ])
    func aLineEndBehindAKeyIsTakenOff(count: Int, rest: String, left: Int) {
        var bytes = [UInt8](repeating: 0x0A, count: count) + Array(rest.utf8)
        let answer = bytes
        ContentKey.removeLineEnd(behind: &bytes)
        #expect(bytes == Array(answer.prefix(left)))
    }

    @Test(arguments: [
        "0011223344556677-8899aabbccddee", "zz112233445566778899aabbccddeeff", "00112233445566778899aabbccddeef",
    ])
    func textThatIsNoKey(text: String) {
        #expect(ContentKey(hex: text) == nil)
    }

    @Test func oneBitMakesAnotherKey() throws {
        let bytes = [UInt8](repeating: 0x5a, count: 16)
        let key = try #require(ContentKey(bytes))
        for bit in 0..<128 {
            var other = bytes
            other[bit / 8] ^= 1 << (bit % 8)
            #expect(try !(key == #require(ContentKey(other))))
        }
    }

    @Test func printsRedacted() throws {
        let key = try #require(ContentKey(hex: digits))
        var dumped = ""
        dump(key, to: &dumped)
        let texts = [
            "\(key)", String(describing: key), String(reflecting: key), key.description, dumped, "\([key])",
            "\(["key": key])", String(describing: Optional(key)),
        ]
        for text in texts {
            #expect(text.contains("<redacted>"), "\(text)")
            #expect(!text.contains("0011"), "\(text)")
            #expect(!text.contains("17"), "\(text)")
        }
        #expect(Mirror(reflecting: key).children.isEmpty)
    }

    @Test func errorsOfTheBodyComeThrough() throws {
        struct Refused: Error {}
        let key = try #require(ContentKey(hex: digits))
        #expect(throws: Refused.self) { try key.withBytes { _ throws(Refused) in throw Refused() } }
    }

    @Test func memoryIsWipedWhenTheKeyGoes() throws {
        // A memory of its own, so that no other test takes the slot.
        let memory = KeyMemory()
        var key = ContentKey([UInt8](repeating: 0xab, count: 16), in: memory)
        let address = try #require(key?.withBytes { $0.baseAddress.map { UInt(bitPattern: $0) } })
        let slot = UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: address), count: KeyMemory.slotSize)
        #expect(slot.prefix(16).allSatisfy { $0 == 0xab })
        key = nil
        #expect(slot.allSatisfy { $0 == 0 })
        // The next key gets the same place, clean.
        let next = try #require(memory.allocate())
        #expect(UInt(bitPattern: next.bytes.baseAddress) == address)
        #expect(next.bytes.allSatisfy { $0 == 0 })
    }

    @Test func wipedArraysAreEmpty() {
        var bytes: [UInt8] = [1, 2, 3]
        wipe(&bytes)
        #expect(bytes.isEmpty)
    }
}
