// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// What an adaptive demuxer has from one start to the next stop. Thread-safe.
protocol AdaptiveRun: AnyObject, Sendable {
    var session: KeySession { get }
    var observation: SessionObservation { get }
    /// What fetches for it, with its cookies.
    var origin: PresentationOrigin { get }
    /// The configured license service, without user name and query, for the application.
    var printableLicenseURL: String? { get }
    /// Where segments come from that the stock demuxer does not fetch from the origin; nil: it does.
    var segments: SegmentServer? { get }
    /// Sees whether anything comes out.
    var watch: StillnessWatch { get }
    /// The manifest says that media is encrypted, or it is not known what it says.
    var mayBeProtected: Bool { get }

    /// The session has an observer from now on: `observation.id`.
    func didObserve()
    /// The pipeline begins or ceases to play.
    func setPlaying(_ isPlaying: Bool)
    /// Whether something was decrypted with one of these keys in front of the stock demuxer.
    func hasUsed(_ keyIDs: [KeyID]) -> Bool
    /// A request for keys has failed.
    func keysDidFail()
    /// Ends everything that goes on for the run.
    func end()
}

extension AdaptiveRun {
    func observe(_ body: @escaping @Sendable (KeyEvent) -> Void) {
        observation.begin(session, body)
        didObserve()
    }

    var printableLicenseURL: String? { nil }
    var segments: SegmentServer? { nil }
    var mayBeProtected: Bool { false }

    func didObserve() {}
    func setPlaying(_ isPlaying: Bool) {}
    func hasUsed(_ keyIDs: [KeyID]) -> Bool { false }
    func keysDidFail() {}
    func end() { observation.end() }

    var observerID: UInt64? { observation.id }
}

/// The registration of a run with its session. Thread-safe.
final class SessionObservation: Sendable {
    private let observation = Mutex<KeyObservation?>(nil)

    func begin(_ session: KeySession, _ body: @escaping @Sendable (KeyEvent) -> Void) {
        let new = session.observe(body)
        observation.withLock { $0 = new }
    }

    var id: UInt64? { observation.withLock { $0?.id } }

    func end() {
        observation.withLock { observation in
            defer { observation = nil }
            return observation
        }?.cancel()
    }
}
