// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// What answers a key request. Prints without keys and without the license's bytes.
public indirect enum KeyAnswer: Sendable {
    /// Content keys by KID. All are installed, also those that the request did not name. For media without a KID, the
    /// only key is the one.
    case keys([KeyID: ContentKey])
    /// One content key without a KID, for a request that names no KID or just one.
    case key(ContentKey)
    /// The license service's response as it came. The request's key system opens it.
    case license([UInt8])
    /// A stored key, as `KeyLoadingRequest.persistableContentKey(fromKeyVendorResponse:)` made it.
    case persistableKey([UInt8])
    /// Another answer, whose keys may be used on these terms. A license that brings terms of its own keeps those.
    case limited(KeyAnswer, KeyTerms)
}

extension KeyAnswer: Redacted {
    /// The KIDs, or the size of what came. Never keys.
    public var description: String {
        switch self {
        case .keys(let keys): "keys \(keys.keys.map(\.description).sorted().joined(separator: ", "))"
        case .key: "one key"
        case .license(let bytes): "license of \(bytes.count) bytes"
        case .persistableKey(let bytes): "stored key of \(bytes.count) bytes"
        case .limited(let answer, _): "\(answer.description), limited"
        }
    }
}

extension KeyAnswer {
    /// The keys, opened by the exchange of `request`, else as `keySystem` says. Nil opens a license as W3C Clear Key's,
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
                    "a \(keySystem?.rawValue ?? "") license cannot be opened here; answer with keys"
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

/// For how long, and in front of which outputs, keys may be used, as the license says. Times count from the moment the
/// keys were asked for.
public struct KeyTerms: Sendable, Hashable {
    /// The session renews it ahead of its end; without a renewal the keys are unusable from then on. Nil: no lease.
    public var lease: Duration?
    /// The use has to begin within this time. Nil: no end.
    public var rental: Duration?
    /// The keys are unusable from then on, and there is no renewal. Nil: no end.
    public var expiry: Duration?
    /// Nil: the license says nothing.
    public var outputRequirement: OutputRequirement?
    /// What the license of each key says of outputs, in full, where it says anything. What these want of a digital video
    /// link counts for their keys in the place of `outputRequirement`.
    public var outputPolicies: [KeyID: OutputPolicy] = [:]
    /// Of keys whose license counts from a first play that is not written down yet.
    var playNotes: [KeyID: PlayNote] = [:]

    /// Without arguments: no limits. Durations count from the request on.
    public init(
        lease: Duration? = nil, rental: Duration? = nil, expiry: Duration? = nil,
        outputRequirement: OutputRequirement? = nil
    ) {
        self.lease = lease
        self.rental = rental
        self.expiry = expiry
        self.outputRequirement = outputRequirement
    }

    /// When the keys are unusable; nil: never.
    var end: Duration? {
        guard let lease else { return expiry }
        return expiry.map { min($0, lease) } ?? lease
    }

    /// Where the answer brings one key and one license, that is the key's, whatever its name.
    func policy(of keyID: KeyID?, amongKeys count: Int) -> OutputPolicy? {
        if let keyID, let policy = outputPolicies[keyID] { return policy }
        return count == 1 && outputPolicies.count == 1 ? outputPolicies.first?.value : nil
    }

    func requirement(of keyID: KeyID?, amongKeys count: Int) -> OutputRequirement? {
        policy(of: keyID, amongKeys: count)?.requirement ?? outputRequirement
    }

    func playNote(of keyID: KeyID?, amongKeys count: Int) -> PlayNote? {
        if let keyID, let note = playNotes[keyID] { return note }
        return count == 1 && playNotes.count == 1 ? playNotes.first?.value : nil
    }

    var isLimited: Bool { end != nil || rental != nil }

    /// Whether no time is left after so much.
    func isOver(after elapsed: Duration) -> Bool {
        [lease, rental, expiry].contains { $0.map { $0 <= elapsed } ?? false }
    }
}
