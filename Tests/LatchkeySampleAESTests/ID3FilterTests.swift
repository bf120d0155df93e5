// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// Tags that end the process in a stock demuxer: what the filter changes of them, and that it changes nothing else.
@Suite struct ID3FilterTests {
    private static let timestamp = "com.apple.streaming.transportStreamTimestamp"
    private static let time: [UInt8] = [0, 0, 0, 1, 0xFF, 0, 2, 3]

    private struct Frame {
        var id = "PRIV"
        var flags: [UInt8] = [0, 0]
        var content: [UInt8]

        static func owned(by owner: [UInt8], _ data: [UInt8] = [1], flags: [UInt8] = [0, 0]) -> Frame {
            Frame(flags: flags, content: owner + [0] + data)
        }
    }

    private static func size(_ count: Int, _ version: UInt8) -> [UInt8] {
        let bits = version == 3 ? 8 : 7
        return (0..<4).map { UInt8(truncatingIfNeeded: count >> ((3 - $0) * bits)) & (version == 3 ? 0xFF : 0x7F) }
    }

    private static func tag(_ frames: [Frame], version: UInt8 = 4, flags: UInt8 = 0, start: [UInt8] = []) -> [UInt8] {
        let body =
            start + frames.flatMap { Array($0.id.utf8) + size($0.content.count, version) + $0.flags + $0.content }
        let footer = flags & 0x10 != 0 ? [UInt8](repeating: 0x7F, count: 10) : []
        return Array("ID3".utf8) + [version, 0, flags] + size(body.count, 4) + body + footer
    }

    /// The identifiers of frames that look like one.
    private static func identifiers(_ bytes: [UInt8]) -> [String] {
        (0..<max(0, bytes.count - 3)).map { String(decoding: bytes[$0..<$0 + 4], as: UTF8.self) }
            .filter { ["PRIV", "XRIV"].contains($0) }
    }

    /// Whole, and in pieces of any size.
    private func filtered(_ segment: [UInt8]) -> [UInt8] {
        let whole = ID3Filter.filter(whole: segment)
        for size in [1, 7, 4096] {
            var filter = ID3Filter()
            var pieces: [UInt8] = []
            for start in stride(from: 0, to: segment.count, by: size) {
                pieces += filter.filter(Array(segment[start..<min(start + size, segment.count)]))
            }
            pieces += filter.end()
            #expect(pieces == whole)
            if whole.count > 100_000 { break }
        }
        #expect(whole.count == segment.count)
        return whole
    }

    private static let audio: [UInt8] = [0xFF, 0xF1] + Array("PRIV ID3 PRIV".utf8) + [UInt8](repeating: 7, count: 9000)

    @Test(arguments: [UInt8(3), 4])
    func goodTagsStay(version: UInt8) {
        let good: [Frame] = [
            .owned(by: Array(Self.timestamp.utf8), Self.time), .owned(by: Array("größe".utf8)), .owned(by: []),
            .owned(by: Array("x".utf8), []), Frame(id: "TXXX", content: [3] + Array("PRIV PRIV".utf8)),
        ]
        for flags in [UInt8(0), 0x10, 0x20] {
            let segment = Self.tag(good, version: version, flags: flags) + Self.audio
            #expect(filtered(segment) == segment)
        }
        #expect(filtered(Self.audio) == Self.audio)
        for count in 0..<10 {
            #expect(filtered(Array("ID3".utf8 + [4, 0, 0, 0, 0]).prefix(count).map(\.self)).count == min(count, 8))
        }
    }

    @Test(arguments: [UInt8(3), 4])
    func everyFrameThatIsNotGoodIsRenamed(version: UInt8) {
        var invalid = Array(Self.timestamp.utf8)
        invalid[10] = 0xFF
        let bad: [Frame] = [
            .owned(by: invalid, Self.time), .owned(by: [0xC3]), Frame(content: Array(Self.timestamp.utf8)),
            Frame(content: []), .owned(by: Array(Self.timestamp.utf8), []),
            .owned(by: Array(Self.timestamp.utf8), Array(Self.time.dropLast())),
            // In a form that hides what it is: compressed, encrypted, grouped, with a length in front.
            .owned(by: Array("x".utf8), flags: [0, 0x80]), .owned(by: Array("x".utf8), flags: [0, 0x40]),
            .owned(by: Array("x".utf8), flags: [0, 0x08]), .owned(by: Array("x".utf8), flags: [0, 0x01]),
        ]
        for frame in bad {
            let good = Frame.owned(by: Array("good".utf8))
            let segment = Self.tag([good, frame, good], version: version) + Self.audio
            let result = filtered(segment)
            #expect(Self.identifiers(result) == ["PRIV", "XRIV", "PRIV", "PRIV", "PRIV"], "\(frame)")
            #expect(zip(result, segment).count { $0 != $1 } == 1)
        }
    }

