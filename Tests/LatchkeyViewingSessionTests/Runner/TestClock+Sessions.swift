// SPDX-License-Identifier: MPL-2.0

import LatchkeyViewingSession
import LatchkeyTestSupport

extension TestClock {
    var clock: SessionClock {
        SessionClock(now: { self.now }, sleep: { time in try await self.sleep(until: time) })
    }
}
