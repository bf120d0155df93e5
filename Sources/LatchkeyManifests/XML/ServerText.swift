// SPDX-License-Identifier: MPL-2.0

/// What a server says about a failure in its own words, made fit for error texts.
///
/// Control characters become spaces, and white space becomes single spaces. Long runs of Base64 and hexadecimal digits, which
/// may be keys, tokens or licenses, are replaced by `[…]`. What is left is cut to 200 characters.
package enum ServerText {
    /// In characters.
    package static let limit = 200
    /// The shortest run that is removed: 16 bytes in Base64 without padding.
    private static let run = 22
    private static let removed = Array("[…]".utf8)

    /// The words of an answer with an error status. Nil if the body is neither plain text, nor JSON, nor a SOAP fault.
    ///
    /// `contentType` counts for plain text alone: services often give JSON and SOAP another type. `secrets` are removed where
    /// the server repeats them.
    package static func words(in body: [UInt8], contentType: String?, hiding secrets: [String] = []) -> String? {
        guard let text = quotable(body, contentType) else { return nil }
        let words = printable(text, hiding: secrets)
        return words.isEmpty ? nil : words
    }

    /// A text of a server, as the type says.
    package static func printable(_ text: String, hiding secrets: [String] = []) -> String {
        let bytes = removing(secrets, from: Array(text.utf8))
        let spaced = String(decoding: withoutRuns(bytes), as: UTF8.self).unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? " " : scalar
        }
        var plain = String.UnicodeScalarView()
        plain.append(contentsOf: spaced)
        let line = String(plain).split(separator: " ").joined(separator: " ")
        return line.count <= limit ? line : line.prefix(limit) + "…"
    }

    /// `bytes` with `[…]` in the place of each secret of 4 bytes or more, also as JSON and XML escape it.
    package static func removing(_ secrets: [String], from bytes: [UInt8]) -> [UInt8] {
        let forms = Set(secrets.flatMap { [$0, $0.replacing("/", with: "\\/"), XMLElement.escaped($0)] }).map {
            Array($0.utf8)
        }
        var bytes = bytes
        // The longest first: one may be part of another.
        for form in forms.filter({ $0.count >= 4 }).sorted(by: { $0.count > $1.count }) {
            bytes = replace(form, in: bytes)
        }
        return bytes
    }

    private static func quotable(_ body: [UInt8], _ contentType: String?) -> String? {
        guard let text = String(validating: body, as: UTF8.self), !body.contains(0) else { return nil }
        switch body.first(where: { $0 > 0x20 }) {
        case UInt8(ascii: "{"), UInt8(ascii: "["): return text
        case UInt8(ascii: "<"):
            guard let fault = try? XMLElement(reading: body, limits: .exchange).first("Fault") else { return nil }
            return (fault.child("faultstring") ?? fault.first("Text"))?.trimmedText
        default:
            let type = (contentType ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
            return type == "text/plain" || type.hasSuffix("json") ? text : nil
        }
    }

    private static func replace(_ secret: [UInt8], in bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var rest = bytes[...]
        while let first = rest.first {
            if first == secret[0], rest.starts(with: secret) {
                result += removed
                rest = rest.dropFirst(secret.count)
            } else {
                result.append(first)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    private static func withoutRuns(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var rest = bytes[...]
        while let first = rest.first {
            let run = rest.prefix(while: isPartOfRun)
            guard !run.isEmpty else {
                result.append(first)
                rest = rest.dropFirst()
                continue
            }
            result += run.count >= Self.run && !isWords(run) ? removed[...] : run
            rest = rest.dropFirst(run.count)
        }
        return result
    }

    /// Base64 of both alphabets, also with the escapes of JSON and of URLs, and hexadecimal digits in groups.
    private static func isPartOfRun(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "+/=_-%\\:".utf8.contains(byte)
        }
    }

    /// Whether it is words, as `InvalidAuthenticationTokenException`: letters and separators, whose case changes seldom.
    private static func isWords(_ run: ArraySlice<UInt8>) -> Bool {
        var changes = 0
        var last: UInt8?
        for byte in run {
            switch byte {
            case 0x41...0x5A, 0x61...0x7A:
                if let last, (last ^ byte) & 0x20 != 0 { changes += 1 }
                last = byte
            case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "/"), UInt8(ascii: ":"): last = nil
            default: return false
            }
        }
        return changes * 4 <= run.count
    }
}
