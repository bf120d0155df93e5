// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers

/// Looks at the fragments that an adaptive demuxer has fetched: media, or a web page in its place. For one stream's
/// thread at a time.
final class FragmentCheck: @unchecked Sendable {
    // SAFETY: `isInPage` belongs to the thread that brings the buffers.
    private var isInPage = false

    enum Finding { case start, rest, webPage }

    func look(at buffer: borrowing Buffer) -> Finding {
        let start = buffer.withBytesOfFirstMemory { Array($0.prefix(ForeignContent.size)) } ?? []
        if ForeignContent.isWebPage(start: start) {
            isInPage = true
            return .webPage
        }
        if Self.isStartOfMedia(start) {
            isInPage = false
            return .start
        }
        return isInPage ? .webPage : .rest
    }

    /// Boxes of ISO media, EBML, a packet of a transport stream, an ID3 tag, frames of packed audio, WebVTT.
    private static func isStartOfMedia(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 8 else { return false }
        let type = String(decoding: bytes[4..<8], as: UTF8.self)
        if ["ftyp", "styp", "moov", "moof", "sidx", "emsg", "prft", "uuid", "free", "mdat"].contains(type) {
            return true
        }
        if bytes.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) || bytes.starts(with: "ID3".utf8) { return true }
        if bytes[0] == 0x47, bytes.count <= 188 || bytes[188] == 0x47 { return true }
        return bytes[0] == 0xFF && bytes[1] & 0xF0 == 0xF0 || bytes.starts(with: [0x0B, 0x77])
            || bytes.starts(with: "WEBVTT".utf8)
    }
}
