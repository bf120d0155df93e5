// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyTestSupport
import Testing

/// What fragments say of encryption where no init segment does.
@Suite struct FragmentSignTests {
    private static func sign(_ bytes: [UInt8]) -> FragmentSign {
        bytes.withUnsafeBytes { ISORecognition.sign(inSegment: $0) }
    }

    private static func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(value >> (24 - 8 * $0) & 0xFF) } }

    private static func box(_ type: String, _ body: [UInt8]) -> [UInt8] {
        number(8 + body.count) + Array(type.utf8) + body
    }

    /// A segment whose only track fragment, of track 7, has these boxes.
    private static func segment(_ boxes: [[UInt8]]) -> [UInt8] {
        let traf = box("traf", box("tfhd", number(0x20000) + number(7)) + boxes.flatMap(\.self))
        return box("styp", Array("msdh".utf8) + number(0)) + box("moof", box("mfhd", number(0) + number(1)) + traf)
            + box("mdat", [UInt8](repeating: 1, count: 32))
    }

    private static let vector = [UInt8](repeating: 9, count: 8)
    /// Two samples with an IV each.
    private static let list = box("senc", number(0) + number(2) + vector + vector)

    private static func sizes(_ type: String?, common: UInt8 = 8, count: Int = 2, rows: [UInt8] = []) -> [UInt8] {
        let kind = type.map { Array($0.utf8) + number(0) }
        return box("saiz", number(kind == nil ? 0 : 1) + (kind ?? []) + [common] + number(count) + rows)
    }

    /// `seig` groups of a fragment, and two samples in group number `index`.
    private static func groups(isProtected: [Bool], index: Int) -> [UInt8] {
        let entries = isProtected.flatMap { [0, 0, $0 ? 1 : 0, $0 ? 8 : 0] + [UInt8](repeating: 5, count: 16) }
        let kind = Array("seig".utf8)
        return box("sgpd", number(1 << 24) + kind + number(20) + number(isProtected.count) + entries)
            + box("sbgp", number(0) + kind + number(1) + number(2) + number(index))
    }

    /// A group that is the default of the fragment.
    private static let defaultGroup = box(
        "sgpd", number(2 << 24) + Array("seig".utf8) + number(20) + number(1) + number(1) + groupEntry)
    private static let groupEntry: [UInt8] = [0, 0, 1, 8] + vector + vector

    private static func piff(isProtected: Bool) -> [UInt8] {
        let type: [UInt8] = [
            0xA2, 0x39, 0x4F, 0x52, 0x5A, 0x9B, 0x4F, 0x14, 0xA2, 0x44, 0x6C, 0x42, 0x7C, 0x64, 0x8D, 0xF4,
        ]
        let own: [UInt8] = [0, 0, isProtected ? 1 : 0, 8] + [UInt8](repeating: 5, count: 16)
        return box("uuid", type + number(1) + own + number(2) + vector + vector)
    }

    private static let told: [(name: String, boxes: [[UInt8]], box: String)] = [
        ("IVs", [list], "box “senc”"),
        ("maps", [box("senc", number(2) + number(1) + [0, 1, 0, 4, 0, 0, 0, 9])], "box “senc”"),
        ("PIFF", [piff(isProtected: true)], "PIFF's sample encryption box"),
        ("sizes", [sizes("cenc")], "box “saiz”"),
        ("sizes of no type", [sizes(nil)], "box “saiz”"),
        ("sizes in rows", [sizes("cbcs", common: 0, rows: [0, 16])], "box “saiz”"),
        ("a group", [groups(isProtected: [false, true], index: 0x10002)], "box “sgpd”"),
        ("a group by default", [defaultGroup], "box “sgpd”"),
        ("a clear group of others", [list, groups(isProtected: [false], index: 1)], "box “senc”"),
    ]

    @Test(arguments: told.indices) func encryptedFragmentsAreTold(index: Int) {
        let (name, boxes, box) = Self.told[index]
        #expect(Self.sign(Self.segment(boxes)) == .encrypted(box: box, track: 7), "\(name)")
    }

    private static let clear: [(name: String, boxes: [[UInt8]])] = [
        ("nothing", []),
        ("no samples", [box("senc", number(0) + number(0))]),
        ("samples without IVs", [box("senc", number(0) + number(2))]),
        ("samples without maps", [box("senc", number(2) + number(2) + [0, 0, 0, 0])]),
        ("PIFF that says clear", [piff(isProtected: false)]),
        ("sizes of something else", [sizes("abcd")]),
        ("sizes of 0", [sizes("cenc", common: 0, rows: [0, 0])]),
        ("sizes of no map", [sizes("cenc", common: 2), box("senc", number(2) + number(2) + [0, 0, 0, 0])]),
        ("sizes of no map in rows", [sizes(nil, common: 0, rows: [2, 0])]),
        ("no sizes", [sizes("cenc", count: 0)]),
        ("a clear group", [groups(isProtected: [false, true], index: 0x10001)]),
        ("entries of a clear group", [list, groups(isProtected: [false], index: 0x10001)]),
        ("a group that no sample is in", [groups(isProtected: [true], index: 0)]),
        (
            "another kind of group",
            [box("sgpd", number(1 << 24) + Array("roll".utf8) + number(2) + number(1) + [0, 1])]
        ),
        ("boxes that end early", [box("senc", [0]), box("saiz", [0, 0, 0, 1]), box("sgpd", [1]), box("sbgp", [])]),
    ]

    @Test(arguments: clear.indices) func clearFragmentsAreNot(index: Int) {
        #expect(Self.sign(Self.segment(Self.clear[index].boxes)) == FragmentSign.none, "\(Self.clear[index].name)")
    }

    /// A decryptor takes what PIFF's box says in place of the sample entry, and finds nothing of the kind in others.
    @Test func piffIsEnoughForADecryptor() {
        for (boxes, expected) in [
            ([Self.piff(isProtected: true)], FragmentSign.none),
            ([Self.list], .encrypted(box: "box “senc”", track: 7)),
        ] {
            let segment = Self.segment(boxes)
            #expect(segment.withUnsafeBytes { ISORecognition.sign(inSegment: $0, hasDecryptor: true) } == expected)
        }
    }

    @Test(arguments: ["v", "a"]) func theCorpusIsTold(_ letter: String) throws {
        func file(_ name: String) throws -> [UInt8] { Array(try CorpusBoxes.corpusFile(name)) }
        let encrypted = try file("dash-cenc-static-live/\(letter)_1.m4s")
        guard case .encrypted("box “senc”", _) = Self.sign(encrypted) else {
            Issue.record("\(Self.sign(encrypted))")
            return
        }
        let clear = try file("hls-fmp4-aes128-openssl/\(letter)_init.mp4")
        #expect(Self.sign(clear + encrypted) == Self.sign(encrypted))
        #expect(Self.sign(clear) == .unknown(rest: 0))
    }

    /// As it comes in pieces. The bytes that are to be kept are those of the box that is not whole yet.
    @Test func whatIsNotThereIsWaitedFor() {
        let whole = Self.segment([Self.list])
        let moof = 16, end = whole.count - 40
        for length in 0..<whole.count {
            let rest = length < moof ? length : length - moof
            let expected: FragmentSign =
                length < end ? .unknown(rest: rest) : .encrypted(box: "box “senc”", track: 7)
            #expect(Self.sign(Array(whole.prefix(length))) == expected, "\(length)")
        }
    }

    @Test func othersAreNotWaitedFor() {
        let starts = [
            [UInt8](repeating: 0xFF, count: 64),
            Self.box("mdat", Self.segment([Self.list])),
            Self.box("moof", [UInt8](repeating: 0xFF, count: 32)),
            Self.number(0x7FFF_FFFF) + Array("moof".utf8) + Self.vector,
            Self.number(0) + Array("moof".utf8) + Self.vector,
            Self.number(3) + Array("moof".utf8) + Self.vector,
        ]
        for start in starts { #expect(Self.sign(start) == FragmentSign.none) }
    }
}
