// SPDX-License-Identifier: MPL-2.0

/// One field of a request or a response (RFC 9110, section 5).
///
/// Names compare without regard to case in `HTTPResponse.header(_:)`; `==` compares both strings exactly. The value
/// can be a credential, so it never prints.
public struct HTTPHeader: Sendable, Hashable {
    /// Compared without regard to case (RFC 9110, 5.1).
    public var name: String
    /// Sent as it is; the transport refuses a line break in it.
    public var value: String

    /// Checks nothing: a field that must not be sent is refused by the transport, with `HTTPError.invalidRequest`.
    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    /// Whether the field has this name. ASCII letters match in either case.
    func isNamed(_ other: String) -> Bool {
        name.utf8.count == other.utf8.count && zip(name.utf8, other.utf8).allSatisfy { lowercase($0) == lowercase($1) }
    }

    /// Whether the field fits in a request: a token as its name, no control characters in its value.
    ///
    /// A line break in a value would let whoever chose it write further fields.
    var isWellFormed: Bool {
        isToken(name) && value.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }
}

extension HTTPHeader: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name alone, because the value may be a credential.
    public var description: String { "\(name): <redacted>" }
    /// The same: a debugger shows no value either.
    public var debugDescription: String { description }
    /// The name; `dump` shows no value.
    public var customMirror: Mirror { Mirror(self, children: ["name": name]) }
}

/// Whether the text is a token (RFC 9110, section 5.6.2), as methods and field names are.
func isToken(_ text: String) -> Bool {
    !text.isEmpty
        && text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default:
                "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
}

private func lowercase(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}
