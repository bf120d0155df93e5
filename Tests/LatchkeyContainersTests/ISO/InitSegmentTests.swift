// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Testing

@Suite struct InitSegmentTests {
    private static let fairPlayKey = HLSKey(
        method: .sampleAES, uri: "skd://asset-0001", keyFormat: HLSKeyFormat.fairPlay.name)

    static func bytes(_ file: String) throws -> [UInt8] { Array(try CorpusBoxes.corpusFile(file)) }

    /// Files of the corpus that start with a section, and what is in them.
    static let sections: [(file: String, scheme: String, format: String, handler: String, boxes: Int)] = [
        ("hls-fmp4-cbcs-fairplay-skd/v_init.mp4", "cbcs", "avc1", "vide", 0),
        ("hls-fmp4-cbcs-fairplay-skd/a_init.mp4", "cbcs", "mp4a", "soun", 0),
        ("hls-fmp4-cbcs-identity/v_init.mp4", "cbcs", "avc1", "vide", 1),
        ("hls-fmp4-cbcs-3drm/a_init.mp4", "cbcs", "mp4a", "soun", 2),
        ("dash-cenc-static-live/v_init.mp4", "cenc", "avc1", "vide", 3),
        ("dash-cenc-iv16-hevc-ac3/v_init.mp4", "cenc", "hvc1", "vide", 1),
        ("dash-cenc-iv16-hevc-ac3/a_init.mp4", "cenc", "ac-3", "soun", 1),
    ]

    @Test(arguments: sections.indices)
    func sectionsOfTheCorpus(index: Int) throws {
        let expected = Self.sections[index]
        let section = try InitSegment(try Self.bytes(expected.file))
        let track = try #require(section.tracks.first)
        let encryption = try #require(track.encryption)
        #expect(section.tracks.count == 1)
        #expect(track.handler == expected.handler)
        #expect(track.formats.first == (expected.handler == "vide" ? "encv" : "enca"))
        #expect(track.isProtected && encryption.isProtected)
        #expect(encryption.scheme == expected.scheme)
        #expect(encryption.originalFormat == expected.format)
        #expect(section.keyIDs == [encryption.keyID])
        #expect((encryption.constantInitializationVector?.count == 16) == (expected.scheme == "cbcs"))
        #expect(section.protectionBoxes.count == expected.boxes)
        #expect(section.protectionBoxes.map { $0.serialized() } == (try CorpusBoxes.boxes(of: expected.file)))
    }

    @Test func clearSections() throws {
        let section = try InitSegment(try Self.bytes("hls-fmp4-aes128-openssl/v_init.mp4"))
        #expect(section.tracks.map(\.formats) == [["avc1"]])
        #expect(section.keyIDs.isEmpty && section.tracks.allSatisfy { !$0.isProtected })
    }

