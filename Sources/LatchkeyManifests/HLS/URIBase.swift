// SPDX-License-Identifier: MPL-2.0

/// A URL that many references are resolved against: the same as `URIReference.resolve`, and fast for plain file names,
/// which is what long playlists are made of.
struct URIBase: Sendable {
    let reference: URIReference
    /// What stands in front of a plain reference: the URL up to its last slash. Nil where that is not all there is to it.
    private let directory: String?

    init(_ reference: URIReference) {
        self.reference = reference
        directory = reference.isHTTP ? URIReference.resolve(".", against: reference) : nil
    }

    func resolve(_ text: some StringProtocol) -> String {
        if let directory, Self.isPlain(text.utf8) { return directory + text }
        return URIReference.resolve(text, against: reference)
    }

    /// Whether `text` is a path, and maybe a query, with nothing in it to take out or to encode. Some that are so are not
    /// found to be.
    static func isPlain(_ text: some Sequence<UInt8>) -> Bool {
        var previous = UInt8(ascii: "/")
        for byte in text {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "="),
                UInt8(ascii: "&"), UInt8(ascii: "%"):
                break
            case UInt8(ascii: "."), UInt8(ascii: "/"), UInt8(ascii: "?"):
                if previous == UInt8(ascii: "/") { return false }
            default: return false
            }
            previous = byte
        }
        return previous != UInt8(ascii: "/")
    }
}
