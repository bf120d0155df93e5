// SPDX-License-Identifier: MPL-2.0

/// Percent-encoding (RFC 3986, 2.1) over UTF-8.
public enum PercentEncoding {
    /// Everything but letters, digits and `-._~` encoded.
    public static func encode(_ text: String) -> String {
        encode(text) { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "-._~".utf8.contains(byte)
            }
        }
    }

    /// Only what cannot stand in a URL encoded: control characters, spaces, `"<>\^`{|}` and everything beyond ASCII.
    public static func encodeInvalid(_ text: String) -> String {
        encode(text) { 0x21...0x7E ~= $0 && !"\"<>\\^`{|}".utf8.contains($0) }
    }

    /// Nil where a `%` has no two hexadecimal digits behind it.
    public static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    /// Nil also where the bytes are no UTF-8.
    public static func decodeText(_ text: some StringProtocol) -> String? {
        decode(Array(text.utf8)).flatMap { String(validating: $0, as: UTF8.self) }
    }

    private static func encode(_ text: String, keeping isKept: (UInt8) -> Bool) -> String {
        guard !text.utf8.allSatisfy(isKept) else { return text }
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            if isKept(byte) {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8(truncatingIfNeeded: $0) }
    }
}
