// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite("License record")
struct LicenseRecordTests {
    /// Put together by hand from the table in `LicenseRecord.serialized()`.
    private static let golden =
        "01" + "01" + "03" + "03" + "00112233445566778899aabbccddeeff" + "000000005633a12a" + "000000005633a166"
        + "0001" + "0f0e0d0c0b0a09080706050403020100" + "0002" + "6964" + "00000003" + "aabbcc"

    private static let record = LicenseRecord(
        id: RecordID((0..<16).map { UInt8($0 * 0x11) })!, kind: .license, keySystem: .playReady,
        keyIDs: [KeyID((0..<16).map { UInt8(15 - $0) })!], contentID: [0x69, 0x64],
        begins: UnixTime(seconds: 1_446_224_170), ends: UnixTime(seconds: 1_446_224_230),
        payload: [0xAA, 0xBB, 0xCC])

    @Test func theBytesAreThoseOfTheTable() throws {
        #expect(Hex.encode(try Self.record.serialized()) == Self.golden)
        #expect(try LicenseRecord(serialized: Hex.decode(Self.golden)!) == Self.record)
    }

    @Test func everyCutAndEveryChangeIsReadOrRefused() throws {
        let bytes = Hex.decode(Self.golden)!
        for count in 0..<bytes.count {
            #expect(throws: (any Error).self) { try LicenseRecord(serialized: Array(bytes.prefix(count))) }
        }
        #expect(throws: (any Error).self) { try LicenseRecord(serialized: bytes + [0]) }
        var random = SeededGenerator(seed: 5)
        for _ in 0..<5000 {
            let changed = random.mutate(bytes)
            if let record = try? LicenseRecord(serialized: changed) { #expect(try record.serialized() == changed) }
        }
    }

    @Test func itPrintsWithoutItsPayload() {
        var text = ""
        dump(Self.record, to: &text)
        #expect(!"\(Self.record) \(text)".lowercased().contains("170, 187"))
        #expect("\(Self.record)".contains("3 bytes"))
    }
}

@Suite("Unix time")
struct UnixTimeTests {
    @Test(
        arguments: [
            (0, "1970-01-01 00:00:00 UTC"), (1_446_224_170, "2015-10-30 16:56:10 UTC"), (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"), (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (253_402_300_799, "9999-12-31 23:59:59 UTC"), (-62_135_596_800, "0001-01-01 00:00:00 UTC"),
            (.max, "9223372036854775807 s since 1970"), (.min, "-9223372036854775808 s since 1970"),
        ] as [(Int64, String)])
    func text(seconds: Int64, expected: String) { #expect(UnixTime(seconds: seconds).description == expected) }

    @Test func arithmeticStopsAtTheEnds() {
        #expect(UnixTime(seconds: .max).advanced(bySeconds: 1).seconds == .max)
        #expect(UnixTime(seconds: .min).advanced(bySeconds: -1).seconds == .min)
        #expect(UnixTime(seconds: .min).seconds(to: UnixTime(seconds: .max)) == .max)
        #expect(UnixTime(seconds: .max).seconds(to: UnixTime(seconds: .min)) == .min)
        #expect(UnixTime(seconds: 5).seconds(to: UnixTime(seconds: 8)) == 3)
    }
}
