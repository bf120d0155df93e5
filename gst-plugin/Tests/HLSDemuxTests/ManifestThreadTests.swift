// SPDX-License-Identifier: MPL-2.0

import Synchronization
import Testing

@testable import LatchkeyElements

/// When a playlist may be answered.
@Suite struct ManifestThreadTests {
    @Test func aThreadThatRunsHoldsPlaylistsUp() {
        let thread = ManifestThread()
        #expect(thread.mayAnswer)
        thread.recordCurrent()
        #expect(!thread.mayAnswer)
        thread.forget()
        #expect(thread.mayAnswer)
    }

    /// It is looked at until it sleeps, and no more.
    @Test func aThreadThatSleepsEndsTheWait() async {
        let looks = Atomic(0)
        await ManifestThread { _ in looks.add(1, ordering: .relaxed).newValue == 3 }.wait()
        #expect(looks.load(ordering: .relaxed) == 3)
    }

    @Test func aThreadThatNeverSleepsHoldsThemUpForSomeTime() async {
        let thread = ManifestThread { _ in false }
        await thread.wait()
        #expect(!thread.mayAnswer)
    }
}
