// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// A buffer or an event on its way through an element.
public enum StreamItem: ~Copyable {
    /// One buffer, with its reference.
    case buffer(Buffer)
    /// One serialized event, with its reference.
    case event(Event)
}

/// Buffers and events in order, with their references. Not thread-safe: guard it with the element's `Monitor`.
public struct StreamItemQueue: ~Copyable {
    // SAFETY: each entry is one reference to a GstBuffer or GstEvent that this queue owns.
    private var entries: [UnsafeMutableRawPointer] = []
    private var head = 0
    /// The bytes of the buffers inside.
    public private(set) var byteCount = 0
    /// The sum of the durations of the buffers inside, in nanoseconds.
    public private(set) var duration: UInt64 = 0

    /// An empty queue.
    public init() {}

    deinit { for entry in entries[head...] { ek_mini_object_unref(entry) } }
    /// Buffers and events together.
    public var count: Int { entries.count - head }
    /// Whether nothing waits.
    public var isEmpty: Bool { head == entries.count }

    /// Takes a buffer over, behind all others.
    public mutating func append(_ buffer: consuming Buffer) {
        byteCount &+= buffer.size
        duration &+= buffer.duration ?? 0
        entries.append(UnsafeMutableRawPointer(buffer.release()))
    }

    /// Takes an event over, behind all others.
    public mutating func append(_ event: consuming Event) {
        entries.append(UnsafeMutableRawPointer(event.release()))
    }

    /// Puts an event in front of all others.
    public mutating func prepend(_ event: consuming Event) {
        entries.insert(UnsafeMutableRawPointer(event.release()), at: head)
    }

    /// Gives up what came first; nil where nothing is there.
    public mutating func popFirst() -> StreamItem? {
        guard head < entries.count else { return nil }
        let entry = entries[head]
        head += 1
        if head == entries.count {
            entries.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 256, head * 2 > entries.count {
            entries.removeFirst(head)
            head = 0
        }
        // SAFETY: the reference moves from the queue into the item.
        if ek_is_event(entry) != 0 {
            return .event(Event(owning: entry.assumingMemoryBound(to: GstEvent.self)))
        }
        let buffer = Buffer(owning: entry.assumingMemoryBound(to: GstBuffer.self))
        byteCount &-= buffer.size
        duration &-= buffer.duration ?? 0
        return .buffer(buffer)
    }

    /// Frees everything.
    public mutating func removeAll() {
        while popFirst() != nil {}
    }
}
