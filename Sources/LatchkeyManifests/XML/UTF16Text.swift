// SPDX-License-Identifier: MPL-2.0

/// Text in UTF-16, as PlayReady objects hold it.
package enum UTF16Text {
    /// The text of `bytes`, where they look like markup in UTF-16 of either byte order: a byte order mark, or every
    /// other of the first four bytes zero. Nil for other bytes, an odd number of them, or a surrogate without its other
    /// half. The byte order mark is left out.
    package static func decode(_ bytes: [UInt8]) -> String? {
        guard bytes.count >= 4, bytes.count % 2 == 0 else { return nil }
        let isLittleEndian: Bool
        var start = 0
        switch (bytes[0], bytes[1], bytes[2], bytes[3]) {
        case (0xFF, 0xFE, _, _): (isLittleEndian, start) = (true, 2)
        case (0xFE, 0xFF, _, _): (isLittleEndian, start) = (false, 2)
        case (1..., 0, 1..., 0): isLittleEndian = true
        case (0, 1..., 0, 1...): isLittleEndian = false
        default: return nil
        }
        let units = stride(from: start, to: bytes.count, by: 2).map { position in
            let (first, second) = (UInt16(bytes[position]), UInt16(bytes[position + 1]))
            return isLittleEndian ? second << 8 | first : first << 8 | second
        }
        return String(validating: units, as: UTF16.self)
    }

    /// Little-endian, without a byte order mark.
    package static func encode(_ text: String) -> [UInt8] {
        text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
}
