// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What answers a key request. Prints without keys and without the licence's bytes.
public indirect enum KeyAnswer: Sendable {
    /// Content keys by KID. All are installed, also those that the request did not name. For media without a KID, the
    /// only key is the one.
    case keys([KeyID: ContentKey])
    /// One content key without a KID, for a request that names no KID or just one.
    case key(ContentKey)
    /// The licence service's response as it came. The request's key system opens it.
    case license([UInt8])
    /// A stored key, as `KeyLoadingRequest.persistableContentKey(fromKeyVendorResponse:)` made it.
    case persistableKey([UInt8])
    /// Another answer, whose keys may be used on these terms. A licence that brings terms of its own keeps those.
    case limited(KeyAnswer, KeyTerms)
}

extension KeyAnswer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The KIDs, or the size of what came. Never keys.
    public var description: String {
        switch self {
        case .keys(let keys): "keys \(keys.keys.map(\.description).sorted().joined(separator: ", "))"
        case .key: "one key"
        case .license(let bytes): "licence of \(bytes.count) bytes"
        case .persistableKey(let bytes): "stored key of \(bytes.count) bytes"
        case .limited(let answer, _): "\(answer.description), limited"
        }
    }

    /// The same: a debugger shows no key either.
    public var debugDescription: String { description }
    /// Empty, so that `dump` shows no key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
