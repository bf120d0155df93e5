// SPDX-License-Identifier: MPL-2.0

/// Tells whether the stock demuxer has stopped without a word. A value: whoever has it says what is seen, and when, in
/// nanoseconds of one clock.
struct Stillness {
    enum Verdict {
        case none
        /// All of a live presentation that has ended was played, and the demuxer waits for more.
        case isAtEnd
        /// Segments were fetched, and nothing comes of them, or nothing more.
        case hasStopped
    }

    /// How long nothing happens before the demuxer counts as stopped.
    static let patience: UInt64 = 8_000_000_000
    /// The same where the end is known.
    static let patienceAtEnd: UInt64 = 2_000_000_000

    /// When each live playlist has to be asked for again, unless its stream is not wanted any more.
    private var due: [String: UInt64] = [:]
    private var targets: [String: UInt64] = [:]
    /// A playlist was live and has ended.
    private var hasEnded = false
    private var hasFetched = false
    private(set) var hasOutput = false
    private var lastChange: UInt64 = 0

    /// The demuxer asks for the playlist.
    mutating func didAsk(for playlist: String, at now: UInt64) {
        if let target = targets[playlist] { due[playlist] = now &+ target &* 3 }
    }

    /// The demuxer gets the playlist. `target`: its target duration in seconds.
    mutating func didRead(_ playlist: String, isEnded: Bool, target: Double, at now: UInt64) {
        if isEnded {
            if targets.removeValue(forKey: playlist) != nil { hasEnded = true }
            due[playlist] = nil
            lastChange = now
        } else {
            // A playlist may say anything.
            targets[playlist] = UInt64(max(1, min(target, 3600)) * 1e9)
            didAsk(for: playlist, at: now)
        }
    }

    /// Something of a segment came.
    mutating func didFetch(at now: UInt64) { (hasFetched, lastChange) = (true, now) }

    /// Something came out of the demuxer.
    mutating func didMove(at now: UInt64) { (hasOutput, lastChange) = (true, now) }

    /// `isBusy`: there is a reason for the stillness.
    mutating func verdict(isBusy: Bool, at now: UInt64) -> Verdict {
        if isBusy { lastChange = now }
        let stillness = now &- lastChange
        let isLive = due.values.contains { $0 > now }
        guard hasFetched, !isLive || !hasOutput else { return .none }
        if hasEnded, hasOutput { return stillness >= Self.patienceAtEnd ? .isAtEnd : .none }
        return stillness >= Self.patience ? .hasStopped : .none
    }
}
