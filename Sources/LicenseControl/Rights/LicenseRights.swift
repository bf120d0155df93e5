// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel
import Synchronization

/// What licences allow now: their terms, the trusted clock, and when each was first used for playing.
///
/// Thread-safe; nothing blocks.
public final class LicenseRights: Sendable {
    private let clock: TrustedClock
    private let store: LicenseStore
    /// First plays of licences that are not persistent.
    private let firstPlays = Mutex<[RecordID: UnixTime]>([:])

    public init(clock: TrustedClock, store: LicenseStore) {
        self.clock = clock
        self.store = store
    }

    /// How a licence's rights stand now. Looking changes nothing: it starts no time that is counted from the first play.
    public func status(
        of rights: Rights, license: RecordID, for use: RightsStatus.Use = .start
    ) async throws(LicenseStoreError) -> RightsStatus {
        RightsStatus(of: try await withFirstPlay(rights, license: license), at: clock.now(), for: use)
    }

    /// How several licences for the same content stand together; none at all gives `noLicense`.
    public func status(
        ofAny licenses: [(id: RecordID, rights: Rights)], for use: RightsStatus.Use = .start
    ) async throws(LicenseStoreError) -> RightsStatus {
        var all: [Rights] = []
        for license in licenses { all.append(try await withFirstPlay(license.rights, license: license.id)) }
        return RightsStatus(ofAny: all, at: clock.now(), for: use)
    }

    /// Notes that a licence is used for playing: called at the first sample that is decrypted while the pipeline plays,
    /// and neither for `inspect` nor for preroll in PAUSED. Returns the time that stands: a second call changes nothing.
    ///
    /// The mark of a persistent licence is on disk when the call returns, and outlives the licence: the same licence
    /// installed again goes on where it was.
    @discardableResult
    public func markFirstPlay(
        for license: RecordID, isPersistent: Bool = true
    ) async throws(LicenseStoreError) -> UnixTime {
        let now = clock.now().time
        guard isPersistent else {
            return firstPlays.withLock { marks in
                if let mark = marks[license] { return mark }
                marks[license] = now
                return now
            }
        }
        return try await store.markFirstPlay(for: license, at: now)
    }

    /// When a licence was first used for playing; nil where it was not.
    public func firstPlay(of license: RecordID) async throws(LicenseStoreError) -> UnixTime? {
        if let mark = firstPlays.withLock({ $0[license] }) { return mark }
        return try await store.firstPlay(of: license)
    }

    /// Forgets the first plays of licences that are not persistent, at the end of their session.
    public func endSession() { firstPlays.withLock { $0 = [:] } }

    private func withFirstPlay(_ rights: Rights, license: RecordID) async throws(LicenseStoreError) -> Rights {
        guard rights.expiresAfterFirstPlay != nil, rights.firstPlay == nil else { return rights }
        var rights = rights
        rights.firstPlay = try await firstPlay(of: license)
        return rights
    }
}
