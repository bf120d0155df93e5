// SPDX-License-Identifier: MPL-2.0

import Foundation

/// Holds threads until as many have come as it counts.
final class Barrier: @unchecked Sendable {
    private let condition = NSCondition()
    private var missing: Int

    init(count: Int) { missing = count }

    func wait() {
        condition.withLock {
            missing -= 1
            if missing <= 0 { condition.broadcast() }
            while missing > 0 { condition.wait() }
        }
    }
}
