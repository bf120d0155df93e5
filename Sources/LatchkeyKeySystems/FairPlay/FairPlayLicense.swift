// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What a CKC grants. Prints without the key.
public struct FairPlayLicense: Sendable {
    /// Whether the key may be stored.
    public enum Persistence: Hashable, Sendable {
        /// In memory only, as long as the session.
        case notAllowed
        /// Without an end of its own.
        case unlimited
        /// As long as the rental duration.
        case forRentalDuration
    }

    /// With the IV of the content. Nil only where the request did not need a key: a lease that is renewed while it has
    /// time left, or given back.
    public let contentKey: ContentKey?
    /// Whether it came with this project's code over the whole message, so that nobody changed it on its way.
    public let hasIntegrity: Bool
    /// The key is to be used no longer than this from the request on, unless the lease is renewed. Nil: no lease.
    public let leaseDuration: Duration?
    /// Playback is to start no later than this from the request on; with `.forRentalDuration`, a stored key ends then.
    /// Nil: no end.
    public let rentalDuration: Duration?
    /// Whether the key may be stored.
    public let persistence: Persistence
    /// What the output needs. Nil where the key server says nothing; Apple's players take HDCP type 0 then.
    public let outputRequirement: OutputRequirement?
    /// How long a stored key lasts, where storage and playback have ends of their own.
    public let offlineKey: OfflineKeyTerms?
    /// The blocks that the request wanted back.
    public let returnedBlocks: [TLLV]
    /// Blocks that are not known here.
    public let otherBlocks: [TLLV]

    /// The IV of the content, which comes with the key.
    public var initializationVector: InitializationVector? { contentKey?.initializationVector }
}

extension FairPlayLicense: CustomStringConvertible, CustomReflectable {
    /// What is granted, with the key as `<redacted>`.
    public var description: String {
        var parts = [contentKey == nil ? "no content key" : "content key <redacted>"]
        if let leaseDuration { parts.append("lease \(leaseDuration)") }
        if let rentalDuration { parts.append("rental \(rentalDuration)") }
        if persistence != .notAllowed { parts.append("may be stored") }
        if let outputRequirement { parts.append("output \(outputRequirement)") }
        return parts.joined(separator: ", ")
    }

    /// Empty, so that `dump` shows neither the key nor blocks that came back.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
