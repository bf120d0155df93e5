// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// For how long, and in front of which outputs, keys may be used, as the licence says. Times count from the moment the
/// keys were asked for.
public struct KeyTerms: Sendable, Hashable {
    /// The session renews it ahead of its end; without a renewal the keys are unusable from then on. Nil: no lease.
    public var lease: Duration?
    /// The use has to begin within this time. Nil: no end.
    public var rental: Duration?
    /// The keys are unusable from then on, and there is no renewal. Nil: no end.
    public var expiry: Duration?
    /// Nil: the licence says nothing.
    public var outputRequirement: OutputRequirement?
    /// What the licence of each key says of outputs, in full, where it says anything. What these want of a digital video
    /// link counts for their keys in the place of `outputRequirement`.
    public var outputPolicies: [KeyID: OutputPolicy] = [:]

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

    /// Where the answer brings one key and one licence, that is the key's, whatever its name.
    func policy(of keyID: KeyID?, amongKeys count: Int) -> OutputPolicy? {
        if let keyID, let policy = outputPolicies[keyID] { return policy }
        return count == 1 && outputPolicies.count == 1 ? outputPolicies.first?.value : nil
    }

    func requirement(of keyID: KeyID?, amongKeys count: Int) -> OutputRequirement? {
        policy(of: keyID, amongKeys: count)?.requirement ?? outputRequirement
    }

    var isLimited: Bool { end != nil || rental != nil }

    /// Whether no time is left after so much.
    func isOver(after elapsed: Duration) -> Bool {
        [lease, rental, expiry].contains { $0.map { $0 <= elapsed } ?? false }
    }
}
