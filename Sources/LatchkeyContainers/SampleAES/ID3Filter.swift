// SPDX-License-Identifier: MPL-2.0

/// A segment on its way to a demuxer that must not meet every ID3 tag in front of it.
///
/// Workaround (GStreamer <1.28.8): `hlsdemux2` reads the 8 bytes of Apple's timestamp even if they are not there. Before
/// 1.26, it also crashes at a PRIV frame whose owner is not UTF-8. The filter gives each PRIV frame that is not certainly
/// good another identifier, `XRIV`, which ID3v2.4 leaves to experiments. No byte is added or removed.
///
/// Bytes are held back only while a tag at the start of the segment is incomplete. A value for one segment.
package struct ID3Filter: Sendable {
    /// Tags up to this size are read as a whole. In larger ones, every PRIV frame gets the other identifier.
    static let tagLimit = 1 << 20
    private static let headerSize = 10
    private static let timestampOwner = Array("com.apple.streaming.transportStreamTimestamp".utf8)

    private enum State: Sendable {
        case start
        /// So many bytes of a tag that is too large are left.
        case inside(Int)
        case passing
    }

    private var state = State.start
    private var held: [UInt8] = []

    /// Nothing of the segment is known yet.
    package init() {}

    /// What goes on, now that `piece` has come.
    package mutating func filter(_ piece: [UInt8]) -> [UInt8] {
        if case .passing = state { return piece }
        if held.isEmpty { held = piece } else { held += piece }
        return take(isEnd: false)
    }

    /// What goes on behind the last piece: bytes that were held back.
    package mutating func end() -> [UInt8] { take(isEnd: true) }

    /// The whole segment at once.
    package static func filter(whole segment: [UInt8]) -> [UInt8] {
        guard segment.starts(with: "ID3".utf8) else { return segment }
        var filter = ID3Filter()
        return filter.filter(segment) + filter.end()
    }

    private mutating func take(isEnd: Bool) -> [UInt8] {
        if case .start = state {
            guard held.starts(with: "ID3".utf8.prefix(held.count)) else { return pass() }
            guard held.count >= Self.headerSize else { return isEnd ? pass() : [] }
            let size = Self.tagSize(held)
            if size <= Self.tagLimit {
                guard held.count >= size || isEnd else { return [] }
                Self.cleanTag(&held, size: min(size, held.count), isWhole: held.count >= size)
                return pass()
            }
            state = .inside(size)
        }
        guard case .inside(let left) = state else { return pass() }
        let count = min(left, held.count)
        Self.renameAll(&held, in: 0..<count)
        guard left > held.count, !isEnd else { return pass() }
        // The start of an identifier may stand at the end.
        let kept = min(3, held.count)
        let taken = Array(held.dropLast(kept))
        held.removeFirst(taken.count)
        state = .inside(left - taken.count)
        return taken
    }

    private mutating func pass() -> [UInt8] {
        state = .passing
        defer { held = [] }
        return held
    }

    /// As GStreamer reads it: a size that is no number of 28 bits counts with all its bits.
    private static func tagSize(_ bytes: [UInt8]) -> Int {
        headerSize + number(bytes[6..<10]) + (bytes[5] & 0x10 != 0 ? headerSize : 0)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int {
        let shift = bytes.allSatisfy { $0 < 0x80 } ? 7 : 8
        return bytes.reduce(0) { $0 << shift | Int($1) }
    }

    // MARK: Frames

    /// In a tag that is not read in the plain way, any bytes could be a frame: all that look like one are renamed.
    private static func cleanTag(_ bytes: inout [UInt8], size: Int, isWhole: Bool) {
        let (version, flags) = (bytes[3], bytes[5])
        // Unsynchronization of version 3 moves all bytes, and an extended header stands in front of the frames.
        let isPlain = isWhole && (version == 4 && flags & 0x40 == 0 || version == 3 && flags & 0xC0 == 0)
        guard isPlain, let frames = badFrames(bytes, size: size) else { return renameAll(&bytes, in: 0..<size) }
        for position in frames { bytes[position] = UInt8(ascii: "X") }
    }

    private static func renameAll(_ bytes: inout [UInt8], in range: Range<Int>) {
        let id = Array("PRIV".utf8)
        var position = range.lowerBound
        while position + id.count <= range.upperBound {
            if bytes[position] == id[0], bytes[position..<position + id.count].elementsEqual(id) {
                bytes[position] = UInt8(ascii: "X")
            }
            position += 1
        }
    }

    /// Where PRIV frames are that are to be renamed. Nil if sizes of frames can be read in several ways.
    private static func badFrames(_ bytes: [UInt8], size: Int) -> [Int]? {
        let (version, flags) = (bytes[3], bytes[5])
        let end = size - (flags & 0x10 != 0 ? headerSize : 0)
        var position = headerSize
        var found: [Int] = []
        while end - position > headerSize, bytes[position] != 0 {
            let sizeBytes = bytes[position + 4..<position + 8]
            guard version == 3 || sizeBytes.allSatisfy({ $0 < 0x80 }) else { return nil }
            let count = version == 3 ? sizeBytes.reduce(0) { $0 << 8 | Int($1) } : number(sizeBytes)
            let start = position + headerSize
            guard count <= end - start else { break }
            if bytes[position..<position + 4].elementsEqual("PRIV".utf8) {
                let format = bytes[position + 9]
                let isUnsynchronized = version == 4 && (flags & 0x80 != 0 || format & 0x02 != 0)
                let isPlain = format & (version == 4 ? ~0x02 : 0xFF) == 0
                if !isPlain || !isGood(bytes[start..<start + count], isUnsynchronized: isUnsynchronized) {
                    found.append(position)
                }
            }
            position = start + count
        }
        return found
    }

    /// Whether a PRIV frame has an owner in UTF-8 that ends, and the whole timestamp if it is that.
    private static func isGood(_ content: ArraySlice<UInt8>, isUnsynchronized: Bool) -> Bool {
        // No byte of UTF-8 is 0xFF, so that unsynchronization leaves an owner as it is.
        guard let end = content.firstIndex(of: 0), String(validating: content[..<end], as: UTF8.self) != nil else {
            return false
        }
        guard content[..<end].elementsEqual(timestampOwner) else { return true }
        let data = content[(end + 1)...]
        let added = isUnsynchronized ? zip(data, data.dropFirst()).count { $0 == 0xFF && $1 == 0 } : 0
        return data.count - added >= 8
    }
}
