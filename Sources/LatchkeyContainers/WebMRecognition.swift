// SPDX-License-Identifier: MPL-2.0

/// Whether the start of a WebM or Matroska file says that a track is encrypted, and more of the file is to come.
package struct WebMRecognition {
    /// Bytes of the file, all of them; nil where they are not there, or not yet.
    package typealias Peek = (_ offset: UInt64, _ count: Int) -> [UInt8]?

    /// The elements of RFC 9559 that are looked for, without their data.
    private enum Identifier {
        static let header: UInt32 = 0x1A45_DFA3
        static let segment: UInt32 = 0x1853_8067
        static let cluster: UInt32 = 0x1F43_B675
        /// Each lies in the one before it: Tracks, TrackEntry, ContentEncodings, ContentEncoding, ContentEncryption.
        static let encryption: [UInt32] = [0x1654_AE6B, 0xAE, 0x6D80, 0x6240, 0x5035]
    }

    private struct Element {
        let identifier: UInt32
        let body: UInt64
        /// Nil where the element does not say how long it is.
        let end: UInt64?
    }

    /// More elements are not looked at.
    private var left = 1024

    /// - Parameter size: how many bytes are there, if that is known. From GStreamer 1.26 on, a type finder is told the size
    ///   of what has come as that of the file.
    package static func isProtectedFile(size: UInt64?, _ peek: Peek) -> Bool {
        var recognition = WebMRecognition()
        guard let header = recognition.element(at: 0, peek), header.identifier == Identifier.header,
            let start = header.end, let segment = recognition.element(at: start, peek),
            segment.identifier == Identifier.segment
        else { return false }
        if let size, let end = segment.end, end <= size { return false }
        return recognition.find(Identifier.encryption[...], from: segment.body, to: segment.end ?? .max, peek)
    }

    /// Whether there is an element of each of these kinds, one in another. Media ends the search.
    private mutating func find(
        _ path: ArraySlice<UInt32>, from start: UInt64, to end: UInt64, _ peek: Peek
    ) -> Bool {
        guard let wanted = path.first else { return true }
        var position = start
        while position < end, let element = element(at: position, peek), element.identifier != Identifier.cluster {
            // One that does not say how long it is may have all that follows in it.
            let elementEnd = element.end ?? end
            guard elementEnd <= end else { return false }
            if element.identifier == wanted, find(path.dropFirst(), from: element.body, to: elementEnd, peek) {
                return true
            }
            position = elementEnd
        }
        return false
    }

    /// Nil where its header is not there, or is none.
    private mutating func element(at position: UInt64, _ peek: Peek) -> Element? {
        guard left > 0, position < UInt64(Int64.max) else { return nil }
        left -= 1
        guard let first = peek(position, 1)?.first, first.leadingZeroBitCount < 4 else { return nil }
        let identifierSize = first.leadingZeroBitCount + 1
        guard let start = peek(position, identifierSize + 1), let mark = start.last, mark != 0 else { return nil }
        let headerSize = identifierSize + mark.leadingZeroBitCount + 1
        guard let header = peek(position, headerSize), header.count == headerSize else { return nil }
        let identifier = header.prefix(identifierSize).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        // The first bit that is set tells the length, and is no part of the number. All ones: not known.
        let bits = UInt64(7 * (headerSize - identifierSize))
        let all = (UInt64(1) << bits) - 1
        let size = header.dropFirst(identifierSize).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } & all
        let body = position + UInt64(headerSize)
        return Element(identifier: identifier, body: body, end: size == all ? nil : body + size)
    }
}
