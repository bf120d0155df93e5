// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// A value that a licence service wants in a request's URL, headers or body.
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
    let parameters: [String: String]

    /// Throws `invalidConfiguration` where the configuration lacks a parameter, `malformedRequest` where the key URI
    /// does.
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
            guard let text = parameters[name] else {
                throw .invalidConfiguration("\(service) wants the parameter “\(name)”; set it in the configuration")
            }
            return text
        case .text(let text): return text
        }
    }
}
