// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct TLLVTests {
    private let tag = TLLV.Tag(rawValue: 0x0102_0304_0506_0708)

    private func payload(_ text: String) throws -> TLLVPayload {
        try TLLVPayload(reading: try #require(Hex.decode(text.filter { !$0.isWhitespace })))
    }

    @Test func theLayoutIsThatOfTheTable() throws {
        let read = try payload(
            """
            0102030405060708 00000010 00000003 aabbcc 00112233445566778899aabbcc
            1bf7f53f5d5d5a1f 00000000 00000000
            """)
        let blocks = [
            TLLV(
                tag, [0xAA, 0xBB, 0xCC],
                padding: [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC]),
            TLLV(.assetIdentifier, [], padding: []),
        ]
        #expect(read.blocks == blocks)
        #expect(read.blocks.map(\.size) == [32, 16])
        #expect(read[tag]?.value == [0xAA, 0xBB, 0xCC])
        #expect(read[.r1] == nil)
        #expect(try TLLVPayload(blocks).serialized() == (try read.serialized()))
        #expect(try payload("").blocks.isEmpty)
    }

    /// One whole block more than the value needs, also where the value fills its last one.
    @Test(arguments: [(0, 16), (1, 31), (8, 24), (15, 17), (16, 16), (17, 31), (21, 27), (32, 16), (112, 16)])
    func paddingIsABlockMoreThanIsNeeded(size: Int, padding: Int) throws {
        var generator = SeededGenerator(seed: 1)
        let block = TLLV(tag, [UInt8](repeating: 1, count: size)) { generator.bytes($0) }
        #expect(block.padding.count == padding)
        #expect(block.size % 16 == 0)
        #expect(!block.hasConstantPadding)
    }

    @Test func knowsPaddingThatIsNotRandom() {
        for byte: UInt8 in [0, 0xFF, 7] {
            #expect(TLLV(tag, [], padding: [UInt8](repeating: byte, count: 16)).hasConstantPadding)
            #expect(TLLV(tag, [], padding: [UInt8](repeating: byte, count: 8)).hasConstantPadding)
            #expect(!TLLV(tag, [], padding: [UInt8](repeating: byte, count: 7)).hasConstantPadding)
        }
        #expect(!TLLV(tag, [], padding: Array(0..<16)).hasConstantPadding)
        #expect(!TLLV(tag, [], padding: []).hasConstantPadding)
    }

    @Test(arguments: [
        // a header that ends early
        ("0102030405060708 00000010 000000", FormatError.truncated("")),
        // a value, and padding, that end early
        ("0102030405060708 00000010 00000010 00", .truncated("")),
        ("0102030405060708 00000020 00000010 00112233445566778899aabbccddeeff", .truncated("")),
        // a block of 4 GiB
        ("0102030405060708 fffffff0 00000010 00112233445566778899aabbccddeeff", .truncated("")),
        // a block that is no multiple of 16
        ("0102030405060708 00000011 00000001 0011223344556677889900112233445566", .malformed("")),
        // a value longer than its block
        ("0102030405060708 00000010 00000011 00112233445566778899aabbccddeeff00", .malformed("")),
        ("0102030405060708 00000010 ffffffff 00112233445566778899aabbccddeeff", .malformed("")),
        // the same tag twice
        ("0102030405060708 00000000 00000000 0102030405060708 00000000 00000000", .duplicate("")),
    ])
    func refusesBrokenBlocks(text: String, kind: FormatError) {
        let error = #expect(throws: FormatError.self) { try payload(text) }
        #expect(error?.isSameKind(as: kind) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("00112233") == false)
    }

    @Test func isBounded() throws {
        let bytes = [UInt8](repeating: 0, count: TLLVPayload.maximumSize + 16)
        #expect(throws: FormatError.self) { try TLLVPayload(reading: bytes) }
        let large = try TLLVPayload([TLLV(tag, bytes, padding: [])])
        let error = #expect(throws: FormatError.self) { try large.serialized() }
        #expect(error?.isSameKind(as: .tooLarge("")) == true)
    }

    @Test func namesKnownTagsAndShowsNoValue() throws {
        #expect(TLLV.Tag.assetIdentifier.description == "asset identifier (1bf7f53f5d5d5a1f)")
        #expect(TLLV.Tag(rawValue: 0x12).description == "0000000000000012")
        let block = TLLV(.r1, Array("secret".utf8), padding: Array("hidden".utf8))
        var text = "\(block)"
        dump(block, to: &text)
        dump(try TLLVPayload([block]), to: &text)
        text += "\(try TLLVPayload([block]))"
        #expect(text.contains("R1") && !text.contains("115") && !text.contains("secret"))
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            let payload = try randomPayload(&generator)
            let bytes = try payload.serialized()
            #expect(bytes.count % 16 == 0)
            let read = try TLLVPayload(reading: bytes)
            #expect(read == payload)
            #expect(try read.serialized() == bytes)
        }
    }

    @Test(arguments: [UInt64(11), 12, 13, 14])
    func damagedPayloadsThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var (read, refused) = (0, 0)
        for _ in 0..<1500 {
            let bytes = generator.mutate(try randomPayload(&generator).serialized())
            do throws(FormatError) {
                let payload = try TLLVPayload(reading: bytes)
                #expect(try payload.serialized() == bytes)
                read += 1
            } catch {
                #expect(!error.reason.isEmpty)
                refused += 1
            }
        }
        #expect(read > 0)
        #expect(refused > 0)
    }

    @Test func everyTruncationIsRefusedUnlessItEndsBetweenBlocks() throws {
        var generator = SeededGenerator(seed: 21)
        let payload = try randomPayload(&generator)
        let bytes = try payload.serialized()
        var ends: Set<Int> = [0]
        for block in payload.blocks { ends.insert((ends.max() ?? 0) + block.size) }
        for length in bytes.indices {
            let read = try? TLLVPayload(reading: Array(bytes.prefix(length)))
            #expect((read != nil) == ends.contains(length), "\(length)")
        }
    }

    private func randomPayload(_ generator: inout SeededGenerator) throws -> TLLVPayload {
        var blocks: [TLLV] = []
        for number in 0..<Int.random(in: 0...12, using: &generator) {
            let tag = TLLV.Tag(rawValue: UInt64.random(in: 0 ... .max, using: &generator) << 4 | UInt64(number))
            let value = generator.bytes(Int.random(in: 0...100, using: &generator))
            blocks.append(TLLV(tag, value) { generator.bytes($0) })
        }
        return try TLLVPayload(blocks)
    }
}
