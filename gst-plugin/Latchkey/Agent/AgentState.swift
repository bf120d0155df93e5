// SPDX-License-Identifier: MPL-2.0

/// Where an agent stands between its content and its playback.
///
/// ```
/// initialized → inspecting → ready ─────────────→ playing ⇄ paused → ended
///                    ↓          ↑                   ↓  ↑        ↓
///              needsLicense → acquiring      waitingForLicense  failed, aborted
/// ```
public enum AgentState: String, Sendable, CaseIterable {
    /// Nothing is known yet.
    case initialized
    /// The content and the rights are being looked at.
    case inspecting
    /// There are no rights to play it now.
    case needsLicense
    /// A license is being acquired.
    case acquiring
    /// It may be played.
    case ready
    /// It plays.
    case playing
    /// It was begun, and stands still.
    case paused
    /// It was begun, and waits for a license.
    case waitingForLicense
    /// It played to its end.
    case ended
    /// Playback failed.
    case failed
    /// Playback was ended because the right to it was gone.
    case aborted
}

/// How an agent's state follows from what happens. A value: events in, state out.
struct AgentProgress: Hashable, Sendable {
    enum Event: Hashable, Sendable {
        case inspectionBegan
        /// `mayPlay`: not protected, or with valid rights.
        case inspected(mayPlay: Bool)
        case inspectionFailed
        case acquisitionBegan
        case acquired(mayPlay: Bool)
        case acquisitionFailed
        /// The pipeline left NULL: it is on its way to its first picture.
        case begins
        case plays
        case pauses
        /// The pipeline went back to READY or NULL.
        case stopped
        /// Samples wait for a license, or do not any more.
        case holds(Bool)
        case endOfStream
        case failed
        case aborted
    }

    private(set) var state = AgentState.initialized
    /// What was before something was looked at or acquired.
    private var previous = AgentState.initialized
    /// The pipeline plays; nil: there is no playback.
    private var isPlaying: Bool?
    private var isHolding = false
    private var mayPlay: Bool?

    /// The new state; nil where it is the old one.
    mutating func take(_ event: Event) -> AgentState? {
        let old = state
        switch event {
        case .inspectionBegan where isPlaying == nil: enter(.inspecting)
        case .acquisitionBegan where isPlaying == nil: enter(.acquiring)
        case .inspectionBegan, .acquisitionBegan: break
        case .inspected(let mayPlay), .acquired(let mayPlay):
            self.mayPlay = mayPlay
            if isPlaying == nil { state = rest }
        case .inspectionFailed, .acquisitionFailed:
            if isPlaying == nil { state = isBusy ? previous : state }
        case .begins:
            isPlaying = isPlaying ?? false
            state = playback
        case .plays:
            isPlaying = true
            state = playback
        case .pauses:
            isPlaying = false
            state = playback
        case .holds(let holds):
            isHolding = holds
            if isPlaying != nil { state = playback }
        case .stopped:
            let wasPlaying = isPlaying != nil
            (isPlaying, isHolding) = (nil, false)
            if wasPlaying, !hasEnded { state = rest }
        case .endOfStream: end(.ended)
        case .failed: end(.failed)
        case .aborted: end(.aborted)
        }
        return state == old ? nil : state
    }

    private var isBusy: Bool { state == .inspecting || state == .acquiring }
    private var hasEnded: Bool { [.ended, .failed, .aborted].contains(state) }

    private var rest: AgentState { mayPlay.map { $0 ? .ready : .needsLicense } ?? .initialized }

    private var playback: AgentState { isHolding ? .waitingForLicense : isPlaying == true ? .playing : .paused }

    private mutating func enter(_ busy: AgentState) {
        if !isBusy { previous = state }
        state = busy
    }

    /// Of several ends the first counts, but for an abort, which says why.
    private mutating func end(_ new: AgentState) {
        let isOver = isPlaying == nil && hasEnded
        (isPlaying, isHolding) = (nil, false)
        if !isOver || (state == .failed && new == .aborted) { state = new }
    }
}
