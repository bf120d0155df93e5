// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Synchronization

/// How a session stands to one key.
public enum KeyStatus: Sendable {
    /// Not asked for yet.
    case absent
    /// Asked for, not answered.
    case pending(requestID: UInt64)
    /// May be used now. The key is shared; it is wiped when its last owner goes.
    case usable(ContentKey)
    /// Not available, until a demand's `KeyDemand.retryFailuresUpTo` is at least this generation.
    case failed(KeyError, generation: UInt64)
}

/// What happens in a session.
///
/// An empty list of KIDs stands for the key of media without a KID.
public enum KeyEvent: Sendable {
    /// A request begins, which `KeyLoadingRequest.isRenewal` tells from a renewal. Its loaders are asked next. `origin`
    /// is `KeyDemand.origin`.
    case requested(KeyLoadingRequest, origin: UInt64)
    /// No loader took the request. It stays pending, so that the application can answer.
    case untaken(KeyLoadingRequest, origin: UInt64)
    /// Keys are there, new ones or the same with another lease. `requestID` is the request that was answered, nil for
    /// keys that came without one. `elapsed` is the time from the request to the keys, zero without a request.
    case usable(requestID: UInt64?, [KeyID], elapsed: Duration)
    /// The KIDs of a request that got no key.
    case failed(requestID: UInt64, [KeyID], KeyError)
    /// A renewal brought no key, or not all. The keys are usable until their lease ends, and another renewal follows
    /// while there is time.
    case renewalFailed(requestID: UInt64, [KeyID], KeyError)
    /// The lease of these keys is over, and none is usable any more. `wasInUse`: one of them was read since the lease began,
    /// so there may be a picture to stop. Else they were forgotten, and are asked for again when a caller wants them; so are
    /// all keys of a session that `holdsAtEndOfLease`, and those whose license may not be used because the system clock was
    /// set back.
    case expired([KeyID], KeyError, wasInUse: Bool)
    /// What a stored key says of its time has changed and could not be written: the keys of this request are usable, but
    /// the next playback with the stored key will not know of this one. `origin` is `KeyDemand.origin`.
    case notStored(KeyLoadingRequest, KeyError, origin: UInt64)
    /// What the session server said, or did not say. Where that ends playback, `failed` or `closed` follows.
    case viewing(ViewingNotice)
    /// Whether decrypted media is to wait: the viewing session that it was decrypted with is not there at the moment, as
    /// after a long pause.
    case withheld(Bool)
    /// The system clock was set back while something played whose license depends on the date. Such licenses are of no use
    /// until signed time repairs the clock: `expired` follows for their keys.
    case clockSetBack(ClockNotice)
    /// The session is closed. Nothing comes after it but failures of later demands.
    case closed(KeyError)
}

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

/// The trusted clock found that the system clock was set back. Thread-safe; all observers share one.
public final class ClockNotice: Sendable {
    /// What that means, and what to do.
    public let reason =
        "the system clock was set back: licenses with an end are of no use until the time service says what time it is; "
        + "configure time-url where there is none"
    private let isClaimed = Atomic<Bool>(false)

    init() {}

    /// True for the first caller: one of several observers notifies the application.
    public func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }
}
