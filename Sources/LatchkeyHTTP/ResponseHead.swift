// SPDX-License-Identifier: MPL-2.0

/// The header fields of a response, from the lines that libcurl hands on one at a time.
///
/// libcurl has read the status line and the framing by then. Interim responses (1xx) and the answers of a proxy start
/// over; trailers are left out.
struct ResponseHead {
    /// The most bytes that all fields of one response may have.
    static let maximumSize = 65_536

    private(set) var headers: [HTTPHeader] = []
    private var size = 0
    private var isComplete = false

    /// Takes one line with or without its line end. False where the fields are larger than `maximumSize`.
    mutating func receive(_ line: [UInt8]) -> Bool {
        guard line.count <= Self.maximumSize - size else { return false }
        size += line.count
        // A field name has no slash, so that this is a status line.
        if line.starts(with: "HTTP/".utf8) {
            self = ResponseHead()
            size = line.count
            return true
        }
        let text = Self.trimmed(line[...])
        if text.isEmpty {
            isComplete = true
        } else if isComplete {
            return true
        } else if let first = line.first, Self.isBlank(first) {
            // Obsolete line folding (RFC 9112, section 5.2).
            guard let last = headers.indices.last else { return true }
            headers[last].value += " " + String(decoding: text, as: UTF8.self)
        } else if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            headers.append(
                HTTPHeader(
                    name: String(decoding: Self.trimmed(text[..<colon]), as: UTF8.self),
                    value: String(decoding: Self.trimmed(text[text.index(after: colon)...]), as: UTF8.self)))
        }
        return true
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var bytes = bytes.drop(while: isBlank)
        while let last = bytes.last, isBlank(last) { bytes.removeLast() }
        return bytes
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0D || byte == 0x0A
    }
}
