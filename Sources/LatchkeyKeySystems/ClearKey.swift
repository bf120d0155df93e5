// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
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
        guard JSONNesting.isBounded(body),
            let object = try? JSONDecoder().decode(License.self, from: Data(body))
        else {
            throw .malformedResponse("the body is no ClearKey license: no JSON object with a list “keys”")
        }
        guard !object.isTooLong else {
            throw .malformedResponse("a ClearKey license with more than \(maximumCount) keys")
        }
        var keys: [KeyID: ContentKey] = [:]
        for (position, entry) in object.keys.enumerated() where entry.kty == nil || entry.kty == "oct" {
            guard let keyID = entry.kid.flatMap({ Base64.decode($0) }).flatMap({ KeyID($0) }) else {
                throw .malformedResponse("key \(position) of the ClearKey license has no KID of 16 bytes in Base64")
            }
            guard var bytes = entry.k.flatMap({ Base64.decode($0) }) else {
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
    private enum CodingKeys: String, CodingKey {
        case keys, kty, kid, k
    }

    private struct License: Decodable {
        var keys: [Entry] = []
        var isTooLong = false

        init(from decoder: any Decoder) throws {
            var list = try decoder.container(keyedBy: CodingKeys.self).nestedUnkeyedContainer(forKey: .keys)
            while !list.isAtEnd, !isTooLong {
                keys.append(try list.decode(Entry.self))
                isTooLong = keys.count > ClearKey.maximumCount
            }
        }
    }

    /// One JSON Web Key. Members of a wrong type count as absent, so that a key of another kind does no harm.
    private struct Entry: Decodable {
        var kty: String?
        var kid: String?
        var k: String?

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            kty = try? members.decode(String.self, forKey: .kty)
            kid = try? members.decode(String.self, forKey: .kid)
            k = try? members.decode(String.self, forKey: .k)
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
