// SPDX-License-Identifier: MPL-2.0

import Latchkey
import Synchronization

/// Pauses and resumes what plays just now, and tells its agent where the application is. Thread-safe.
final class Remote: Sendable {
    private struct State {
        var playing: (any Playing)?
        weak var agent: Agent?
    }

    private let state = Mutex(State())

    func take(_ playing: (any Playing)?, of agent: Agent?) {
        state.withLock { $0 = State(playing: playing, agent: agent) }
    }

    var agent: Agent? { state.withLock(\.agent) }

    func pause() { state.withLock(\.playing)?.pause() }

    func play() { state.withLock(\.playing)?.play() }
}
