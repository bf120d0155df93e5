// SPDX-License-Identifier: MPL-2.0

/// A registration for a session's events. Ends with `cancel()` or when the last reference to it goes.
///
/// A delivery that has begun on another thread may still finish after `cancel()`.
public final class KeyObservation: Sendable, Identifiable {
    /// Unique in the process, never zero. `KeyDemand.origin` takes it.
    public let id: UInt64
    private weak let session: KeySession?

    init(id: UInt64, session: KeySession) {
        self.id = id
        self.session = session
    }

    deinit { cancel() }

    /// No event comes after this returns, but for one that is under way.
    public func cancel() { session?.removeObserver(id) }
}
