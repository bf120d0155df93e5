// SPDX-License-Identifier: MPL-2.0

import KeySystems
import ProtectionModel

extension KeyAnswer {
    /// The keys, opened as `keySystem` says. Nil opens a licence as W3C Clear Key's, the one format without a system's
    /// own exchange.
    func keys(for keySystem: KeySystem?) throws(KeyError) -> KeySessionState.Keys {
        switch self {
        case .keys(let keys):
            return KeySessionState.Keys(byID: keys)
        case .key(let key):
            return KeySessionState.Keys(withoutID: key)
        case .license(let bytes):
            guard keySystem ?? .clearKey == .clearKey else {
                throw .malformedRequest(
                    "a \(keySystem?.rawValue ?? "") licence cannot be opened here; answer with keys")
            }
            return KeySessionState.Keys(byID: try ClearKey.keys(inLicense: bytes))
        case .limited(let answer, let terms):
            var keys = try answer.keys(for: keySystem)
            if keys.terms == nil { keys.terms = terms }
            return keys
        }
    }
}
