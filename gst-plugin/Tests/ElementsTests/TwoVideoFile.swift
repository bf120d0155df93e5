// SPDX-License-Identifier: MPL-2.0

/// Makes a fragmented file with a second video, track 3, out of one with a first, track 1: in front of it everywhere, with
/// smaller pictures, with noise in place of samples, and with a key of its own.
struct TwoVideoFile {
    /// That of the second video.
    static let keyID = [UInt8](repeating: 0xEE, count: 16)

    private let source: [UInt8]
    private let oldKeyID: [UInt8]
    private(set) var bytes: [UInt8] = []

    init(_ source: [UInt8], keyID: [UInt8]) {
        self.source = source
        oldKeyID = keyID
        let boxes = boxes(0..<source.count)
        for (index, box) in boxes.enumerated() {
            if type(box) == "moov" {
                bytes += movie(box)
                continue
            }
            if type(box) == "moof", index + 1 < boxes.count, track(ofFragment: box) == 1 {
                var fragment = Array(source[box])
                if let place = place("traf", "tfhd", in: box) { fragment[place + 15 - box.lowerBound] = 3 }
                bytes += fragment + source[boxes[index + 1]].enumerated().map { $0 < 8 ? $1 : $1 ^ 0x5A }
            }
            bytes += source[box]
        }
    }

    private func movie(_ moov: Range<Int>) -> [UInt8] {
        var content: [UInt8] = []
        var hasSecond = false
        for box in boxes(moov.lowerBound + 8..<moov.upperBound) {
            switch type(box) {
            case "trak" where !hasSecond:
                hasSecond = true
                content += second(box)
                content += source[box]
            case "mvex":
                var extends = Array(source[box].dropFirst(8))
                let trex = boxes(box.lowerBound + 8..<box.upperBound).first { type($0) == "trex" }
                var copy = trex.map { Array(source[$0]) } ?? []
                if copy.count > 15 { copy[15] = 3 }
                extends += copy
                content += Self.box("mvex", extends)
            default: content += source[box]
            }
        }
        return Self.box("moov", content)
    }

    private func second(_ trak: Range<Int>) -> [UInt8] {
        var copy = Array(source[trak])
        if let place = place("tkhd", in: trak) {
            copy[place - trak.lowerBound + 23] = 3
            // Width and height, in whole points: half of each.
            let end = place - trak.lowerBound + 92
            for start in [end - 8, end - 4] {
                let value = (Int(copy[start]) << 8 | Int(copy[start + 1])) / 2
                (copy[start], copy[start + 1]) = (UInt8(value >> 8), UInt8(value & 0xFF))
            }
        }
        for start in 0..<max(0, copy.count - 16) where Array(copy[start..<start + 16]) == oldKeyID {
            copy.replaceSubrange(start..<start + 16, with: Self.keyID)
        }
        return copy
    }

    private func track(ofFragment moof: Range<Int>) -> Int? {
        place("traf", "tfhd", in: moof).map { Int(source[$0 + 15]) }
    }

    /// Where the box starts that the path leads to.
    private func place(_ path: String..., in box: Range<Int>) -> Int? {
        path.reduce(box as Range<Int>?) { outer, name in
            outer.flatMap { outer in
                boxes(outer.lowerBound + 8..<outer.upperBound).first { type($0) == name }
            }
        }?.lowerBound
    }

    private func boxes(_ range: Range<Int>) -> [Range<Int>] {
        var all: [Range<Int>] = []
        var position = range.lowerBound
        while position + 8 <= range.upperBound {
            let size = source[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
            guard size >= 8, position + size <= range.upperBound else { break }
            all.append(position..<position + size)
            position += size
        }
        return all
    }

    private func type(_ box: Range<Int>) -> String {
        String(decoding: source[box.lowerBound + 4..<box.lowerBound + 8], as: UTF8.self)
    }

    private static func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
        let size = content.count + 8
        return (0..<4).map { UInt8(truncatingIfNeeded: size >> (24 - 8 * $0)) } + Array(type.utf8) + content
    }
}
