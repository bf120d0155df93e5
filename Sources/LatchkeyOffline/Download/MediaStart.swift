// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySession
import LatchkeyManifests

/// Whether bytes may be the start of a segment of HLS or DASH that is not encrypted as a whole. What a demuxer or a parser of
/// GStreamer may take counts, also where no specification has it in a segment: only what is surely no media does not. Pure.
enum MediaStart {
    /// Fewer bytes tell too little.
    private static let least = 16
    /// What is looked at, in bytes: demuxers find MPEG-TS behind other bytes.
    private static let size = 64 << 10
    /// The same of frames of sound.
    private static let soundSize = 8 << 10

    static func mayBeOne(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= least else { return true }
        let bytes = Array(bytes.prefix(size))
        return HLSSegmentKind(firstBytes: bytes) != nil || isBox(bytes) || isText(bytes)
            || starts.contains { bytes.starts(with: $0) } || hasPackets(bytes) || hasFrames(bytes)
            || EnvelopeParsers(includesOwn: true).parser(of: bytes) != nil
    }

    private static let starts: [[UInt8]] =
        ["OggS", "fLaC", "FLV", "RIFF"].map { Array($0.utf8) } + [
            // WebM and Matroska: EBML, Segment, SeekHead, Info, Tags, Cluster, Cues, Tracks, Void, SimpleBlock, BlockGroup.
            [0x1A, 0x45, 0xDF, 0xA3], [0x18, 0x53, 0x80, 0x67], [0x11, 0x4D, 0x9B, 0x74], [0x15, 0x49, 0xA9, 0x66],
            [0x12, 0x54, 0xC3, 0x67], [0x1F, 0x43, 0xB6, 0x75], [0x1C, 0x53, 0xBB, 0x6B], [0x16, 0x54, 0xAE, 0x6B],
            [0xEC], [0xA3], [0xA0],
            // Program streams, and elementary streams of video.
            [0, 0, 1], [0, 0, 0, 1],
            // AC-4, AC-3 in the other byte order, DTS.
            [0xAC, 0x40], [0xAC, 0x41], [0x77, 0x0B], [0x7F, 0xFE, 0x80, 0x01], [0xFE, 0x7F, 0x01, 0x80],
            [0x1F, 0xFF, 0xE8], [0xFF, 0x1F, 0x00, 0xE8], [0x64, 0x58, 0x20, 0x25],
            // Text in UTF-16, and gzip. What begins with FF FE counts as sound.
            [0xFE, 0xFF], [0x3C, 0], [0, 0x3C], [0x1F, 0x8B],
            // The PlayReady envelope, which another program may read.
            [0x50, 0x52, 0x45, 0x07],
        ]

    /// Four letters or digits where a box of ISO media has its type.
    private static func isBox(_ bytes: [UInt8]) -> Bool {
        bytes[4..<8].allSatisfy { byte in
            0x61...0x7A ~= byte | 0x20 || 0x30...0x39 ~= byte || byte == 0x20 || byte == 0xA9
        }
    }

    /// Subtitles and manifests. `ForeignContent` knows other text.
    private static func isText(_ bytes: [UInt8]) -> Bool {
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        return text.prefix(least - 3).allSatisfy { 0x20...0x7E ~= $0 || 0x09...0x0D ~= $0 }
    }

    /// Five sync bytes of MPEG-TS, or as many as there are: plain packets, with a time stamp, and with a checksum.
    private static func hasPackets(_ bytes: [UInt8]) -> Bool {
        [188, 192, 204, 208].contains { size in
            let last = max(bytes.count - 4 * size, min(size, bytes.count))
            return bytes[..<last].indices.contains { first in
                stride(from: first, to: min(first + 5 * size, bytes.count), by: size).allSatisfy { bytes[$0] == 0x47 }
            }
        }
    }

    /// LOAS, or a frame of sound at any place behind which another one starts.
    private static func hasFrames(_ bytes: [UInt8]) -> Bool {
        bytes[0] == 0x56 && bytes[1] & 0xE0 == 0xE0
            || bytes.prefix(soundSize).indices.contains { AudioFrame.areFrames(bytes, at: $0) }
    }
}
