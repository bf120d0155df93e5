// SPDX-License-Identifier: MPL-2.0

/// The fragments of a fragmented ISO file, each with the bytes of its `moof` and `mdat`, and what a manifest says of
/// them. For files of the corpus: what is not as expected gives nothing.
struct FragmentedFile {
    struct Fragment {
        var track: Int
        var bytes: [UInt8]
    }

    /// In the order of the file.
    private(set) var fragments: [Fragment] = []
    /// Of each track, in units a second.
    private(set) var timescales: [Int: Int] = [:]

    private struct Box {
        var type: String
        var start: Int
        var body: Range<Int>
    }

    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        let boxes = boxes(0..<bytes.count)
        for (box, next) in zip(boxes, boxes.dropFirst()) where box.type == "moof" && next.type == "mdat" {
            guard let header = find("traf", "tfhd", in: box.body) else { continue }
            fragments.append(
                Fragment(
                    track: number(at: header.lowerBound + 4), bytes: Array(bytes[box.start..<next.body.upperBound])))
        }
        guard let movie = boxes.first(where: { $0.type == "moov" }) else { return }
        for track in self.boxes(movie.body) where track.type == "trak" {
            // Version 0 of either.
            guard let header = find("tkhd", in: track.body), let media = find("mdia", "mdhd", in: track.body) else {
                continue
            }
            timescales[number(at: header.lowerBound + 12)] = number(at: media.lowerBound + 12)
        }
    }

    private func boxes(_ range: Range<Int>) -> [Box] {
        var all: [Box] = []
        var position = range.lowerBound
        while position + 8 <= range.upperBound {
            let size = number(at: position)
            guard size >= 8, position + size <= range.upperBound else { break }
            let type = String(decoding: bytes[position + 4..<position + 8], as: UTF8.self)
            all.append(Box(type: type, start: position, body: position + 8..<position + size))
            position += size
        }
        return all
    }

    private func find(_ path: String..., in range: Range<Int>) -> Range<Int>? {
        path.reduce(range as Range<Int>?) { range, type in
            range.flatMap { boxes($0).first { $0.type == type }?.body }
        }
    }

    private func number(at position: Int) -> Int {
        bytes[position..<min(position + 4, bytes.count)].reduce(0) { $0 << 8 | Int($1) }
    }
}
