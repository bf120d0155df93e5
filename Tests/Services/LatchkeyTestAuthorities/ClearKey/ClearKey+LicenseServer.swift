// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection

extension ClearKey {
    /// The license with `keys`, in the order of the KIDs. It holds the keys readable: the caller wipes it.
    package static func license(for keys: [KeyID: ContentKey], type: SessionType = .temporary) -> [UInt8] {
        let sorted = keys.sorted { $0.key.description < $1.key.description }
        let list = sorted.map { keyID, key in
            let value = key.withBytes { Base64.encodeURLSafe($0) }
            return "{\"kty\":\"oct\",\"kid\":\"\(Base64.encodeURLSafe(keyID.bytes))\",\"k\":\"\(value)\"}"
        }
        return Array("{\"keys\":[\(list.joined(separator: ","))],\"type\":\"\(type.rawValue)\"}".utf8)
    }

    /// The KIDs of a license request, in its order, repeats included.
    ///
    /// Throws `malformedRequest` if the body is no request, is above the limits, names no KID or one that is not 16
    /// bytes long.
    package static func keyIDs(inLicenseRequest body: [UInt8]) throws(KeyError) -> [KeyID] {
        guard body.count <= maximumSize else {
            throw .malformedRequest("a ClearKey request of \(body.count) bytes; \(maximumSize) are read")
        }
        guard JSONNesting.isBounded(body),
            let object = try? JSONDecoder().decode(LicenseRequest.self, from: Data(body))
        else {
            throw .malformedRequest("the body is no ClearKey request: no JSON object with a list “kids” of texts")
        }
        guard !object.isTooLong else { throw .malformedRequest("a ClearKey request with over \(maximumCount) KIDs") }
        guard !object.kids.isEmpty else { throw .malformedRequest("a ClearKey request without KIDs") }
        var keyIDs: [KeyID] = []
        for (position, text) in object.kids.enumerated() {
            guard let keyID = Base64.decode(text).flatMap({ KeyID($0) }) else {
                throw .malformedRequest("KID \(position) of the ClearKey request is not 16 bytes in Base64")
            }
            keyIDs.append(keyID)
        }
        return keyIDs
    }
}

private struct LicenseRequest: Decodable {
    enum CodingKeys: String, CodingKey { case kids }

    var kids: [String] = []
    var isTooLong = false

    init(from decoder: any Decoder) throws {
        var list = try decoder.container(keyedBy: CodingKeys.self).nestedUnkeyedContainer(forKey: .kids)
        while !list.isAtEnd, !isTooLong {
            kids.append(try list.decode(String.self))
            isTooLong = kids.count > ClearKey.maximumCount
        }
    }
}
