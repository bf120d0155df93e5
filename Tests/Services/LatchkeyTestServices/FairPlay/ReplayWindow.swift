// SPDX-License-Identifier: MPL-2.0

/// What was seen within the last minutes, so that nothing is taken twice. Bounded in time and in number.
struct ReplayWindow {
    /// How long something counts as seen.
    let length: Duration
    /// Above this many, the oldest is forgotten before its time.
    let capacity: Int
    private var seen: Set<[UInt8]> = []
    private var queue: [(mark: [UInt8], time: Duration)] = []
    private var first = 0

    init(length: Duration, capacity: Int) {
        self.length = length
        self.capacity = max(capacity, 1)
    }

    /// How many things count as seen.
    var count: Int { seen.count }

    /// Notes `marks` and returns true, unless one of them was seen within the window. `now` never goes back.
    mutating func admit(_ marks: [[UInt8]], now: Duration) -> Bool {
        while first < queue.count, queue[first].time + length <= now { forgetOldest() }
        guard marks.allSatisfy({ !seen.contains($0) }) else { return false }
        for mark in marks where seen.insert(mark).inserted { queue.append((mark, now)) }
        while queue.count - first > capacity { forgetOldest() }
        return true
    }

    private mutating func forgetOldest() {
        seen.remove(queue[first].mark)
        first += 1
        // Now and then, so that it costs nothing on average.
        if first >= 64, first * 2 >= queue.count {
            queue.removeFirst(first)
            first = 0
        }
    }
}
