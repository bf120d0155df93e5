// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// The text of a keys file: content keys that are known beforehand, one a line.
///
/// ```
/// # KID KEY [IV]: 32 hexadecimal digits, the KID also as a UUID
/// 00112233445566778899aabbccddeeff 0f0e0d0c0b0a09080706050403020100
/// # URI KEY [IV]: for HLS, where the key is named by its URI
/// skd://asset-1 0f0e0d0c0b0a09080706050403020100 00000000000000000000000000000001
/// # * KEY [IV]: for media that names no key
/// * 0f0e0d0c0b0a09080706050403020100
/// ```
///
/// Fields are separated by spaces or tabs. Blank lines, `#` comments (a line that starts with `#`, or ` #` behind the
/// fields), CRLF and a byte order mark are tolerated.
public struct KeysFile: Sendable {
    /// What a key is for.
    public enum Subject: Hashable, Sendable {
        /// The key of this KID, whatever the media.
        case keyID(KeyID)
        /// An absolute URI as `init(uri:)` gives it: its scheme in small letters.
        case uri(String)
        /// Media that names no key: `*`.
        case unnamed
    }

    /// One line of the file.
    public struct Entry: Sendable {
        /// What the first field of the line names.
        public var subject: Subject
        /// With the IV, where the line has one.
        public var key: ContentKey

        /// The entry shares the memory of `key`, which is wiped when its last owner goes.
        public init(subject: KeysFile.Subject, key: ContentKey) {
            self.subject = subject
            self.key = key
        }
    }

    /// The most bytes of a file that are read.
    public static let maximumSize = 1024 * 1024

    /// In the order of the file, repeats included.
    public var entries: [Entry]

    /// Reads the contents of a file. `name` is the file's name, for error texts.
    ///
    /// Throws `invalidConfiguration` with the name and the number of the line, and never its content. The caller's
    /// copy of the contents is the caller's to wipe.
    public init(contents: some Collection<UInt8>, name: String) throws(KeyError) {
        guard contents.count <= Self.maximumSize else {
            throw .invalidConfiguration(
                "\(name): \(contents.count) bytes are too many for a keys file; \(Self.maximumSize) are read")
        }
        entries = []
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let text = contents.starts(with: mark) ? contents.dropFirst(mark.count) : contents.dropFirst(0)
        let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (position, line) in lines.enumerated() {
            var fields = line.split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            if let comment = fields.firstIndex(where: { $0.first == UInt8(ascii: "#") }) {
                fields.removeSubrange(comment...)
            }
            guard !fields.isEmpty else { continue }
            do throws(FormatError) {
                entries.append(try Entry(fields: fields))
            } catch {
                throw .invalidConfiguration("\(name), line \(position + 1): \(error.reason)")
            }
        }
    }
}

extension KeysFile.Entry {
    /// Reads two or three fields: subject, key, IV; the IV may start with `0x`.
    ///
    /// Works on bytes and not on text, so that no copy of the key stays behind. Throws `malformed`; its `reason` says
    /// which field is wrong and never quotes it. `separator` is what stands between fields, for that text.
    public init<Field: Collection<UInt8>>(fields: [Field], separator: Character = " ") throws(FormatError) {
        guard fields.count == 2 || fields.count == 3 else {
            let forms = ["KID KEY", "KID KEY IV", "URI KEY", "* KEY"].map { form in
                "“\(String(form.map { $0 == " " ? separator : $0 }))”"
            }
            throw .malformed(
                "\(fields.count) field\(fields.count == 1 ? "" : "s") where \(forms[0]), \(forms[1]), \(forms[2]) or "
                    + "\(forms[3]) is expected")
        }
        subject = try KeysFile.Subject(field: fields[0])
        guard var bytes = decodeHex(fields[1]) else { throw .malformed("the key is not 32 hexadecimal digits") }
        defer { wipe(&bytes) }
        let vector = fields.count == 3 ? try Self.initializationVector(field: fields[2]) : nil
        guard let key = ContentKey(bytes, initializationVector: vector) else {
            throw .malformed("there is no memory for the key")
        }
        self.key = key
    }

    private static func initializationVector(
        field: some Collection<UInt8>
    ) throws(FormatError) -> InitializationVector {
        let hasPrefix = field.starts(with: "0x".utf8) || field.starts(with: "0X".utf8)
        guard let bytes = decodeHex(field.dropFirst(hasPrefix ? 2 : 0)), let vector = InitializationVector(bytes) else {
            throw .malformed("the IV is not 32 hexadecimal digits")
        }
        return vector
    }
}

extension KeysFile.Subject {
    /// Reads `*`, a KID (32 hexadecimal digits or a UUID) or an absolute URI. Throws `malformed` for anything else,
    /// without quoting it.
    public init(field: some Collection<UInt8>) throws(FormatError) {
        let text = String(decoding: field, as: UTF8.self)
        if text == "*" {
            self = .unnamed
        } else if let keyID = KeyID(hex: text) {
            self = .keyID(keyID)
        } else if let colon = text.firstIndex(of: ":"), Self.isScheme(text[..<colon]) {
            self.init(uri: text)
        } else {
            throw .malformed("the first field is no KID (32 hexadecimal digits or a UUID), no absolute URI and not “*”")
        }
    }

    /// What is named by a URI. Schemes are compared without regard to case (RFC 3986, section 3.1), all the rest as it is
    /// written.
    public init(uri: String) {
        guard let colon = uri.firstIndex(of: ":"), Self.isScheme(uri[..<colon]) else {
            self = .uri(uri)
            return
        }
        self = .uri(uri[..<colon].lowercased() + uri[colon...])
    }

    /// RFC 3986, 3.1.
    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, first.isASCIILetter else { return false }
        return text.utf8.allSatisfy { $0.isASCIILetter || 0x30...0x39 ~= $0 || "+-.".utf8.contains($0) }
    }
}

extension UInt8 {
    fileprivate var isASCIILetter: Bool { 0x41...0x5A ~= self || 0x61...0x7A ~= self }
}

private func decodeHex(_ digits: some Collection<UInt8>) -> [UInt8]? {
    guard digits.count == 32 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(16)
    var high: Int?
    for digit in digits {
        guard let value = Character(Unicode.Scalar(digit)).hexDigitValue else {
            wipe(&bytes)
            return nil
        }
        if let first = high {
            bytes.append(UInt8(truncatingIfNeeded: first << 4 | value))
            high = nil
        } else {
            high = value
        }
    }
    return bytes
}
