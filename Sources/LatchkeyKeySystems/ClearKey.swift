// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// W3C's Clear Key: license request and license are JSON, the keys travel readable
/// (<https://www.w3.org/TR/encrypted-media-2/#clear-key>).
///
/// ```
/// request  {"kids":["base64url", …],"type":"temporary"}
/// license  {"keys":[{"kty":"oct","kid":"base64url","k":"base64url"}, …],"type":"temporary"}
/// ```
///
/// Members that are not known are ignored, and Base64 is read in both alphabets, with or without padding. All functions
/// are pure and may be called from any thread.
public enum ClearKey {
    /// The most bytes of a request or a license that are read.
    public static let maximumSize = 1024 * 1024
    /// The most KIDs of a request, or keys of a license, that are read.
    public static let maximumCount = 1024

    /// The license request for `keyIDs`, in their order.
    public static func licenseRequest(for keyIDs: [KeyID], type: SessionType = .temporary) -> [UInt8] {
        // Put together by hand: the values are Base64 and fixed words, so nothing needs an escape, and unlike an encoder
        // this cannot fail.
        let list = keyIDs.map { "\"\(Base64.encodeURLSafe($0.bytes))\"" }.joined(separator: ",")
        return Array("{\"kids\":[\(list)],\"type\":\"\(type.rawValue)\"}".utf8)
    }

    /// The keys of a license. Keys of another type than `oct` are left out; there may be none at all.
    ///
    /// Throws `malformedResponse` where the body is no license, is above the limits, has a KID or a key that is not 16
    /// bytes long, or has two different keys for a KID. The text never quotes the body.
    public static func keys(inLicense body: [UInt8]) throws(KeyError) -> [KeyID: ContentKey] {
        guard body.count <= maximumSize else {
            throw .malformedResponse("a ClearKey license of \(body.count) bytes; \(maximumSize) are read")
        }
        var entries: [Entry] = []
        defer { for position in entries.indices { wipe(&entries[position].k) } }
        do throws(JSONReader.Malformed) {
            try read(body, into: &entries)
        } catch {
            throw .malformedResponse("the body is no ClearKey license: no JSON object with a list “keys”")
        }
        guard entries.count <= maximumCount else {
            throw .malformedResponse("a ClearKey license with more than \(maximumCount) keys")
        }
        var keys: [KeyID: ContentKey] = [:]
        for (position, entry) in entries.enumerated() where entry.isOfBytes {
            guard let keyID = Base64.decode(entry.kid).flatMap({ KeyID($0) }) else {
                throw .malformedResponse("key \(position) of the ClearKey license has no KID of 16 bytes in Base64")
            }
            guard var bytes = Base64.decode(entry.k) else {
                throw .malformedResponse("the ClearKey license has no key of 16 bytes in Base64 for KID \(keyID)")
            }
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else {
                throw .malformedResponse("the ClearKey license has no key of 16 bytes in Base64 for KID \(keyID)")
            }
            if let other = keys[keyID], !(other == key) {
                throw .malformedResponse("the ClearKey license has two different keys for KID \(keyID)")
            }
            keys[keyID] = key
        }
        return keys
    }
}

extension ClearKey {
    /// One JSON Web Key. Members that are absent or of a wrong type are empty, so that a key of another kind does no harm.
    private struct Entry {
        var isOfBytes = true
        var kid: [UInt8] = []
        var k: [UInt8] = []
    }

    /// Adds the keys of a license, and one more than `maximumCount` at most.
    private static func read(_ body: [UInt8], into entries: inout [Entry]) throws(JSONReader.Malformed) {
        var reader = JSONReader(body)
        var isLicense = false
        try reader.object { name, reader throws(JSONReader.Malformed) in
            guard name.elementsEqual("keys".utf8) else { return try reader.skip() }
            isLicense = true
            try reader.list { reader throws(JSONReader.Malformed) in
                guard entries.count <= maximumCount else { return try reader.skip() }
                entries.append(Entry())
                try read(&reader, into: &entries[entries.count - 1])
            }
        }
        try reader.end()
        guard isLicense else { throw JSONReader.Malformed() }
    }

    private static func read(_ reader: inout JSONReader, into entry: inout Entry) throws(JSONReader.Malformed) {
        try reader.object { name, reader throws(JSONReader.Malformed) in
            switch String(decoding: name, as: UTF8.self) {
            case "kty": entry.isOfBytes = try reader.string().map { $0.elementsEqual("oct".utf8) } ?? true
            case "kid": entry.kid = try reader.string() ?? []
            case "k": entry.k = try reader.string() ?? []
            default: try reader.skip()
            }
        }
    }
}

/// How long a license is meant to last, by its name in W3C's Encrypted Media Extensions (`MediaKeySessionType`).
public enum SessionType: String, Sendable, CaseIterable {
    /// Until the session ends.
    case temporary
    /// Stored, for later sessions.
    case persistentLicense = "persistent-license"
}
