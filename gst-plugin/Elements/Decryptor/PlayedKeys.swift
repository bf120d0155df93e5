// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// Which keys are played. What is decrypted before the pipeline plays counts when it begins to. If it never does, a preroll does
/// not count, also at another position, and more does. A value.
struct PlayedKeys {
    /// How many samples a pipeline decrypts to look at media. More than queues hold, and a minute or two of pictures that are
    /// looked at one by one.
    static let sampleLimit = 4096
    /// The same for segments that are decrypted as a whole.
    static let segmentLimit = 64
    /// One to the place where playback is to begin. From then on, a seek is a way to watch.
    private static let seekLimit = 1

    private(set) var isPlaying = false
    /// Keys of what was decrypted before the pipeline played.
    private var prerolled: Set<KeyID?> = []
    /// What was decrypted to look at it.
    private var looks = 0
    private var hasLookedSinceSeek = false
    private var seeks = 0

    /// Something is about to be decrypted with this key. Whether that is playing.
    mutating func use(_ keyID: KeyID?) -> Bool {
        if !isPlaying { prerolled.insert(keyID) }
        return isPlaying
    }

    /// Something is to be decrypted, with a key whose license counts from the first play, by a pipeline that is not to play.
    /// False if that is more than a preroll: it counts as playing.
    mutating func look(limit: Int = sampleLimit) -> Bool {
        guard looks < limit, seeks <= Self.seekLimit else { return false }
        looks += 1
        hasLookedSinceSeek = true
        return true
    }

    /// What comes next is of another position.
    mutating func didFlush() {
        if hasLookedSinceSeek { seeks += 1 }
        hasLookedSinceSeek = false
    }

    /// The pipeline begins or ceases to play. Returns the keys that are played from now on.
    mutating func setPlaying(_ isPlaying: Bool) -> Set<KeyID?> {
        self.isPlaying = isPlaying
        guard isPlaying else { return [] }
        defer { prerolled = [] }
        return prerolled
    }
}

extension PlayNotes {
    /// How long an element that stops waits for a disk that is slow to note first plays, in milliseconds.
    private static let patience: UInt64 = 2000

    /// Waits until first plays are written down, for a short time: the process may end as soon as the element has stopped.
    static func wait(for all: [PlayNotes]) {
        let pending = PendingNotes()
        for notes in all {
            pending.add()
            notes.whenEmpty { pending.remove() }
        }
        pending.wait(milliseconds: patience)
    }
}

/// Counts what is to be waited for.
private final class PendingNotes: @unchecked Sendable {
    // SAFETY: `count` is guarded by `monitor`.
    private let monitor = Monitor()
    private var count = 0

    func add() { monitor.withLock { count += 1 } }

    func remove() {
        monitor.withLock { count -= 1 }
        monitor.broadcast()
    }

    func wait(milliseconds: UInt64) {
        let end = MonotonicTime.now &+ milliseconds * 1_000_000
        monitor.withLock {
            while count > 0, MonotonicTime.now < end {
                monitor.wait(microseconds: Int64(clamping: (end &- MonotonicTime.now) / 1000))
            }
        }
    }
}
