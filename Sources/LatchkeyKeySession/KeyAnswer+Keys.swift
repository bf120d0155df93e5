// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

extension KeyAnswer {
    /// The keys, opened by the exchange of `request`, else as `keySystem` says. Nil opens a licence as W3C Clear Key's,
    /// the one format without a system's own exchange.
    func keys(for keySystem: KeySystem?, of request: KeyLoadingRequest?) throws(KeyError) -> KeySessionState.Keys {
        switch self {
        case .keys(let keys):
            return KeySessionState.Keys(byID: keys)
        case .key(let key):
            return KeySessionState.Keys(withoutID: key)
        case .license(let bytes):
            if let request, let license = try request.open(keyVendorResponse: bytes) { return try license.keys() }
            guard keySystem ?? .clearKey == .clearKey else {
                throw .malformedRequest(
                    "a \(keySystem?.rawValue ?? "") licence cannot be opened here; answer with keys"
                        + (keySystem == .fairPlay ? ", or make the SPC with the request" : ""))
            }
            return KeySessionState.Keys(byID: try ClearKey.keys(inLicense: bytes))
        case .persistableKey(let bytes):
            guard let request else { throw .malformedRequest("a stored key answers a loader's request only") }
            return try request.open(persistableKey: bytes)
        case .limited(let answer, let terms):
            var keys = try answer.keys(for: keySystem, of: request)
            if keys.terms == nil { keys.terms = terms }
            return keys
        }
    }
}
