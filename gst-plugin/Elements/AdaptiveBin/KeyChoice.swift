// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// Qualities, languages of sound, and text whose keys may not be used are left out, if other media is left to play
/// (`PartialLicenses`).
extension AdaptiveBin {
    /// Whether media may be left out.
    static let partialLicenses = Property(
        "partial-licenses", nick: "Partial licenses",
        blurb:
            "What becomes of qualities, languages of sound, and text whose keys are refused, or whose licenses allow "
            + "none of the outputs: “play” leaves them out if other media is left to play, “refuse” ends playback when "
            + "one is chosen; unset: as configured, or play. Set it before the demuxer starts",
        kind: .string(default: nil),
        get: { .string(($0 as? AdaptiveBin)?.withGuarded { $0.partialLicenses }?.rawValue) },
        set: { element, value in
            guard case .string(let text) = value else { return }
            (element as? AdaptiveBin)?.withGuarded {
                $0.partialLicenses = text.flatMap { PartialLicenses(rawValue: $0) }
            }
        })

    /// The element's own setting, or the configured one.
    final func partialLicenses(_ shared: SharedSession) -> PartialLicenses {
        withGuarded { $0.partialLicenses } ?? shared.settings.partialLicenses
    }

    /// Waits on the upstream thread until the requests for these keys are answered, no longer than a stream waits for a key.
    /// The stop of the demuxer ends the wait.
    final func waitForAnswers(to keyIDs: Set<KeyID>, _ choice: KeyChoice) {
        let start = choice.session.now
        withGuarded { $0.isAwaitingAnswers = true }
        defer { withGuarded { $0.isAwaitingAnswers = false } }
        while true {
            let seen = withGuarded { $0.isStopping ? nil : $0.keyEvents }
            guard let seen, let left = choice.session.timeToAnswer(of: keyIDs, from: start, limit: choice.timeout)
            else {
                return
            }
            monitor.withLock {
                waitForKeyEvent(after: seen, microseconds: Int64(clamping: left.nanoseconds / 1000 + 1))
            }
        }
    }

    /// Waits on the upstream thread until `work` is done, or for `limit`. The stop of the demuxer ends the wait, and the work.
    final func wait(atMost limit: Duration, for work: @escaping @Sendable () async -> Void) {
        withGuarded { $0.isAwaitingAnswers = true }
        let weak = WeakElement(reference)
        let task = Task {
            await work()
            if !Task.isCancelled { weak.withElement { ($0 as? AdaptiveBin)?.workIsDone() } }
        }
        let end = MonotonicTime.now &+ limit.nanoseconds
        while true {
            let (seen, isOver) = withGuarded { ($0.keyEvents, $0.isStopping || !$0.isAwaitingAnswers) }
            let now = MonotonicTime.now
            guard !isOver, now < end else { break }
            monitor.withLock { waitForKeyEvent(after: seen, microseconds: Int64(clamping: (end - now) / 1000 + 1)) }
        }
        task.cancel()
        withGuarded { $0.isAwaitingAnswers = false }
    }

    private func workIsDone() {
        withGuarded { guarded in
            guarded.isAwaitingAnswers = false
            guarded.keyEvents &+= 1
        }
        monitor.broadcast()
    }

    /// Says once of each key that qualities are left out for it, unless the run is over to which that `origin` belongs.
    final func tellLeftOut(_ refusals: [KeyID: KeyError], of origin: PresentationOrigin) {
        let (new, run) = withGuarded { guarded -> ([KeyID: KeyError], (any AdaptiveRun)?) in
            guard guarded.run?.origin === origin else { return ([:], nil) }
            defer { guarded.leftOut.formUnion(refusals.keys) }
            return (refusals.filter { !guarded.leftOut.contains($0.key) }, guarded.run)
        }
        guard let session = run?.session else { return }
        for (name, error) in new.map({ (session.name(of: $0.key), $0.value) }).sorted(by: { $0.0 < $1.0 }) {
            reference.postWarning(
                GST_STREAM_ERROR_DECRYPT_NOKEY, "No key for \(name): \(error). What needs it is left out.",
                debug: "What else has keys is played. With partial-licenses=refuse, playback ends instead."
            )
        }
    }
}

/// What a choice by keys goes by. A value.
struct KeyChoice: Sendable {
    let session: KeySession
    /// How long a stream waits for a key.
    let timeout: Duration

    init(session: KeySession, timeout: Duration) {
        self.session = session
        self.timeout = timeout
    }

    /// Nil: nothing is left out.
    init?(_ setting: PartialLicenses, _ shared: SharedSession) {
        guard setting == .play else { return nil }
        self.init(session: shared.session, timeout: shared.settings.keyWait)
    }

    /// How long the bytes that tell keys are waited for before playback.
    static let lookPatience: Duration = .seconds(10)
    /// When the looks end that are under way then, in time for what has come to count.
    private static let lookLimit: Duration = .seconds(8)
    /// How many places are looked at at a time.
    private static let looksAtOnce = 4

    /// What is found in time at these places, where a look may take long. `sleep` waits for a length of time.
    static func looks<Place: Hashable & Sendable, Value: Sendable>(
        at places: [Place], sleep: @escaping @Sendable (Duration) async throws -> Void,
        _ look: @escaping @Sendable (Place) async -> Value?
    ) async -> [Place: Value] {
        await withTaskGroup(of: (place: Place, value: Value?)?.self) { group in
            group.addTask {
                try? await sleep(lookLimit)
                return nil
            }
            var (found, done) = ([Place: Value](), 0)
            for (number, place) in places.enumerated() {
                if number >= looksAtOnce, await !takeNext() {
                    group.cancelAll()
                    return found
                }
                group.addTask { (place, await look(place)) }
            }
            while done < places.count, await takeNext() {}
            group.cancelAll()
            return found

            /// False when the time is over.
            func takeNext() async -> Bool {
                guard case let next?? = await group.next() else { return false }
                done += 1
                found[next.place] = next.value
                return true
            }
        }
    }

    /// Which of the keys may not be used, and why. `media`: what they are for; nil: not known.
    func refusals(of keyIDs: some Sequence<KeyID>, for media: OutputPolicy.Media?) -> [KeyID: KeyError] {
        keyIDs.reduce(into: [:]) { refusals, keyID in
            if case .refused(let error) = session.standing(of: keyID, for: media) { refusals[keyID] = error }
        }
    }
}
