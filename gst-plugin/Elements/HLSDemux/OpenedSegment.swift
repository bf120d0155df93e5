// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection

/// A segment that is encrypted as a whole, decrypted as it comes. Some packagers fill segments up with zeros, or add nothing to
/// whole blocks. What begins as media is kept then, as the stock demuxer keeps it. The rest is what a wrong key gives.
///
/// The byte range of a segment may name its size in the clear. If that is a number of blocks, the padding is the block behind it.
/// That block counts only if it is padding from its first byte to its last: what else may be there is never taken for that.
struct OpenedSegment: ~Copyable {
    /// Enough for two frames of sound.
    private static let startSize = 4096
    /// Of the cipher, in bytes.
    private static let blockSize = 16

    private var cipher: SegmentCipher
    /// In bytes, of what a byte range names.
    private let size: Int
    /// What came behind that.
    private var behind: [UInt8] = []
    private var start: [UInt8] = []
    private var boxes = LastBox()

    /// `range`: the byte range that the playlist names, of whole blocks, where what comes may have a block more. Nil: all that
    /// comes is the segment.
    init(_ cipher: consuming SegmentCipher, range: HLSByteRange? = nil) {
        self.cipher = cipher
        size = range.map { Int(clamping: $0.length) } ?? .max
    }

    /// A segment, or a part of one, that is there as a whole.
    ///
    /// Throws as `finish` does.
    consuming func decrypt(whole bytes: [UInt8]) throws(DecryptionError) -> [UInt8] {
        try decrypt(bytes) + finish()
    }

    /// Takes the next piece, and gives what is decrypted now.
    mutating func decrypt(_ piece: [UInt8]) throws(DecryptionError) -> [UInt8] {
        let left = size - cipher.size
        if piece.count > left { behind += piece.dropFirst(left).prefix(Self.blockSize - behind.count) }
        let clear = try cipher.decrypt(piece.count > left ? Array(piece.prefix(left)) : piece)
        take(clear)
        return clear
    }

    /// What is behind the pieces, without padding. To be called once.
    ///
    /// Throws `paddingInvalid` where the segment is no number of blocks, or has neither padding nor the start of media.
    mutating func finish() throws(DecryptionError) -> [UInt8] {
        let size = cipher.size
        let (block, padding) = try lastBlock()
        if let padding { return Array(block.dropLast(padding)) }
        take(block)
        guard HLSSegmentKind.isCertain(start: start) else { throw .paddingInvalid(size: size) }
        return switch HLSSegmentKind(firstBytes: start) {
        // For the parser, zeros behind the last box are a box without end.
        case .fragmentedMP4: Array(block.dropLast(boxes.zeroCount))
        // GStreamer's demuxer takes no text with a NUL.
        case .webVTT: Array(block.prefix { $0 != 0 })
        default: block
        }
    }

    /// The last block of the segment, and how many of its bytes are padding; nil: they are none.
    private mutating func lastBlock() throws(DecryptionError) -> (bytes: [UInt8], padding: Int?) {
        guard behind.count == Self.blockSize, cipher.size.isMultiple(of: Self.blockSize) else {
            return try cipher.lastBlock()
        }
        let named = try cipher.decrypt(behind)
        let isPadded = try cipher.lastBlock().padding == Self.blockSize
        return (named, isPadded ? 0 : SegmentCipher.padding(of: named))
    }

    private mutating func take(_ clear: [UInt8]) {
        if start.count < Self.startSize { start += clear.prefix(Self.startSize - start.count) }
        boxes.take(clear)
    }
}

/// Where the last box of ISO media ends (ISO/IEC 14496-12, 4.2), found as the bytes come.
private struct LastBox {
    /// Bytes of the next header.
    private var header: [UInt8] = []
    /// Of the box whose header came; the largest number where it has no end.
    private var left: UInt64 = 0

    /// The zeros behind the last box, where nothing else is there and they are no whole block.
    var zeroCount: Int { header.allSatisfy { $0 == 0 } && header.count < 16 ? header.count : 0 }

    mutating func take(_ bytes: [UInt8]) {
        var bytes = bytes[...]
        while true {
            let skipped = min(left, UInt64(bytes.count))
            left -= skipped
            bytes = bytes.dropFirst(Int(skipped))
            guard left == 0, let byte = bytes.popFirst() else { return }
            header.append(byte)
            guard header.count == 8 || header.count == 16 else { continue }
            let size = header.prefix(4).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let isLarge = size == 1
            // Of zeros, there may be more than 8.
            if header.count == 8, isLarge || header.allSatisfy({ $0 == 0 }) { continue }
            let whole = isLarge ? header.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } : size
            left = whole >= UInt64(header.count) ? whole - UInt64(header.count) : .max
            header = []
        }
    }
}
