// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// On which terms a key server gives a content key.
public struct FairPlayTerms: Hashable, Sendable {
    /// In seconds; nil for no lease. 0 is an answer that grants nothing.
    public var lease: UInt32?
    /// In seconds; nil for no end.
    public var rental: UInt32?
    /// Whether the client may store the key.
    public var persistence = FairPlayLicense.Persistence.notAllowed
    /// What the output needs; nil says nothing about it.
    public var outputRequirement: OutputRequirement?
    /// How long a stored key lasts.
    public var offlineKey: OfflineKeyTerms?

    /// Without arguments: the key, without limits and not to be stored.
    public init(
        lease: UInt32? = nil, rental: UInt32? = nil,
        persistence: FairPlayLicense.Persistence = .notAllowed, outputRequirement: OutputRequirement? = nil,
        offlineKey: OfflineKeyTerms? = nil
    ) {
        self.lease = lease
        self.rental = rental
        self.persistence = persistence
        self.outputRequirement = outputRequirement
        self.offlineKey = offlineKey
    }

    /// What the CKC says about time; nil where there is no limit and the key may not be stored.
    var duration: ContentKeyDuration? {
        switch (persistence, lease, rental) {
        case (.unlimited, _, _): ContentKeyDuration(kind: .persistent)
        case (.forRentalDuration, _, let rental):
            ContentKeyDuration(rental: rental ?? ContentKeyDuration.unlimited, kind: .persistentForRental)
        case (.notAllowed, let lease?, let rental?):
            ContentKeyDuration(lease: lease, rental: rental, kind: .leaseAndRental)
        case (.notAllowed, let lease?, nil): ContentKeyDuration(lease: lease, kind: .lease)
        case (.notAllowed, nil, let rental?): ContentKeyDuration(rental: rental, kind: .rental)
        case (.notAllowed, nil, nil): nil
        }
    }
}
