// SPDX-License-Identifier: MPL-2.0

/// Work that several threads ask for, outside of the lock that guards what it reads: one thread at a time does it, and again
/// where it was asked for meanwhile. So the last state is what is applied last. A value, under the caller's lock.
struct SerialWork {
    private var isUnderWay = false
    private var isDue = false

    /// True: the caller does the work, until `finish` says that it is done. False: the thread that has it under way does it
    /// once more.
    mutating func begin() -> Bool {
        isDue = isUnderWay
        defer { isUnderWay = true }
        return !isUnderWay
    }

    /// False: once more.
    mutating func finish() -> Bool {
        defer { isDue = false }
        isUnderWay = isDue
        return !isDue
    }
}
