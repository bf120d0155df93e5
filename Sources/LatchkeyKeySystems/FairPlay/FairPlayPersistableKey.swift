// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A content key that may be kept for later, and until when it may be used.
///
/// Key servers set up to three limits: the rental, after which the key ends whatever happens; the storage duration,
/// within which playback has to begin; and the playback duration, which counts from the first playback and then takes
/// the place of the storage duration (dual expiry). Times are in seconds since 1970-01-01 00:00 UTC, and come from the
/// caller. A value without side effects; prints without the key.
public struct FairPlayPersistableKey: Sendable {
    /// Clocks are corrected now and then: a key may be this many seconds younger than its own record says.
    public static let clockTolerance: UInt64 = 300

    /// What the key was asked for with.
    public let contentIdentifier: [UInt8]
    /// With the IV of the content.
    public let contentKey: ContentKey
    /// What the output needs; nil where the key server said nothing.
    public let outputRequirement: OutputRequirement?
    /// When the key server gave the key.
    public let created: UInt64
    /// When the key ends whatever happens; nil for never.
    public let rentalEnd: UInt64?
    /// Playback has to begin until then; nil for no limit.
    public let storageEnd: UInt64?
    /// In seconds from the first playback on; nil for no limit.
    public let playbackDuration: UInt32?
    /// Nil while it was never played.
    public private(set) var firstPlayback: UInt64?
    /// Grows with each change, from 1 on. Kept elsewhere, it shows that an older record was put back.
    public private(set) var revision: UInt64

    /// Takes the key of a licence that allows it.
    ///
    /// Throws `invalidResponse` where the key server does not allow it to be stored, or sent none.
    public init(license: FairPlayLicense, contentIdentifier: [UInt8], now: UInt64) throws(FairPlayError) {
        guard license.persistence != .notAllowed else {
            throw .invalidResponse("the key server does not allow the key to be stored")
        }
        guard let key = license.contentKey else {
            throw .invalidResponse("there is no content key to be stored")
        }
        func end(after seconds: Int64?) -> UInt64? { seconds.map { now.addingClamped(UInt64(clamping: $0)) } }
        let offline = license.offlineKey
        self.init(
            contentIdentifier: contentIdentifier, contentKey: key, outputRequirement: license.outputRequirement,
            created: now,
            rentalEnd: end(after: license.rentalDuration?.components.seconds),
            storageEnd: offline.flatMap { $0.storage == 0 ? nil : end(after: Int64($0.storage)) },
            playbackDuration: offline.flatMap { $0.playback == 0 ? nil : $0.playback }, firstPlayback: nil,
            revision: 1)
    }

    init(
        contentIdentifier: [UInt8], contentKey: ContentKey, outputRequirement: OutputRequirement?, created: UInt64,
        rentalEnd: UInt64?, storageEnd: UInt64?,
        playbackDuration: UInt32?, firstPlayback: UInt64?, revision: UInt64
    ) {
        self.contentIdentifier = contentIdentifier
        self.contentKey = contentKey
        self.outputRequirement = outputRequirement
        self.created = created
        self.rentalEnd = rentalEnd
        self.storageEnd = storageEnd
        self.playbackDuration = playbackDuration
        self.firstPlayback = firstPlayback
        self.revision = revision
    }

    /// When the key ends, as things stand; nil for never.
    public var expiry: UInt64? {
        var end = storageEnd
        if let firstPlayback, let playbackDuration { end = firstPlayback.addingClamped(UInt64(playbackDuration)) }
        guard let end, let rentalEnd else { return end ?? rentalEnd }
        return min(end, rentalEnd)
    }

    /// Notes that playback begins. Returns whether the record changed, so that its sealed form is to be stored again:
    /// only at the first playback, and only where the playback duration is limited.
    ///
    /// Throws what `check` throws.
    public mutating func beginPlayback(now: UInt64) throws(FairPlayError) -> Bool {
        try check(now: now)
        guard playbackDuration != nil, firstPlayback == nil else { return false }
        firstPlayback = now
        revision = revision.addingClamped(1)
        return true
    }

    /// Throws `persistableKeyExpired` at the key's end and later, and `invalidPersistableKey` where the clock stands
    /// before the last time that the record knows.
    public func check(now: UInt64) throws(FairPlayError) {
        guard now.addingClamped(Self.clockTolerance) >= max(created, firstPlayback ?? 0) else {
            throw .invalidPersistableKey("the clock was set back; set it right")
        }
        guard let expiry, now >= expiry else { return }
        throw .persistableKeyExpired("get a new one from the key server")
    }
}

extension FairPlayPersistableKey: CustomStringConvertible, CustomReflectable {
    /// Revision and end, never the key.
    public var description: String {
        "persistable key, revision \(revision)\(expiry.map { ", ends at \($0)" } ?? "")"
    }
    /// Empty: the record holds the key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension UInt64 {
    fileprivate func addingClamped(_ other: UInt64) -> UInt64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}
