// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct ISOBoxTests {
    private func box(_ type: String, _ body: [UInt8] = []) -> [UInt8] {
        let size = body.count + 8
        return [UInt8(size >> 24), UInt8(size >> 16 & 255), UInt8(size >> 8 & 255), UInt8(size & 255)]
            + Array(type.utf8) + body
    }

    @Test func sizesOfAllForms() throws {
        let large: [UInt8] = [0, 0, 0, 1] + Array("mdat".utf8) + [0, 0, 0, 0, 0, 0, 0, 18, 7, 7]
        let last: [UInt8] = [0, 0, 0, 0] + Array("free".utf8) + [1, 2, 3]
        let bytes = box("ftyp", [9]) + large + last
        let boxes = try ISOBox.boxes(in: bytes, range: 0..<bytes.count)
        #expect(boxes.map(\.type) == ["ftyp", "mdat", "free"])
        #expect(boxes.map(\.range) == [0..<9, 9..<27, 27..<38])
        #expect(boxes.map(\.body) == [8..<9, 25..<27, 35..<38])
        var reader = boxes[2].reader(bytes)
        #expect(try reader.readUInt24() == 0x010203)
    }

    /// In 64 bits, 0 is a size like any other, and too small.
    @Test(arguments: [UInt8(0), 1, 15])
    func sizesBelowTheHeader(size: UInt8) {
        let bytes: [UInt8] = [0, 0, 0, 1] + Array("free".utf8) + [0, 0, 0, 0, 0, 0, 0, size]
        #expect(throws: FormatError.self) { try ISOBox.boxes(in: bytes, range: 0..<bytes.count) }
    }

    @Test func boxesWithinBoxes() throws {
        let bytes = box("moov", box("mvhd") + box("stsd", [0, 0, 0, 0, 0, 0, 0, 1] + box("avc1", [5])))
        let moov = try #require(try ISOBox.boxes(in: bytes, range: 0..<bytes.count).first)
        let children = try moov.children(in: bytes)
        #expect(children.map(\.type) == ["mvhd", "stsd"])
        #expect(try children[1].children(in: bytes, skipping: 8).map(\.type) == ["avc1"])
        #expect(throws: FormatError.self) { try children[0].children(in: bytes, skipping: 1) }
        #expect(throws: FormatError.self) { try children[0].children(in: bytes, skipping: -1) }
        #expect(throws: FormatError.self) { try moov.children(in: []) }
        #expect(moov.reader([]).remaining == 0)
    }

    @Test func typesAreSafeInMessages() throws {
        let bytes: [UInt8] = [0, 0, 0, 8, 0xA9, 0x0A, 0x41, 0x42]
        #expect(try ISOBox.boxes(in: bytes, range: 0..<8).map(\.type) == ["..AB"])
    }

    @Test func boxesAreCounted() throws {
        let most = Array(repeatElement(box("free"), count: ISOBox.maximumCount).joined())
        #expect(try ISOBox.boxes(in: most, range: 0..<most.count).count == ISOBox.maximumCount)
        let more = most + box("free")
        #expect {
            try ISOBox.boxes(in: more, range: 0..<more.count)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }

    /// Boxes in boxes to any depth cost no stack.
    @Test func depthIsNoDanger() throws {
        var bytes: [UInt8] = []
        let types = ["moov", "trak", "mdia", "minf", "stbl", "stsd"]
        for level in 0..<20_000 {
            let size = (20_000 - level) * 8
            bytes += [UInt8(size >> 24), UInt8(size >> 16 & 255), UInt8(size >> 8 & 255), UInt8(size & 255)]
            bytes += types[min(level, 2 + level % 2)].utf8
        }
        let section = try InitSegment(bytes)
        #expect(section.tracks.count == 1)
        #expect(
            try section.markingProtected(scheme: .cbcs, keyID: KeyID(high: 0, low: 1), protectionBoxes: []) == bytes)
    }

    @Test(arguments: [UInt64(1), 2, 3, 4])
    func mutatedSections(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let sources = try (InitSegmentTests.sections.map(\.file) + ["hls-fmp4-aes128-openssl/v_init.mp4"])
            .map { try InitSegmentTests.bytes($0) }
        let key = HLSKey(method: .sampleAES, uri: "skd://a", keyFormat: HLSKeyFormat.fairPlay.name)
        let keyID = KeyID(high: 1, low: 2)
        let box = key.initializationData(keyID: keyID)
        let added = box.serialized()?.count ?? 0
        var (read, refused) = (0, 0)
        for _ in 0..<1500 {
            let bytes = generator.mutate(try #require(sources.randomElement(using: &generator)))
            do throws(FormatError) {
                let section = try InitSegment(bytes)
                read += 1
                #expect(section.tracks.count <= bytes.count / 8)
                let keyed = try section.rewriting(keyID: keyID, protectionBoxes: [box])
                #expect(keyed.count <= bytes.count + added)
                #expect(try InitSegment(keyed).protectionBoxes.last == box)
                let marked = try section.markingProtected(scheme: .cbcs, keyID: keyID, protectionBoxes: [box])
                #expect(try InitSegment(marked).protectionBoxes == [box])
            } catch {
                #expect(!error.reason.isEmpty)
                refused += 1
            }
        }
        #expect(read > 100)
        #expect(refused > 100)
    }

    @Test func everyTruncation() throws {
        let bytes = try InitSegmentTests.bytes("hls-fmp4-cbcs-3drm/a_init.mp4")
        for length in 0..<bytes.count {
            #expect(throws: FormatError.self) { try InitSegment(Array(bytes.prefix(length))) }
        }
    }

    /// The broken files of the corpus are read or refused with a reason.
    @Test func brokenFilesOfTheCorpus() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        var (read, refused) = (0, 0)
        for group in ["tenc-sinf", "pssh", "truncated", "cbcs", "senc", "playready-object", "seig"] {
            let folder = tests.appendingPathComponent("Corpus/broken-mp4-\(group)").path
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) where name.hasSuffix(".mp4") {
                let bytes = try InitSegmentTests.bytes("broken-mp4-\(group)/\(name)")
                do throws(FormatError) {
                    let section = try InitSegment(bytes)
                    #expect(!section.tracks.isEmpty, "\(group)/\(name)")
                    read += 1
                } catch {
                    #expect(!error.reason.isEmpty, "\(group)/\(name)")
                    refused += 1
                }
            }
        }
        #expect(read > 10 && refused > 2, "\(read) read, \(refused) refused")
    }
}
