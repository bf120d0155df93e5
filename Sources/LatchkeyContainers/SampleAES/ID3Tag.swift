// SPDX-License-Identifier: MPL-2.0

/// An ID3v2 tag in front of packed audio (id3.org, "ID3 tag version 2.4.0"; RFC 8216, 3.4).
///
/// ```
/// "ID3", UInt8 version, UInt8 revision, UInt8 flags, size: 4 × 7 bits, frames, padding
/// frame: UInt8[4] id, size (4 × 7 bits; 32 bits in version 3), UInt16 flags, content
/// PRIV:  owner, 0, data
/// ```
struct ID3Tag: Equatable {
    struct Frame: Equatable {
        var id: [UInt8]
        var flags: [UInt8] = [0, 0]
        var content: [UInt8]

        static func privateFrame(owner: String, data: [UInt8]) -> Frame {
            Frame(id: Array("PRIV".utf8), content: Array(owner.utf8) + [0] + data)
        }

        /// The data of a PRIV frame of that owner.
        func data(owner: String) -> ArraySlice<UInt8>? {
            let start = Array(owner.utf8) + [0]
            guard id == Array("PRIV".utf8), content.starts(with: start) else { return nil }
            return content.dropFirst(start.count)
        }
    }

    static let headerSize = 10
    /// Larger tags are refused: in a stream they hold a timestamp and the like, and all of one is kept in memory.
    static let maximumSize = 1 << 20
    /// The setup of encrypted audio ("HLS Sample Encryption", packed audio).
    static let audioDescription = "com.apple.streaming.audioDescription"

    private var version: UInt8 = 4
    var frames: [Frame]

    init(frames: [Frame]) { self.frames = frames }

    /// The size of the tag whose header starts at the first byte. Nil where there is no tag.
    static func size(ofTagAt header: UnsafeRawBufferPointer) -> Int? {
        // SAFETY: nothing behind the `headerSize` bytes that are counted here is read.
        guard header.count >= headerSize, header.starts(with: "ID3".utf8), header[3] < 0xFF, header[4] < 0xFF,
            header[6...9].allSatisfy({ $0 < 0x80 })
        else { return nil }
        let footer = header[3] == 4 && header[5] & 0x10 != 0 ? headerSize : 0
        return headerSize + header[6...9].reduce(0) { $0 << 7 | Int($1) } + footer
    }

    /// Reads a tag of version 3 or 4 without unsynchronization and extended header. Bytes behind the tag are ignored.
    init(_ bytes: [UInt8]) throws(FormatError) {
        guard let size = bytes.withUnsafeBytes({ Self.size(ofTagAt: $0) }) else { throw .malformed("ID3 tag: header") }
        guard size <= Self.maximumSize else { throw .tooLarge("ID3 tag: \(size) bytes") }
        var reader = ByteReader(bytes, structure: "ID3 tag")
        try reader.skip(3)
        version = try reader.readUInt8()
        guard version == 3 || version == 4 else { throw .unsupported("ID3 tag: version \(version)") }
        try reader.skip(1)
        guard try reader.readUInt8() & 0xC0 == 0 else { throw .unsupported("ID3 tag: flags") }
        var body = try reader.readStructure(Self.bodySize(reader.readBytes(4)), "ID3 tag")
        frames = []
        while body.remaining >= 10, body.rest.first != 0 {
            let id = Array(try body.readBytes(4))
            let sizeBytes = try body.readBytes(4)
            let flags = Array(try body.readBytes(2))
            let size = version == 4 ? Self.bodySize(sizeBytes) : sizeBytes.reduce(0) { $0 << 8 | Int($1) }
            frames.append(Frame(id: id, flags: flags, content: Array(try body.readBytes(size))))
        }
    }

    private static func bodySize(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 7 | Int($1 & 0x7F) } }

    /// The note that Latchkey's playlist rewriting left.
    var segmentKey: SegmentKey? {
        frames.lazy.compactMap { $0.data(owner: SegmentKey.owner) }.compactMap { SegmentKey($0) }.first
    }

    /// Whether the tag says that the audio behind it is encrypted.
    var describesEncryptedAudio: Bool { frames.contains { $0.data(owner: Self.audioDescription) != nil } }

    /// Takes out what is not for those who read the clear audio.
    mutating func removeProtection() {
        frames.removeAll {
            $0.data(owner: Self.audioDescription) != nil || $0.data(owner: SegmentKey.owner) != nil
        }
    }

    /// The tag, without padding.
    var bytes: [UInt8] {
        let body = frames.flatMap { frame in
            frame.id
                + (version == 4
                    ? Self.sevenBits(frame.content.count) : UInt32(clamping: frame.content.count).bigEndianBytes)
                + frame.flags + frame.content
        }
        return Array("ID3".utf8) + [version, 0, 0] + Self.sevenBits(body.count) + body
    }

    private static func sevenBits(_ size: Int) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: size >> (21 - $0 * 7)) & 0x7F }
    }
}
