// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// When licenses were first used for playing, by the trusted clock. What that means for their rights, `RightsStatus` says.
///
/// Thread-safe; nothing blocks.
public final class FirstPlays: Sendable {
    private let clock: TrustedClock
    private let store: LicenseStore
    /// Of licenses that are not persistent.
    private let marks = Mutex<[RecordID: UnixTime]>([:])

    /// Reads nothing yet.
    public init(clock: TrustedClock, store: LicenseStore) {
        self.clock = clock
        self.store = store
    }

    /// Notes that a license is used for playing: called before the first sample is decrypted that the pipeline is to play,
    /// and neither for `inspect` nor for preroll of a pipeline that stays in PAUSED. Returns the time that stands: a second
    /// call changes nothing.
    ///
    /// The mark of a persistent license is on disk when the call returns, and outlives the license: the same license
    /// installed again goes on where it was. Throws the errors of the store, for a persistent license alone.
    @discardableResult
    public func markFirstPlay(
        for license: RecordID, isPersistent: Bool = true
    ) async throws(LicenseStoreError) -> UnixTime {
        try await markFirstPlay(for: Names(noted: [license]), isPersistent: isPersistent)
    }

    /// The same for a license that has several names: the earliest play stands.
    @discardableResult
    func markFirstPlay(for names: Names, isPersistent: Bool) async throws(LicenseStoreError) -> UnixTime {
        let now = clock.now().time
        guard isPersistent else {
            return marks.withLock { marks in
                let mark = names.all.compactMap { marks[$0] }.min() ?? now
                for name in names.noted where marks[name] == nil { marks[name] = mark }
                return mark
            }
        }
        return try await store.markFirstPlay(for: names, at: now)
    }

    /// When a license was first used for playing; nil where it was not. Throws the errors of the store.
    public func firstPlay(of license: RecordID) async throws(LicenseStoreError) -> UnixTime? {
        try await firstPlay(of: Names(noted: [license]))
    }

    /// The same for a license that has several names: the earliest play.
    func firstPlay(of names: Names) async throws(LicenseStoreError) -> UnixTime? {
        let held = marks.withLock { marks in names.all.compactMap { marks[$0] }.min() }
        if let held { return held }
        return try await store.firstPlay(of: names)
    }

    /// Forgets the first plays of licenses that are not persistent, at the end of their session.
    public func forget(_ licenses: some Sequence<RecordID>) {
        marks.withLock { marks in
            for license in licenses { marks[license] = nil }
        }
    }
}

extension FirstPlays {
    /// What the first play of one license is known by.
    struct Names: Sendable {
        /// It is noted under each of these.
        var noted: [RecordID]
        /// A play that is noted under one of these counts too.
        var others: [RecordID] = []

        fileprivate var all: [RecordID] { noted + others }
    }
}

extension LicenseStore {
    /// Notes when a license was first used for playing, unless it was noted before; returns the time that stands. On
    /// disk when the call returns. Throws `recordUnreadable` where the mark cannot be read, and the errors of
    /// `transaction`.
    public func markFirstPlay(for license: RecordID, at time: UnixTime) throws(LicenseStoreError) -> UnixTime {
        try markFirstPlay(for: FirstPlays.Names(noted: [license]), at: time)
    }

    /// The same for a license that has several names: the earliest play stands.
    func markFirstPlay(for names: FirstPlays.Names, at time: UnixTime) throws(LicenseStoreError) -> UnixTime {
        try transaction { transaction throws(LicenseStoreError) in
            let mark = try Self.firstPlay(of: names, in: transaction) ?? time
            var payload: [UInt8] = []
            payload.appendBigEndian(UInt64(bitPattern: mark.seconds), size: 8)
            for name in names.noted {
                if try Self.firstPlay(of: name, in: transaction) != nil { continue }
                try transaction.put(
                    LicenseRecord(id: Self.markID(name), kind: .firstPlay, contentID: name.bytes, payload: payload))
            }
            return mark
        }
    }

    /// When a license was first used for playing; nil where it was not. Throws `recordUnreadable` where the mark cannot
    /// be read, and the errors of `read`.
    public func firstPlay(of license: RecordID) throws(LicenseStoreError) -> UnixTime? {
        try firstPlay(of: FirstPlays.Names(noted: [license]))
    }

    /// The same for a license that has several names: the earliest play.
    func firstPlay(of names: FirstPlays.Names) throws(LicenseStoreError) -> UnixTime? {
        try read { transaction throws(LicenseStoreError) in try Self.firstPlay(of: names, in: transaction) }
    }

    /// The same within a transaction.
    static func firstPlay(
        of names: FirstPlays.Names, in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> UnixTime? {
        var earliest: UnixTime?
        for name in names.all {
            guard let mark = try firstPlay(of: name, in: transaction) else { continue }
            earliest = min(earliest ?? mark, mark)
        }
        return earliest
    }

    /// The same for one name.
    static func firstPlay(
        of license: RecordID, in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> UnixTime? {
        guard let record = try transaction.record(markID(license)) else { return nil }
        guard record.kind == .firstPlay, record.contentID == license.bytes, record.payload.count == 8 else {
            throw .recordUnreadable("the first-play mark of license \(license); reset the license store")
        }
        let bits = record.payload.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return UnixTime(seconds: Int64(bitPattern: bits))
    }

    /// The mark's own id follows from the license's, so that there is one at most.
    private static func markID(_ license: RecordID) -> RecordID {
        RecordID(prefixOf: zip(license.bytes, Array("first-play mark ".utf8)).map { $0 ^ $1 })
    }
}
