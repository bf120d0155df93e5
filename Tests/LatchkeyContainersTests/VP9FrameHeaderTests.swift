// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyContainers

/// Where the compressed header and the tiles of a VP9 frame begin, and what their first bits tell of a key.
@Suite struct VP9FrameHeaderTests {
    /// A number, and its bits.
    private typealias Field = (value: Int, count: Int)

    private static let marker: [Field] = [(2, 2)]
    private static let sync: Field = (0x49_83_42, 24)
    /// What is behind the size of an intra frame: the context, the loop filter without differences, the quantizer, no segments.
    private static let plain: [Field] = [(0, 1), (1, 1), (1, 2), (10, 6), (0, 3), (0, 1), (60, 8), (0, 3), (0, 1)]

    private func bytes(_ fields: [Field]) -> [UInt8] {
        let bits = fields.flatMap { field in (0..<field.count).map { field.value >> (field.count - 1 - $0) & 1 } }
        return stride(from: 0, to: bits.count, by: 8).map { start in
            (0..<8).reduce(0) { $0 << 1 | (start + $1 < bits.count ? UInt8(bits[start + $1]) : 0) }
        }
    }

    /// A key frame of profile 0, up to the size of its compressed header.
    private func key(width: Int, columns: [Field] = [], _ middle: [Field] = plain) -> [UInt8] {
        let start: [Field] = [(0, 2), (0, 1), (0, 1), (1, 1), (0, 1), Self.sync, (1, 3), (0, 1)]
        let size: [Field] = [(width - 1, 16), (179, 16), (0, 1)]
        return bytes(Self.marker + start + size + middle + columns + [(0, 1), (3, 16)])
    }

    /// A frame that has the width of its second reference, and an own size to be shown in.
    private func inter(columns: [Field] = []) -> [UInt8] {
        let start: [Field] = [(0, 2), (0, 1), (1, 1), (1, 1), (0, 1), (0, 2), (0xFF, 8), (0, 12), (0, 1), (1, 1)]
        let middle: [Field] = [(1, 1), (319, 16), (179, 16), (1, 1), (0, 1), (2, 2)]
        return bytes(Self.marker + start + middle + Self.plain + columns + [(0, 1), (3, 16)])
    }

    private func header(_ start: [UInt8], width: Int? = nil) -> VP9FrameHeader? {
        (start + [0, 0, 0, 0, 0]).withUnsafeBytes { VP9FrameHeader($0, width: width) }
    }

    @Test func headersOfAllKindsAreRead() throws {
        // The loop filter with differences, the quantizer with them, segments with all that they can have.
        let full: [Field] =
            [(0, 1), (1, 1), (1, 2), (10, 6), (0, 3), (1, 1), (1, 1), (1, 1), (5, 7), (0, 5), (60, 8)]
            + [
                (1, 1), (3, 5), (0, 2), (1, 1), (1, 1), (1, 1), (200, 8), (0, 6), (1, 1), (0, 2), (1, 1), (9, 8),
                (1, 1), (0, 1),
            ]
            + [(1, 1), (300, 9), (1, 1), (100, 7), (1, 1), (2, 2), (1, 1)] + [(0, 28)]
        let rows: [(name: String, start: [UInt8], known: Int?, width: Int?)] = [
            ("a key frame", key(width: 320), nil, 320),
            ("one with all that a header may have", key(width: 320, full), nil, 320),
            ("tiles", key(width: 1920, columns: [(1, 1), (1, 1)]), nil, 1920),
            ("fewer tiles", key(width: 1920, columns: [(1, 1), (0, 1)]), nil, 1920),
            ("as many as have to be", key(width: 4160, columns: [(0, 1)]), nil, 4160),
            ("another frame", inter(), 320, nil),
            ("another frame with tiles", inter(columns: [(0, 1)]), 1920, nil),
        ]
        for row in rows {
            let found = try #require(header(row.start, width: row.known), "\(row.name)")
            #expect(
                found.size == row.start.count && found.compressedSize == 3 && found.width == row.width, "\(row.name)")
        }
    }

    @Test func framesOfWhichNothingIsKnownHaveNone() {
        let repeated = bytes(Self.marker + [(0, 2), (1, 1), (3, 3)])
        var otherSync = key(width: 320)
        otherSync[1] ^= 1
        let none: [[UInt8]] = [[], [0x80], repeated, otherSync, inter(), [0x12] + key(width: 320)]
        for start in none { #expect(header(start) == nil, "\(start)") }
        // The compressed header reaches beyond the sample.
        let short = key(width: 320) + [0, 0, 0]
        #expect(short.withUnsafeBytes { VP9FrameHeader($0, width: nil) } == nil)
    }

    @Test func theFirstBitsBehindAHeaderTell() {
        let start = key(width: 320)
        let rows: [(rest: [UInt8], clear: Int, verdict: SampleSigns.Verdict)] = [
            ([0x7F, 1, 2, 0x7F, 5], 0, .plausible), ([0x80, 1, 2, 0x7F, 5], 0, .wrong),
            ([0x7F, 1, 2, 0x80, 5], 0, .wrong),
            // Only what was encrypted counts.
            ([0x80, 1, 2, 0x7F, 5], 1, .plausible), ([0x80, 1, 2, 0x80, 5], 3, .wrong),
            ([0x80, 1, 2, 0x80, 5], 4, .unknown),
            ([0x80, 1, 2, 0x80, 5], -1, .unknown),
        ]
        for row in rows {
            let sample = start + row.rest
            let clear = start.count + row.clear
            var plan = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))
            plan.subsamples = [Subsample(clear: UInt32(clear), protected: UInt32(sample.count - clear))]
            let found = sample.withUnsafeBytes { SampleSigns($0, plan, .vp9) }
            #expect(found.verdict == row.verdict, "\(row.rest) \(row.clear)")
            #expect(found.frameWidth == (row.clear < 0 ? nil : 320))
        }
    }

    /// Any bytes: nothing traps.
    @Test func anyBytesAreRead() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<5000 {
            var bytes = (0..<Int.random(in: 0...80, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let start = Bool.random(using: &random) ? key(width: 320) : inter()
            bytes = Array(start.prefix(.random(in: 0...start.count, using: &random))) + bytes
            let width = Bool.random(using: &random) ? Int.random(in: 1...65_536, using: &random) : nil
            let found = bytes.withUnsafeBytes { VP9FrameHeader($0, width: width) }
            if let found { #expect(found.size + found.compressedSize < bytes.count) }
        }
    }
}
