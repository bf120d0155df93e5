// SPDX-License-Identifier: MPL-2.0

public import LatchkeyViewingSession
import Synchronization

/// What went wrong with the viewing session, for the application. Thread-safe; all observers share one.
public final class ViewingNotice: Sendable {
    /// Which of the session's exchanges it was.
    public enum Kind: Sendable, Hashable {
        /// There is no session, and so no licence.
        case setupError
        /// `isFinal`: the session is lost, and playback ends.
        case heartbeatError(isFinal: Bool)
        /// The server may count the session on. The next start tries to end it.
        case teardownError
    }

    /// Decides whether playback can go on.
    public let kind: Kind
    /// With the HTTP status, the server's code and its words, and the sessions that are in the way.
    public let failure: SessionFailure
    private let isClaimed = Atomic<Bool>(false)

    init(_ kind: Kind, _ failure: SessionFailure) {
        self.kind = kind
        self.failure = failure
    }

    /// True for the first who asks: one of several observers tells the application.
    public func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }
}
