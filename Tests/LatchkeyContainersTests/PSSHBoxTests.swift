// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Foundation
import LatchkeyContainers
import LatchkeyProtection
import Testing

@Suite struct PSSHBoxTests {
    private let first = KeyID(hex: "2a54856d33e557f486aa203a9eb94ca5")
    private let second = KeyID(hex: "00112233445566778899aabbccddeeff")

    @Test func readsVersion0() throws {
        let bytes =
            [0, 0, 0, 0x22] + Array("pssh".utf8) + [0, 0, 0, 0] + ProtectionSystem.widevine.bytes
            + [0, 0, 0, 2, 0xAB, 0xCD]
        let box = try #require(try PSSHBox.boxes(in: bytes).first)
        #expect(box.system == .widevine)
        #expect(box.version == 0)
        #expect(box.keyIDs.isEmpty)
        #expect(box.data == [0xAB, 0xCD])
        #expect(box.serialized() == bytes)
    }

    @Test func readsVersion1WithItsKeyIDs() throws {
        let (first, second) = (try #require(first), try #require(second))
        let bytes =
            [0, 0, 0, 0x45] + Array("pssh".utf8) + [1, 0, 0, 0] + ProtectionSystem.common.bytes
            + [0, 0, 0, 2] + first.bytes + second.bytes + [0, 0, 0, 1, 7]
        let boxes = try PSSHBox.boxes(in: bytes)
        #expect(boxes == [PSSHBox(system: .common, keyIDs: [first, second], data: [7])])
        #expect(boxes.first?.serialized() == bytes)
    }

    @Test func readsA64BitSizeAndASizeThatReachesToTheEnd() throws {
        let tail = [0, 0, 0, 0] + ProtectionSystem.playReady.bytes + [0, 0, 0, 1, 5]
        let long = [0, 0, 0, 1] + Array("pssh".utf8) + [0, 0, 0, 0, 0, 0, 0, 41] + tail
        let open = [0, 0, 0, 0] + Array("pssh".utf8) + tail
        let box = PSSHBox(system: .playReady, data: [5])
        #expect(try PSSHBox.boxes(in: long) == [box])
        #expect(try PSSHBox.boxes(in: open) == [box])
        #expect(try PSSHBox.boxes(in: long + open) == [box, box])
    }

    @Test func bytesBehindDataAreIgnored() throws {
        let bytes =
            [0, 0, 0, 0x23] + Array("pssh".utf8) + [0, 0, 0, 0] + ProtectionSystem.common.bytes
            + [0, 0, 0, 0, 1, 2, 3]
        #expect(try PSSHBox.boxes(in: bytes) == [PSSHBox(system: .common)])
    }

    @Test(arguments: [
        ("0000000c", "truncated"),  // ends behind the size
        ("00000007" + "70737368", "malformed"),  // smaller than its own header
        ("00000001" + "70737368" + "000000000000000f", "malformed"),
        ("00000001" + "70737368" + "ffffffffffffffff", "truncated"),
        ("00000008" + "6d6f6f76", "malformed"),  // a moov
        ("00000008" + "70737368", "truncated"),  // nothing behind the type
        ("0000000c" + "70737368" + "02000000", "unsupported"),
        ("0000000c" + "70737368" + "ff000000", "unsupported"),
        ("00000010" + "70737368" + "00000000" + "1077efec", "truncated"),  // ends in the SystemID
    ])
    func refuses(hex: String, kind: String) throws {
        let bytes = try #require(Hex.decode(hex))
        let error = #expect(throws: FormatError.self) { try PSSHBox.boxes(in: bytes) }
        #expect(error?.shortDescription == kind)
        #expect(PSSHBox.readableBoxes(in: bytes).isEmpty)
    }

    @Test func noBytesHaveNoBoxes() throws {
        #expect(try PSSHBox.boxes(in: [UInt8]()).isEmpty)
    }

    @Test(arguments: [
        ("kidcount-ffffffff.mp4", ProtectionSystem.playReady, "68719476720 bytes wanted"),
        ("datasize-ffffffff.mp4", ProtectionSystem.common, "4294967295 bytes wanted"),
    ])
    func aCountThatCannotBeTrueLeavesTheOtherBoxesUsable(
        file: String, readable: ProtectionSystem, text: String
    ) throws {
        let boxes = try CorpusBoxes.boxes(of: "broken-mp4-pssh/\(file)")
        #expect(boxes.count == 2)
        let row = boxes.flatMap(\.self)
        #expect(PSSHBox.readableBoxes(in: row).map(\.system) == [readable])
        let error = #expect(throws: FormatError.self) { try PSSHBox.boxes(in: row) }
        #expect(error?.shortDescription == "truncated")
        #expect(error?.description.contains(text) == true)
    }

    @Test func aFileWithoutBoxesHasNone() throws {
        #expect(try CorpusBoxes.boxes(of: "broken-mp4-pssh/pssh-removed.mp4").isEmpty)
    }

    @Test func theCorpusBoxesAreReadAsTheirPackagersWroteThem() throws {
        let boxes = try CorpusBoxes.boxes(of: "shaka-cenc-3kids-2video-audio/audio.mp4")
        let read = try PSSHBox.boxes(in: boxes.flatMap(\.self))
        #expect(Set(read.map(\.system)) == [.common, .playReady, .widevine])
        #expect(read.first { $0.system == .common }?.keyIDs.count == 3)
        let kids = try caseKeyIDs("shaka-cenc-3kids-2video-audio")
        #expect(Set(read.flatMap(\.keyIDs)) == kids)
        #expect(kids.count == 3)
    }

    @Test(arguments: CorpusBoxes.files)
    func aCorpusBoxIsWrittenAsItWasRead(file: String) throws {
        let boxes = try CorpusBoxes.boxes(of: file)
        #expect(!boxes.isEmpty)
        for bytes in boxes {
            let box = try #require(try PSSHBox.boxes(in: bytes).first)
            #expect(box.serialized() == bytes)
        }
    }

    private func caseKeyIDs(_ name: String) throws -> Set<KeyID> {
        struct Case: Decodable {
            struct Key: Decodable { var kid: String }
            var keys: [Key]
        }
        let content = try JSONDecoder().decode(Case.self, from: try CorpusBoxes.corpusFile("\(name)/case.json"))
        return Set(content.keys.compactMap { KeyID(hex: $0.kid) })
    }
}
