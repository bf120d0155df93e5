// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Synchronization

/// Sees whether something comes out of the stock demuxer. It looks at a pad's next buffer alone, and `arm` has it look at one
/// more. Thread-safe.
final class PadWatch: Sendable {
    private final class Output: Sendable {
        let pad: WeakPad
        let isArmed = Atomic(false)
        /// Something came out of it, at some time.
        let hasMoved = Atomic(false)

        init(_ pad: PadReference) { self.pad = WeakPad(pad) }
    }

    private let outputs = Mutex<[Output]>([])
    private let hasMoved = Atomic(false)
    private let hasFollowed = Atomic(false)

    /// Whether something came out since the last `expect`.
    var hasOutput: Bool { hasFollowed.load(ordering: .relaxed) }

    func add(_ pad: PadReference) {
        outputs.withLock { outputs in
            outputs.removeAll { $0.pad.pad == nil }
            outputs.append(Output(pad))
        }
        arm()
    }

    /// Looks at the next buffer of each pad.
    func arm() {
        for output in outputs.withLock({ $0 }) {
            guard let pad = output.pad.pad, !output.isArmed.exchange(true, ordering: .relaxed) else { continue }
            pad.probeNextBuffer { [self] in
                output.isArmed.store(false, ordering: .relaxed)
                output.hasMoved.store(true, ordering: .relaxed)
                hasMoved.store(true, ordering: .relaxed)
                hasFollowed.store(true, ordering: .relaxed)
            }
        }
    }

    /// Pictures or sound of which nothing ever came out.
    var muteOutputs: [PadReference] {
        outputs.withLock { $0 }.filter { !$0.hasMoved.load(ordering: .relaxed) }.compactMap(\.pad.pad).filter {
            $0.name.hasPrefix("video") || $0.name.hasPrefix("audio")
        }
    }

    /// `hasOutput` tells of what comes out from now on.
    func expect() {
        hasFollowed.store(false, ordering: .relaxed)
        arm()
    }

    /// Whether something came out since the last call, and looks at the next buffers.
    func takeMove() -> Bool {
        defer { arm() }
        return hasMoved.exchange(false, ordering: .relaxed)
    }
}
