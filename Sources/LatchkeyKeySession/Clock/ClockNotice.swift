// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// The trusted clock found that the system clock was set back. Thread-safe; all observers share one.
public final class ClockNotice: Sendable {
    /// What that means, and what to do.
    public let reason =
        "the system clock was set back: licences with an end are of no use until the time service says what time it is; "
        + "configure time-url where there is none"
    private let isClaimed = Atomic<Bool>(false)

    init() {}

    /// True for the first who asks: one of several observers tells the application.
    public func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }
}
