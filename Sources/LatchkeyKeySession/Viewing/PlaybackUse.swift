// SPDX-License-Identifier: MPL-2.0

/// Somebody plays with a `KeySession`. While at least one does, its viewing session is kept. Ends with `end()` or when
/// the last reference to it goes. Thread-safe.
public final class PlaybackUse: Sendable {
    private let id: UInt64
    private let permit: ViewingPermit

    init(_ permit: ViewingPermit, id: UInt64) {
        self.permit = permit
        self.id = id
        permit.enter(id)
    }

    deinit { end() }

    /// Whether it plays, or is paused. Not at first.
    public func setPlaying(_ isPlaying: Bool) { permit.setPlaying(isPlaying, id) }

    /// Gives the use up. A second call does nothing.
    public func end() { permit.leave(id) }
}
