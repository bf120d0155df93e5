// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection
import Synchronization

/// Content keys that are known beforehand, from a property or a keys file. Prints without keys.
public struct StaticKeys: Sendable {
    /// One key, and what it is for.
    public typealias Entry = KeysFile.Entry

    /// In order, repeats included. Of several entries for the same subject the last counts.
    public let entries: [Entry]
    private let bySubject: [KeysFile.Subject: Entry]

    /// Any entries, none included.
    public init(entries: [Entry]) {
        self.entries = entries
        bySubject = Dictionary(entries.map { ($0.subject, $0) }, uniquingKeysWith: { $1 })
    }

    /// The key of this KID; nil where there is none.
    public func key(for keyID: KeyID) -> ContentKey? { bySubject[.keyID(keyID)]?.key }

    /// The `*` key: for media that names no key.
    public var keyWithoutID: ContentKey? { bySubject[.unnamed]?.key }

    /// The key that a playlist names by this URI. Schemes compare without case, the rest as it is written.
    public func key(forURI uri: String) -> ContentKey? { bySubject[KeysFile.Subject(uri: uri)]?.key }
}

extension StaticKeys {
    /// Reads the text of a `keys` property: entries with commas between them, each `KID:KEY`, `*:KEY` or `URI:KEY`,
    /// with `:IV` behind it if need be. KID, KEY and IV are 32 hexadecimal digits, the KID also a UUID, and the IV may
    /// start with `0x`.
    ///
    /// Fields are found from the right, so that a URI may have colons. A URI with a comma, or one that ends in a colon
    /// and 32 digits, needs a keys file. Throws `invalidConfiguration` with the number of the entry, never its content.
    public static func parse(property text: String) throws(KeyError) -> StaticKeys {
        var bytes = Array(text.utf8)
        defer { wipe(&bytes) }
        guard bytes.count <= KeysFile.maximumSize else {
            throw .invalidConfiguration("keys: longer than \(KeysFile.maximumSize) bytes; use a keys file")
        }
        var entries: [Entry] = []
        let parts = bytes.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        for (position, part) in parts.enumerated() {
            let part = trimmed(part)
            // A comma at the end, or an empty property.
            if part.isEmpty, position == parts.count - 1 { continue }
            do throws(FormatError) {
                entries.append(try Entry(fields: fields(in: part), separator: ":"))
            } catch {
                throw .invalidConfiguration("keys, entry \(position + 1): \(error.reason)")
            }
        }
        return StaticKeys(entries: entries)
    }

    /// Reads the contents of a keys file (see `KeysFile`). `name` is for error texts.
    ///
    /// Throws `invalidConfiguration` with the name and the number of the line, never its content.
    public static func parse(file contents: [UInt8], name: String) throws(KeyError) -> StaticKeys {
        StaticKeys(entries: try KeysFile(contents: contents, name: name).entries)
    }

    /// Reads a keys file of at most `KeysFile.maximumSize` bytes. Blocks for as long as the file system does.
    ///
    /// Throws `invalidConfiguration` with the path and the reason.
    public static func read(path: String) throws(KeyError) -> StaticKeys {
        var bytes = try RegularFile(path: path, kind: "keys file", has: .secrets).contents(limit: KeysFile.maximumSize)
        defer { wipe(&bytes) }
        return try parse(file: bytes, name: path)
    }

    /// Two or three fields: subject, key, IV.
    private static func fields(in entry: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        let colon = UInt8(ascii: ":")
        guard let last = entry.lastIndex(of: colon) else { return [entry] }
        let front = entry[..<last]
        let back = entry[(last + 1)...]
        if let middle = front.lastIndex(of: colon), isKeySized(front[(middle + 1)...]), isSubject(front[..<middle]) {
            return [front[..<middle], front[(middle + 1)...], back]
        }
        return [front, back]
    }

    private static func isKeySized(_ field: ArraySlice<UInt8>) -> Bool {
        field.count == 32 && field.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
    }

    /// Tells `skd:` and 32 digits, which is one field, from a URI with a key behind it.
    private static func isSubject(_ field: ArraySlice<UInt8>) -> Bool {
        (try? KeysFile.Subject(field: field)) != nil
    }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || 0x09...0x0D ~= $0 }
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return text
    }
}

extension StaticKeys {
    /// Finishes the request where nothing is missing then, else hands over what is there and leaves it to others.
    func load(_ request: KeyLoadingRequest) -> Bool {
        if request.keyIDs.isEmpty {
            guard let key = request.suggestedURL.flatMap(key(forURI:)) ?? keyWithoutID else { return false }
            request.finishLoading(with: .key(key))
            return true
        }
        let missing = request.missingKeyIDs
        let known = missing.reduce(into: [KeyID: ContentKey]()) { known, keyID in
            let uri = request.keyURI(of: keyID)
            known[keyID] = key(for: keyID) ?? uri.flatMap(key(forURI:)) ?? (uri == nil ? nil : keyWithoutID)
        }
        guard !known.isEmpty else { return false }
        guard known.count == missing.count else {
            request.provide(known)
            return false
        }
        request.finishLoading(with: .keys(known))
        return true
    }
}

extension StaticKeys: Redacted {
    /// How many there are; neither keys nor URIs.
    public var description: String { "\(entries.count) static keys" }
}

/// Answers from keys that are known beforehand, whatever the key system.
///
/// Takes a request when it has every key that is missing. Where it has some of them, it hands these over and the next
/// loader is asked for the rest. For media without a KID it has the key of the request's URL or the `*` key.
/// Thread-safe.
public final class StaticKeyLoader: ResourceLoader {
    /// Names the loader in error texts.
    public let name: String
    /// Yes.
    public var needsNoNetwork: Bool { true }
    private let keys: StaticKeys

    /// The keys are shared and not copied.
    public init(_ keys: StaticKeys, name: String = "static keys") {
        self.keys = keys
        self.name = name
    }

    /// Takes a request that the keys answer whole, and hands over what it has of others.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { keys.load(request) }
}

/// Answers from a keys file, as `StaticKeyLoader` does.
///
/// The file is read at the first request and again when it changed. A request for a key that the file lacks goes on to
/// the next loader. Where the file cannot be read, the request fails with `invalidConfiguration`, which names the path
/// and the reason: a file that was asked for and does not work is not passed over in silence.
///
/// Thread-safe; the keys are held as long as the loader.
public final class KeysFileLoader: ResourceLoader {
    /// For logs.
    public let name: String
    /// Yes.
    public var needsNoNetwork: Bool { true }
    /// The path of the file, as it was given.
    public let path: String
    private let cache = Mutex<(stamp: RegularFile.Stamp, keys: StaticKeys)?>(nil)

    /// Reads nothing yet: a file that is missing shows with the first request.
    public init(path: String) {
        self.path = path
        name = "keys file \(path)"
    }

    /// Takes what the file has keys for, and every request where the file cannot be read.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        do throws(KeyError) {
            return try keys().load(request)
        } catch {
            request.finishLoading(with: error)
            return true
        }
    }

    private func keys() throws(KeyError) -> StaticKeys {
        let file = try RegularFile(path: path, kind: "keys file", has: .secrets)
        let stamp = file.stamp
        if let cached = cache.withLock({ $0?.stamp == stamp ? $0?.keys : nil }) { return cached }
        var bytes = try file.contents(limit: KeysFile.maximumSize)
        defer { wipe(&bytes) }
        let keys = try StaticKeys.parse(file: bytes, name: "keys file \(path)")
        cache.withLock { $0 = (stamp, keys) }
        return keys
    }
}