    /// What stands behind it may be cut off.
    @Test(arguments: sections.indices)
    func theStartOfAFile(index: Int) throws {
        let bytes = try Self.bytes(Self.sections[index].file)
        let tracks = try InitSegment(bytes).tracks
        #expect(InitSegment(startOf: bytes)?.tracks == tracks)
        #expect(InitSegment(startOf: bytes + [0, 0, 1, 0] + Array("moof".utf8) + [0])?.tracks == tracks)
        for count in 0..<64 { #expect(InitSegment(startOf: Array(bytes.prefix(count))) == nil) }
        for size: UInt8 in [0, 1, 7] { #expect(InitSegment(startOf: [0, 0, 0, size] + Array("moov".utf8)) == nil) }
    }

    @Test(arguments: sections.indices)
    func aKeyIsPutIn(index: Int) throws {
        let section = try InitSegment(try Self.bytes(Self.sections[index].file))
        let keyID = KeyID(high: 0x0102_0304_0506_0708, low: 9)
        let box = Self.fairPlayKey.initializationData(keyID: keyID)
        let written = try section.rewriting(keyID: keyID, protectionBoxes: [box])
        let result = try InitSegment(written)
        #expect(result.protectionBoxes == [box])
        #expect(HLSKey.key(in: try #require(result.protectionBoxes.first)) == Self.fairPlayKey)
        #expect(result.keyIDs == [keyID])
        // But for the KID and the boxes, the tracks are as they were.
        let back = try result.rewriting(
            keyIDs: Dictionary(uniqueKeysWithValues: section.tracks.map { ($0.id, section.keyIDs[0]) }),
            protectionBoxes: section.protectionBoxes, removesOthers: true)
        #expect(try InitSegment(back).tracks == section.tracks)
        #expect(back.count == section.bytes.count)
        if section.protectionBoxes.isEmpty { #expect(back == section.bytes) }
    }

    @Test func otherBoxesMayStay() throws {
        let section = try InitSegment(try Self.bytes("hls-fmp4-cbcs-3drm/a_init.mp4"))
        let box = Self.fairPlayKey.initializationData(keyID: section.keyIDs[0])
        let written = try section.rewriting(keyIDs: [:], protectionBoxes: [box], removesOthers: false)
        #expect(try InitSegment(written).protectionBoxes == section.protectionBoxes + [box])
        #expect(try InitSegment(written).keyIDs == section.keyIDs)
        #expect(written.count == section.bytes.count + (box.serialized()?.count ?? 0))
    }

    @Test func theSameAgainWithoutAChange() throws {
        for (file, _, _, _, boxes) in Self.sections {
            let section = try InitSegment(try Self.bytes(file))
            #expect(try section.rewriting(keyIDs: [:], protectionBoxes: [], removesOthers: false) == section.bytes)
            let bare = try section.rewriting(keyIDs: [:], protectionBoxes: [], removesOthers: true)
            #expect((bare == section.bytes) == (boxes == 0))
            #expect(try InitSegment(bare).protectionBoxes.isEmpty)
        }
    }

    @Test(arguments: ["hls-fmp4-aes128-openssl/v_init.mp4", "hls-fmp4-aes128-openssl/a_init.mp4"])
    func clearSectionsAreMarked(file: String) throws {
        let clear = try InitSegment(try Self.bytes(file))
        let keyID = KeyID(high: 1, low: 2)
        let box = Self.fairPlayKey.initializationData(keyID: keyID)
        for scheme in [ProtectionScheme.cbcs, .cenc] {
            let written = try clear.markingProtected(scheme: scheme, keyID: keyID, protectionBoxes: [box])
            let marked = try InitSegment(written)
            let track = try #require(marked.tracks.first)
            let encryption = try #require(track.encryption)
            #expect(track.formats == [track.handler == "vide" ? "encv" : "enca"])
            #expect(encryption.originalFormat == clear.tracks.first?.formats.first)
            #expect(encryption.scheme == scheme.rawValue)
            #expect(!encryption.isProtected && !track.isProtected)
            #expect(encryption.keyID == keyID && encryption.initializationVectorSize == 0)
            #expect(marked.protectionBoxes == [box])
            // The sample entry itself is all there, in front of its new box.
            let added = scheme == .cbcs ? 97 : 80
            #expect(written.count == clear.bytes.count + added + (box.serialized()?.count ?? 0))
            let again = try marked.markingProtected(scheme: scheme, keyID: keyID, protectionBoxes: [box])
            #expect(again == written)
        }
    }

    /// What nothing has to be changed in is looked at all the same.
    @Test func sectionsAreChecked() throws {
        let clear = try Self.bytes("hls-fmp4-aes128-openssl/v_init.mp4")
        #expect(throws: Never.self) { try InitSegment.check(clear) }
        for count in 8..<clear.count {
            #expect(throws: FormatError.self) { try InitSegment.check(Array(clear[..<count])) }
        }
        #expect(throws: FormatError.self) { try InitSegment.check([]) }
        // Transport streams and WebVTT have sections too (RFC 8216, 3.2 and 3.5).
        for other in [Array("WEBVTT\n\n".utf8), [0x47, 0x40, 0, 0x10], [0x47]] {
            #expect(throws: Never.self) { try InitSegment.check(other) }
        }
    }

    /// A section of encrypted segments may stand in front of clear ones too.
    @Test func protectedSectionsAreMarkedClear() throws {
        for (file, scheme, _, _, _) in Self.sections {
            let section = try InitSegment(try Self.bytes(file))
            let keyID = KeyID(high: 1, low: 2)
            let marked = try InitSegment(
                try section.markingProtected(scheme: .cbcs, keyID: keyID, protectionBoxes: []))
            #expect(marked.tracks.map(\.formats) == section.tracks.map(\.formats))
            #expect(marked.tracks.flatMap(\.encryptions).allSatisfy { !$0.isProtected && $0.keyID == keyID })
            #expect(marked.tracks.first?.encryption?.scheme == scheme)
        }
    }

    @Test func filesWithSamplesAreRefused() throws {
        #expect {
            try InitSegment(try Self.bytes("gpac-cbcs-progressive/media.mp4"))
        } throws: { ($0 as? FormatError)?.isSameKind(as: .unsupported("")) == true }
    }

    @Test func fragmentedFilesHaveASectionToo() throws {
        let section = try InitSegment(try Self.bytes("bento4-cbcs-muxed/media.mp4"))
        #expect(section.tracks.map(\.handler) == ["vide", "soun"])
        #expect(section.tracks.allSatisfy { $0.isProtected })
        let keyIDs = Dictionary(
            uniqueKeysWithValues: section.tracks.map { ($0.id, KeyID(high: 0, low: UInt64($0.id))) })
        let written = try section.rewriting(keyIDs: keyIDs, protectionBoxes: [], removesOthers: false)
        #expect(written.count == section.bytes.count)
        #expect(try InitSegment(written).tracks.map { $0.encryption?.keyID } == section.tracks.map { keyIDs[$0.id] })
    }

    @Test func whatIsNoSection() throws {
        let segment = try Self.bytes("hls-fmp4-cbcs-fairplay-skd/v_1.m4s")
        let large = [UInt8](repeating: 0, count: InitSegment.maximumSize + 1)
        let cases: [([UInt8], FormatError)] = [
            ([], .malformed("")), (segment, .malformed("")), (Array("<html></html>".utf8), .truncated("")),
            ([0, 0, 0, 9, 0x6D, 0x6F, 0x6F, 0x76], .truncated("")), (large, .tooLarge("")),
            ([0, 0, 0, 7, 0x6D, 0x6F, 0x6F, 0x76], .malformed("")),
        ]
        for (bytes, kind) in cases {
            #expect { try InitSegment(bytes) } throws: { ($0 as? FormatError)?.isSameKind(as: kind) == true }
        }
    }
}
