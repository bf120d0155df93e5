// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// The form in which a licence service takes the server playback context (SPC).
public enum LicenseRequestBody: Sendable, Hashable {
    /// The SPC's bytes.
    case raw
    /// Fields as an HTML form sends them.
    case form([FormField])
    /// A JSON text (RFC 8259).
    case json(JSON)

    /// A field of a form (`application/x-www-form-urlencoded`).
    public enum FormField: Sendable, Hashable {
        /// `isEncoded`: the value percent-encoded. Some services want it as it is. `LicenseService.encodesFormFields` says
        /// otherwise.
        case field(String, LicenseRequestValue, isEncoded: Bool)
        /// The key URI's query, as it is written.
        case keyURIQuery
    }

    /// A JSON text with values to fill in. Members stay in order.
    public indirect enum JSON: Sendable, Hashable {
        /// Members in the order of the text.
        case object([Member])
        /// Values in the order of the text.
        case array([JSON])
        /// As it is, without quotes.
        case number(Int)
        /// Filled in, then escaped.
        case string(LicenseRequestValue)
    }

    /// A member of a JSON object, in its place.
    public struct Member: Sendable, Hashable {
        /// The name, as it is.
        public var name: String
        /// What goes there.
        public var value: JSON

        /// `name` is escaped when the text is written; nothing is filled into it.
        public init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// The value of the Content-Type field.
    public var contentType: String {
        switch self {
        case .raw: "application/octet-stream"
        case .form: "application/x-www-form-urlencoded"
        case .json: "application/json"
        }
    }

    func bytes(_ values: LicenseRequestValues, encodesFormFields: Bool? = nil) throws(KeyError) -> [UInt8] {
        switch self {
        case .raw: return values.spc
        case .form(let fields):
            var parts: [String] = []
            for field in fields {
                switch field {
                case .field(let name, let value, let isEncoded):
                    let text = try values.text(of: value)
                    parts.append("\(name)=\(encodesFormFields ?? isEncoded ? PercentEncoding.encode(text) : text)")
                case .keyURIQuery:
                    if let query = values.keyURI.query, !query.isEmpty { parts.append(query) }
                }
            }
            return Array(parts.joined(separator: "&").utf8)
        case .json(let json): return Array(try json.text(values).utf8)
        }
    }
}

extension LicenseRequestBody.JSON {
    fileprivate func text(_ values: LicenseRequestValues) throws(KeyError) -> String {
        switch self {
        case .number(let number): return "\(number)"
        case .string(let value): return Self.quote(try values.text(of: value))
        case .array(let items):
            var texts: [String] = []
            for item in items { texts.append(try item.text(values)) }
            return "[\(texts.joined(separator: ","))]"
        case .object(let members):
            var texts: [String] = []
            for member in members { texts.append("\(Self.quote(member.name)):\(try member.value.text(values))") }
            return "{\(texts.joined(separator: ","))}"
        }
    }

    /// RFC 8259, 7.
    static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20: quoted += "\\u00" + Hex.encode([UInt8(scalar.value)])
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
