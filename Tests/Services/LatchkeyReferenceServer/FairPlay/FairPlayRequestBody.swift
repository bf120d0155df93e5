// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import FoundationEssentials
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

/// An SPC in one of the forms in which applications send it.
struct FairPlayRequestBody: Equatable {
    /// The most bytes of a body that are read.
    static let maximumSize = SPCContainer.maximumSize * 2

    var spc: [UInt8]
    /// What the body says besides, if it does.
    var assetIdentifier: String?

    private struct Object: Decodable {
        var spc: String
        var assetId: String?
    }

    /// `contentType` may have parameters. Without one, and for a type that is not known, the bytes decide. What starts
    /// with a zero is an SPC whatever the type says.
    ///
    /// Forms: the bytes of the SPC (`application/octet-stream`); `spc=…&assetId=…`, with the SPC in Base64 and escaped
    /// or not (`application/x-www-form-urlencoded`); `{"spc":"…","assetId":"…"}` (`application/json`); Base64 alone
    /// (`text/plain`).
    init(_ body: [UInt8], contentType: String?) throws(FairPlayServerError) {
        let type = contentType?.split(separator: ";").first?.trimmed().lowercased()
        // An SPC starts with its version, which is below 2^24; text has no zeros. curl calls every body a form.
        if body.first == 0 || type == "application/octet-stream" {
            self.init(spc: body)
            return
        }
        switch type {
        case "application/x-www-form-urlencoded": try self.init(form: body)
        case "application/json": try self.init(json: body)
        case "text/plain": try self.init(base64: body)
        default:
            if body.first == UInt8(ascii: "{") {
                try self.init(json: body)
            } else if body.starts(with: "spc=".utf8) || body.contains(UInt8(ascii: "&")) {
                try self.init(form: body)
            } else {
                try self.init(base64: body)
            }
        }
    }

    private init(spc: [UInt8], assetIdentifier: String? = nil) {
        self.spc = spc
        self.assetIdentifier = assetIdentifier
    }

    private init(base64 body: [UInt8]) throws(FairPlayServerError) {
        self.init(spc: try Self.decode(String(decoding: body, as: UTF8.self)))
    }

    private init(json body: [UInt8]) throws(FairPlayServerError) {
        guard JSONNesting.isBounded(body), let object = try? JSONDecoder().decode(Object.self, from: Data(body)) else {
            throw .malformedRequest("the body is no JSON object with a text “spc”")
        }
        self.init(spc: try Self.decode(object.spc), assetIdentifier: object.assetId)
    }

    private init(form body: [UInt8]) throws(FairPlayServerError) {
        var fields: [String: String] = [:]
        for field in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first.map(String.init), parts.count == 2,
                let value = PercentEncoding.decodeText(parts[1])
            else { throw .malformedRequest("the body is no form with a field “spc”") }
            guard fields.updateValue(value, forKey: name) == nil else {
                throw .invalidParameter("the form has the field “\(name)” twice")
            }
        }
        // A plus sign stays one: in Base64 that was not escaped it is a digit.
        guard let text = fields["spc"] else { throw .malformedRequest("the body is no form with a field “spc”") }
        self.init(spc: try Self.decode(text), assetIdentifier: fields["assetId"])
    }

    private static func decode(_ text: String) throws(FairPlayServerError) -> [UInt8] {
        guard let bytes = Base64.decode(text.filter { !$0.isWhitespace }) else {
            throw .malformedRequest("the SPC is not in Base64")
        }
        return bytes
    }
}
