// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// The form in which a license service takes the server playback context (SPC).
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
        /// Whether it is left out if the configuration lacks the parameter that `value` names.
        public var isOptional: Bool

        /// `name` is escaped when the text is written; nothing is filled into it.
        public init(_ name: String, _ value: JSON, isOptional: Bool = false) {
            self.name = name
            self.value = value
            self.isOptional = isOptional
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
            for member in members {
                if member.isOptional, case .string(.parameter(let name)) = member.value, values.parameters[name] == nil
                {
                    continue
                }
                texts.append("\(Self.quote(member.name)):\(try member.value.text(values))")
            }
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

/// Where a license service is asked: a URL to start from, and what goes into its path and query.
public struct LicenseRequestURL: Sendable, Hashable {
    /// The URL to start from.
    public enum Base: Sendable, Hashable {
        /// The configured one.
        case configured
        /// The key URI, with `https` in place of its scheme.
        case keyURI
        /// The configured one, or the key URI where none is configured.
        case configuredOrKeyURI
    }

    /// A parameter of the query.
    public struct QueryItem: Sendable, Hashable {
        /// The name; it is percent-encoded.
        public var name: String
        /// What goes there; it is percent-encoded.
        public var value: LicenseRequestValue
        /// Whether it is left out if the configuration lacks the parameter that `value` names.
        public var isOptional: Bool

        /// Both are percent-encoded when the URL is made.
        public init(_ name: String, _ value: LicenseRequestValue, isOptional: Bool = false) {
            self.name = name
            self.value = value
            self.isOptional = isOptional
        }
    }

    /// The URL that the rest changes.
    public var base: Base
    /// In place of an empty path, or of any path where `replacesPath` is set. Starts with `/`.
    public var path: String?
    /// Whether `path` takes the place of any path.
    public var replacesPath: Bool
    /// Behind the path, percent-encoded, with slashes between them.
    public var pathItems: [LicenseRequestValue]
    /// Behind the query that the URL has, names and values percent-encoded.
    public var query: [QueryItem]
    /// The same, for keys that are to be stored.
    public var persistentQuery: [QueryItem]

    /// Without arguments: the configured URL as it is.
    public init(
        _ base: Base = .configured, path: String? = nil, replacesPath: Bool = false,
        pathItems: [LicenseRequestValue] = [], query: [QueryItem] = [], persistentQuery: [QueryItem] = []
    ) {
        self.base = base
        self.path = path
        self.replacesPath = replacesPath
        self.pathItems = pathItems
        self.query = query
        self.persistentQuery = persistentQuery
    }

    /// Whether the configuration, and not the media, chooses the server. Credentials go to no other.
    func isTrusted(configured: String?) -> Bool {
        switch base {
        case .configured: true
        case .keyURI: false
        case .configuredOrKeyURI: configured != nil
        }
    }

    /// The URL for one request. `{content-id}` and `{parameter}` in a configured URL are replaced by their values,
    /// percent-encoded. Throws what `LicenseRequestValues.text(of:)` throws, and `invalidConfiguration` without a URL.
    func text(
        configured: String?, values: LicenseRequestValues, scheme: String, isPersistent: Bool
    ) throws(KeyError) -> String {
        var parts = URLParts(try start(configured, values, scheme))
        if let path, replacesPath || parts.path.isEmpty || parts.path == "/" { parts.path = path }
        if replacesPath { parts.query = nil }
        for item in pathItems {
            if !parts.path.hasSuffix("/") { parts.path += "/" }
            parts.path += PercentEncoding.encode(try values.text(of: item))
        }
        for item in query + (isPersistent ? persistentQuery : []) {
            if item.isOptional, case .parameter(let name) = item.value, values.parameters[name] == nil { continue }
            let text = "\(PercentEncoding.encode(item.name))=\(PercentEncoding.encode(try values.text(of: item.value)))"
            let present = parts.query ?? ""
            parts.query = present.isEmpty || present.hasSuffix("&") ? present + text : "\(present)&\(text)"
        }
        return parts.text
    }

    private func start(
        _ configured: String?, _ values: LicenseRequestValues, _ scheme: String
    ) throws(KeyError) -> String {
        if base != .keyURI, let configured { return try Self.expand(configured, values) }
        guard base != .configured else {
            throw .invalidConfiguration("\(values.service) wants the key server's URL; set it in the configuration")
        }
        guard let url = values.keyURI.url(scheme: scheme) else {
            throw .malformedRequest("\(values.keyURI.printable) names no server; configure the key server's URL")
        }
        return url
    }

    private static func expand(_ url: String, _ values: LicenseRequestValues) throws(KeyError) -> String {
        var result = ""
        var rest = url[...]
        while let open = rest.utf8.firstIndex(of: UInt8(ascii: "{")),
            let close = rest[open...].utf8.firstIndex(of: UInt8(ascii: "}"))
        {
            let name = String(rest[rest.utf8.index(after: open)..<close])
            let value = name == "content-id" ? LicenseRequestValue.contentIdentifier : .parameter(name)
            result += rest[..<open] + PercentEncoding.encode(try values.text(of: value))
            rest = rest[rest.utf8.index(after: close)...]
        }
        return result + rest
    }
}

/// A URL cut at its path and its query, to be put together again byte for byte. A fragment is dropped.
private struct URLParts {
    /// Scheme and authority.
    var front: String
    var path: String
    var query: String?

    init(_ text: String) {
        let whole = text.utf8.prefix { $0 != UInt8(ascii: "#") }
        let mark = whole.firstIndex(of: UInt8(ascii: "?"))
        query = mark.map { String(Substring(whole[whole.index(after: $0)...])) }
        let before = whole[..<(mark ?? whole.endIndex)]
        var authority = before.startIndex
        if let colon = before.firstIndex(of: UInt8(ascii: ":")), before[colon...].starts(with: "://".utf8) {
            authority = before.index(colon, offsetBy: 3)
        }
        let slash = before[authority...].firstIndex(of: UInt8(ascii: "/")) ?? before.endIndex
        front = String(Substring(before[..<slash]))
        path = String(Substring(before[slash...]))
    }

    var text: String { front + path + (query.map { "?\($0)" } ?? "") }
}

/// A value that a license service wants in a request's URL, headers or body.
public enum LicenseRequestValue: Sendable, Hashable {
    /// The server playback context, in Base64.
    case spc
    /// The content identifier, as UTF-8.
    case contentIdentifier
    /// The whole key URI.
    case keyURI
    /// A parameter of the key URI's query, percent-decoded.
    case keyURIParameter(String)
    /// A parameter of the configuration: a token, an account, a site.
    case parameter(String)
    /// This text.
    case text(String)
}

/// What the values of one request are made of.
struct LicenseRequestValues {
    let service: String
    let keyURI: KeyURI
    let contentIdentifier: [UInt8]
    let spc: [UInt8]
    /// Empty unless `isTrusted`.
    let parameters: [String: String]
    /// Whether the configuration names the server. Another one gets no parameter, which may be a credential.
    let isTrusted: Bool

    /// Throws `invalidConfiguration` where the configuration lacks a parameter, `denied` where the server may not have it,
    /// `malformedRequest` where the key URI lacks one.
    func text(of value: LicenseRequestValue) throws(KeyError) -> String {
        switch value {
        case .spc: return Base64.encode(spc)
        case .contentIdentifier:
            guard let text = String(validating: contentIdentifier, as: UTF8.self) else {
                throw .malformedRequest(
                    "the content identifier of \(keyURI.printable) is no UTF-8, and \(service) wants it as text")
            }
            return text
        case .keyURI: return keyURI.text
        case .keyURIParameter(let name):
            guard let text = keyURI.parameter(name) else {
                throw .malformedRequest("\(keyURI.printable) has no parameter “\(name)”, which \(service) wants")
            }
            return text
        case .parameter(let name):
            guard isTrusted else { throw Self.parameterIsDenied(name, to: service) }
            guard let text = parameters[name] else {
                throw .invalidConfiguration("\(service) wants the parameter “\(name)”; set it in the configuration")
            }
            return text
        case .text(let text): return text
        }
    }

    /// `service` would have to send the parameter to a server that the media names.
    static func parameterIsDenied(_ name: String, to service: String) -> KeyError {
        .denied(
            "\(service) wants the parameter “\(name)”, which goes only to a server that the configuration names; name the "
                + "key server there")
    }
}
