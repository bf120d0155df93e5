// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// When licences were first used for playing, by the trusted clock. What that means for their rights, `RightsStatus` says.
///
/// Thread-safe; nothing blocks.
public final class FirstPlays: Sendable {
    private let clock: TrustedClock
    private let store: LicenseStore
    /// Of licences that are not persistent.
    private let marks = Mutex<[RecordID: UnixTime]>([:])

    /// Reads nothing yet.
    public init(clock: TrustedClock, store: LicenseStore) {
        self.clock = clock
        self.store = store
    }

    /// Notes that a licence is used for playing: called at the first sample that is decrypted while the pipeline plays,
    /// and neither for `inspect` nor for preroll in PAUSED. Returns the time that stands: a second call changes nothing.
    ///
    /// The mark of a persistent licence is on disk when the call returns, and outlives the licence: the same licence
    /// installed again goes on where it was. Throws the errors of the store, for a persistent licence alone.
    @discardableResult
    public func markFirstPlay(
        for license: RecordID, isPersistent: Bool = true
    ) async throws(LicenseStoreError) -> UnixTime {
        let now = clock.now().time
        guard isPersistent else {
            return marks.withLock { marks in
                if let mark = marks[license] { return mark }
                marks[license] = now
                return now
            }
        }
        return try await store.markFirstPlay(for: license, at: now)
    }

    /// When a licence was first used for playing; nil where it was not. Throws the errors of the store.
    public func firstPlay(of license: RecordID) async throws(LicenseStoreError) -> UnixTime? {
        if let mark = marks.withLock({ $0[license] }) { return mark }
        return try await store.firstPlay(of: license)
    }

    /// Forgets the first plays of licences that are not persistent, at the end of their session.
    public func forget(_ licenses: some Sequence<RecordID>) {
        marks.withLock { marks in
            for license in licenses { marks[license] = nil }
        }
    }
}
