// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Synchronization

/// What becomes of a presentation if only some of its qualities, languages of sound, and text have keys that may be used.
public enum PartialLicenses: String, Sendable, Hashable, CaseIterable {
    /// The others are left out.
    case play
    /// All may be chosen. Playback ends with an error at one whose key may not be used.
    case refuse
}

/// Whether a key may be used, for the choice among media with different keys.
package enum KeyStanding: Sendable {
    case usable
    /// A request for it has no answer yet.
    case awaited
    /// It is not to be had in this playback, or its license allows none of the outputs.
    case refused(KeyError)
    /// It was not asked for, or the failure is not about this key.
    case unknown
}

extension KeySession {
    /// `media`: what the key is for; nil: not known. The call does not count as use of the key.
    package func standing(of keyID: KeyID, for media: OutputPolicy.Media?) -> KeyStanding {
        switch core.withLock({ $0.hold($0.state.status(of: keyID)) }) {
        case .absent: .unknown
        case .pending: .awaited
        case .failed(let error, _):
            error.isRefusal || error.isSameKind(as: .noLoader("")) ? .refused(error) : .unknown
        case .usable:
            (refusal(of: keyID, for: media ?? .video) ?? lackOfGuard(for: keyID, of: media ?? .video)).map {
                .refused($0)
            } ?? .usable
        }
    }

    /// How long the answers to the requests for these keys may take still, each at most `limit` from `start` on, and a third
    /// of that where no loader took it; nil: none is awaited. Requests whose time is over fail.
    package func timeToAnswer(
        of keyIDs: some Sequence<KeyID>, from start: ContinuousClock.Instant, limit: Duration
    ) -> Duration? {
        let waited = start.duration(to: clock.now())
        var longest: Duration?
        for keyID in keyIDs {
            guard case .pending(let id) = core.withLock({ $0.hold($0.state.status(of: keyID)) }) else { continue }
            let isUntaken = isUntaken(requestID: id)
            let left = (isUntaken ? limit / 3 : limit) - waited
            if left > .zero {
                longest = max(longest ?? .zero, left)
            } else {
                fail(requestID: id, with: .late(after: waited, isUntaken: isUntaken))
            }
        }
        return longest
    }

    /// Whether the key has failed under a KID that was made for its URI, and is asked for anew when media says another one.
    package func mayBeAskedForAnew(_ keyID: KeyID) -> Bool {
        core.withLock { core in
            guard core.names.isMade(keyID), case .failed(_, let generation)? = core.state.entries[keyID]?.entry else {
                return false
            }
            return !core.state.namelessRefusals.contains(generation)
        }
    }

    /// For `timeToAnswer`.
    package var now: ContinuousClock.Instant { clock.now() }
}

extension KeyError {
    /// A request that got no answer in time. `isUntaken`: no loader took it. `hint`: what may help then.
    package static func late(after waited: Duration, isUntaken: Bool, hint: String = "") -> KeyError {
        let milliseconds = waited.components.seconds * 1000 + waited.components.attoseconds / 1_000_000_000_000_000
        return isUntaken
            ? .noLoader(
                "no key source has it, and the application gave no answer in \(milliseconds) ms\(hint)")
            : .timedOut("no answer in \(milliseconds) ms")
    }
}