    /// Every byte of a good tag, changed in every bit: what goes on is one that the stock demuxer can read.
    @Test func noChangedBitGetsThrough() throws {
        let segment = Self.tag([.owned(by: Array(Self.timestamp.utf8), Self.time)])
        for bit in 80..<segment.count * 8 {
            var changed = segment
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            let result = filtered(changed)
            guard let tag = try? ID3Tag(result) else { continue }
            for frame in tag.frames where frame.id == Array("PRIV".utf8) {
                let owner = try #require(frame.content.firstIndex(of: 0))
                #expect(String(validating: frame.content[..<owner], as: UTF8.self) != nil)
                let isTimestamp = frame.content[..<owner].elementsEqual(Self.timestamp.utf8)
                #expect(!isTimestamp || frame.content.count - owner - 1 >= 8)
            }
        }
    }

    /// Without unsynchronization, FF 00 are two bytes; with it, one.
    @Test func unsynchronizationIsSeen() {
        let frame = Frame.owned(by: Array(Self.timestamp.utf8), Self.time)
        #expect(Self.identifiers(filtered(Self.tag([frame], flags: 0x80))) == ["XRIV"])
        let marked = Frame.owned(by: Array(Self.timestamp.utf8), Self.time, flags: [0, 2])
        #expect(Self.identifiers(filtered(Self.tag([marked]))) == ["XRIV"])
        let escaped = Frame.owned(by: Array(Self.timestamp.utf8), [0, 0, 0, 1, 0xFF, 0, 0, 2, 3], flags: [0, 2])
        #expect(Self.identifiers(filtered(Self.tag([escaped]))) == ["PRIV"])
    }

    /// What cannot be read in the plain way has no PRIV frame afterwards.
    @Test func inOtherTagsNothingIsLeft() {
        let good = Frame.owned(by: Array("good".utf8))
        var bits = Self.tag([good, good])
        bits[15] = 0x80
        let tags: [[UInt8]] = [
            Self.tag([good, good], version: 3, flags: 0x80), Self.tag([good, good], version: 3, flags: 0x40),
            Self.tag([good, good], flags: 0x40, start: [0, 0, 0, 6, 1, 0]), Self.tag([good, good], version: 5), bits,
        ]
        for tag in tags { #expect(Self.identifiers(filtered(tag + Self.audio)) == ["XRIV", "XRIV", "PRIV", "PRIV"]) }
        // A size of 32 bits, as GStreamer reads it, and a segment that ends before its tag does.
        var long = Self.tag([good, good])
        long[6] = 0x80
        #expect(Self.identifiers(filtered(long)) == ["XRIV", "XRIV"])
        #expect(Self.identifiers(filtered(Self.tag([good, good]).dropLast())) == ["XRIV", "XRIV"])
    }

    @Test func tagsAboveTheLimitAreNotHeld() {
        let good = Frame.owned(by: Array("good".utf8))
        let picture = Frame(id: "APIC", content: [UInt8](repeating: 0x50, count: ID3Filter.tagLimit))
        let segment = Self.tag([good, picture, good]) + Self.audio
        let result = filtered(segment)
        #expect(Self.identifiers(result) == ["XRIV", "XRIV", "PRIV", "PRIV"])
        var filter = ID3Filter()
        var (taken, most) = (0, 0)
        for start in stride(from: 0, to: segment.count, by: 10_000) {
            let piece = Array(segment[start..<min(start + 10_000, segment.count)])
            taken += filter.filter(piece).count
            most = max(most, start + piece.count - taken)
        }
        #expect(most <= 3)
    }
}
