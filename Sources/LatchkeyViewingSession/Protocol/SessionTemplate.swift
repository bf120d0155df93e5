// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Texts with names in braces.
enum SessionTemplate {
    /// The text with the values filled in, each through `encode`. Throws `invalidConfiguration` with the name of a value
    /// that is not there.
    static func text(
        _ template: String, _ values: [String: String], encode: (String) -> String = { $0 }
    ) throws(KeyError) -> String {
        var result = ""
        var rest = template[...]
        while let open = rest.firstIndex(of: "{"), let close = rest[open...].firstIndex(of: "}") {
            let name = String(rest[rest.index(after: open)..<close])
            guard let value = values[name] else {
                throw .invalidConfiguration("the session server wants “\(name)”; set it in the configuration")
            }
            result += rest[..<open] + encode(value)
            rest = rest[rest.index(after: close)...]
        }
        return result + rest
    }

    /// Everything but RFC 3986's unreserved characters.
    static func percentEncoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default: result += (byte < 0x10 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }

    /// Scheme and authority, in lower case; empty where there are none, or where user information could hide the host.
    static func origin(of url: String) -> String {
        guard let colon = url.firstIndex(of: ":"), url[colon...].hasPrefix("://") else { return "" }
        let start = url.index(colon, offsetBy: 3)
        let authority = url[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" && $0 != "\\" }
        guard !authority.contains("@") else { return "" }
        return (url[..<start] + authority).lowercased()
    }
}
