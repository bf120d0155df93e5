// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// How the content identifier is read out of a key URI. Services differ in nothing as much as in this.
///
/// Data: a preset names one, and a configuration can replace it.
public indirect enum ContentIdentifierRule: Sendable, Hashable {
    /// The whole URI, with its scheme.
    case keyURI
    /// All behind `skd:` or `skd://`.
    case afterScheme
    /// Behind the scheme, up to the first `?`.
    case beforeQuery
    /// All behind the first `?`, as it is written.
    case query
    /// The value of one parameter of the query, percent-decoded.
    case queryParameter(String)
    /// The URI's domain.
    case host
    /// Behind the last `/` before the query.
    case lastPathComponent
    /// Behind the last occurrence of a separator.
    case afterLast(String)
    /// What stands behind the scheme, where all of it is Base64 in whole groups of four. Kept encoded.
    case base64Text
    /// What another rule gives, decoded from Base64.
    case base64Decoded(ContentIdentifierRule)
    /// The whole URI with a text replaced by one of the service's parameters.
    case replacing(String, parameter: String)
    /// One that the application knows already.
    case fixed(String)
    /// The first of several rules that gives something.
    case firstOf([ContentIdentifierRule])

    /// The identifier's bytes; nil where the URI has none in this place, or an empty one.
    public func contentIdentifier(in uri: KeyURI, parameters: [String: String] = [:]) -> [UInt8]? {
        let text: String? =
            switch self {
            case .keyURI: uri.text
            case .afterScheme: uri.afterScheme
            case .beforeQuery: uri.beforeQuery
            case .query: uri.query
            case .queryParameter(let name): uri.parameter(name)
            case .host: uri.host
            case .lastPathComponent: uri.lastPathComponent
            case .afterLast(let separator): Self.behindLast(separator, in: uri.text)
            case .base64Text: uri.afterScheme.utf8.count % 4 == 0 ? uri.afterScheme : nil
            case .replacing(let text, let name): parameters[name].map { Self.replace(text, in: uri.text, by: $0) }
            case .fixed(let text): text
            case .base64Decoded, .firstOf: nil
            }
        switch self {
        case .base64Decoded(let rule):
            return rule.contentIdentifier(in: uri, parameters: parameters)
                .flatMap { String(validating: $0, as: UTF8.self) }.flatMap { Base64.decode($0) }
                .flatMap { $0.isEmpty ? nil : $0 }
        case .firstOf(let rules):
            for rule in rules {
                if let found = rule.contentIdentifier(in: uri, parameters: parameters) { return found }
            }
            return nil
        case .base64Text:
            guard let text, Base64.decode(text) != nil else { return nil }
        default: break
        }
        guard let text, !text.isEmpty else { return nil }
        return Array(text.utf8)
    }

    /// The parameter that the identifier would have in it, the first if there are several. Nil: it needs none.
    var parameterName: String? {
        switch self {
        case .replacing(_, let name): name
        case .base64Decoded(let rule): rule.parameterName
        case .firstOf(let rules): rules.lazy.compactMap(\.parameterName).first
        default: nil
        }
    }

    private static func behindLast(_ separator: String, in text: String) -> String? {
        let pattern = Array(separator.utf8)
        let bytes = Array(text.utf8)
        guard !pattern.isEmpty, pattern.count <= bytes.count else { return nil }
        for start in stride(from: bytes.count - pattern.count, through: 0, by: -1)
        where bytes[start..<(start + pattern.count)].elementsEqual(pattern) {
            return String(decoding: bytes[(start + pattern.count)...], as: UTF8.self)
        }
        return nil
    }

    private static func replace(_ pattern: String, in text: String, by replacement: String) -> String {
        let pattern = Array(pattern.utf8)
        guard !pattern.isEmpty else { return text }
        var result: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            if rest.starts(with: pattern) {
                result += Array(replacement.utf8)
                rest = rest.dropFirst(pattern.count)
            } else {
                result.append(rest.removeFirst())
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
