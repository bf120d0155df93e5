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
        let time = RelayTests.Time()
        await ManifestThread(
            isAsleep: { _ in looks.add(1, ordering: .relaxed).newValue == 3 }, now: { time.now }, sleep: time.sleep
        ).wait()
        #expect(looks.load(ordering: .relaxed) == 3)
    }

    @Test func aThreadThatNeverSleepsHoldsThemUpForHalfASecond() async {
        let time = RelayTests.Time()
        await ManifestThread(isAsleep: { _ in false }, now: { time.now }, sleep: time.sleep).wait()
        #expect(time.elapsed == .milliseconds(500))
    }
}
