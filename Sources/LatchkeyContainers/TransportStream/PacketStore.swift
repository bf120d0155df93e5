// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// The packets of a stream that are held back, in order, in one piece of memory, each with a link to another packet.
///
/// Those that go on may stay where they are, lent to others. Packets have numbers that only grow. Not thread-safe.
struct PacketStore: ~Copyable {
    // SAFETY: `memory`, that of `block`, has room for `capacity` packets, `links` for `capacity` numbers; packet `number`
    // lies at `number - origin`. Numbers come from this file's callers, which check them with `contains`.
    private var block: PacketMemory
    private var memory: UnsafeMutableRawPointer
    /// Parts of them may be lent still.
    private var others: [PacketMemory] = []
    /// So many are kept for later. Others go when they are given back.
    private static let mostOthers = 3
    private var links: UnsafeMutablePointer<Int>
    private var capacity: Int
    /// The number of the packet at the start of `memory`.
    private var origin = 0
    /// The number of the first packet that is held.
    private(set) var first = 0
    /// Behind the number of the last.
    private(set) var end = 0

    init() {
        capacity = 1024
        block = PacketMemory(capacity: capacity)
        memory = block.start
        links = .allocate(capacity: capacity)
    }

    deinit { links.deallocate() }

    var count: Int { end - first }

    /// A packet that is held.
    @inline(__always)
    func packet(_ number: Int) -> TransportPacket {
        TransportPacket(memory + (number - origin) * TransportPacket.size)
    }

    /// The packet that `number` leads to.
    @inline(__always)
    func link(of number: Int) -> Int { links[number - origin] }

    @inline(__always)
    func setLink(of number: Int, to other: Int) { links[number - origin] = other }

    /// Copies `count` packets behind the last. Returns the first one's number. They have no links yet.
    mutating func append(_ bytes: UnsafeRawPointer, count: Int) -> Int {
        while end - origin + count > capacity { makeRoom() }
        let number = end
        end += count
        (memory + (number - origin) * TransportPacket.size).copyMemory(
            from: bytes, byteCount: count * TransportPacket.size)
        return number
    }

    /// Lends the packets in front of `number`.
    func withPackets(before number: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        let start = memory + (first - origin) * TransportPacket.size
        body(UnsafeRawBufferPointer(start: start, count: max(0, number - first) * TransportPacket.size))
    }

    /// Drops the packets in front of `number`, and lends their bytes. Nil where there are none.
    mutating func lend(before number: Int) -> SharedBytes? {
        let count = min(number, end) - first
        guard count > 0 else { return nil }
        let lent = block.lend(from: first - origin, count: count)
        first += count
        return lent
    }

    /// Drops the packets in front of `number`.
    mutating func remove(before number: Int) {
        first = min(max(first, number), end)
        // All gone: start over, so that the memory stays in the cache.
        if first == end, block.isWhole { origin = first }
    }

    mutating func removeAll() { remove(before: end) }

    /// Room is made by moving where that frees at least half, so that the moves together stay linear. What is lent stays,
    /// so then the packets move to other memory.
    private mutating func makeRoom() {
        let held = count
        let start = memory + (first - origin) * TransportPacket.size
        let firstLink = links + (first - origin)
        let isLarge = held * 2 > capacity
        if isLarge || !block.isWhole {
            let other = takeOther(capacity: isLarge ? capacity * 2 : capacity)
            other.start.copyMemory(from: start, byteCount: held * TransportPacket.size)
            if others.count < Self.mostOthers { others.append(block) }
            block = other
            memory = other.start
        } else {
            memory.copyMemory(from: start, byteCount: held * TransportPacket.size)
        }
        if isLarge {
            capacity *= 2
            let largerLinks = UnsafeMutablePointer<Int>.allocate(capacity: capacity)
            largerLinks.update(from: firstLink, count: held)
            links.deallocate()
            links = largerLinks
        } else {
            links.update(from: firstLink, count: held)
        }
        origin = first
    }

    /// Memory for so many packets: what was given back, or new.
    private mutating func takeOther(capacity: Int) -> PacketMemory {
        others.removeAll { $0.capacity != capacity }
        guard let index = others.firstIndex(where: \.isWhole) else { return PacketMemory(capacity: capacity) }
        return others.remove(at: index)
    }
}

/// Memory for packets, parts of which are lent to others until they give them back.
final class PacketMemory: Sendable {
    // SAFETY: `start` has room for `capacity` packets until this object goes, which it does behind its last loan. The owner
    // writes no packet that is lent.
    nonisolated(unsafe) let start: UnsafeMutableRawPointer
    let capacity: Int
    fileprivate let loans = Atomic<Int>(0)

    init(capacity: Int) {
        self.capacity = capacity
        start = .allocate(byteCount: capacity * TransportPacket.size, alignment: 64)
    }

    deinit { start.deallocate() }

    /// Whether no part of it is lent out.
    var isWhole: Bool { loans.load(ordering: .acquiring) == 0 }

    /// Lends `count` packets from `index` on.
    func lend(from index: Int, count: Int) -> SharedBytes {
        loans.add(1, ordering: .relaxed)
        return SharedBytes(
            UnsafeMutableRawBufferPointer(
                start: start + index * TransportPacket.size, count: count * TransportPacket.size), of: self)
    }
}

/// Bytes that no other code reads or writes as long as this object exists. Thread-safe except for the bytes themselves, which
/// belong to one thread at a time.
public final class SharedBytes: Sendable {
    /// Good as long as this object is.
    public nonisolated(unsafe) let bytes: UnsafeMutableRawBufferPointer
    private let memory: PacketMemory

    fileprivate init(_ bytes: UnsafeMutableRawBufferPointer, of memory: PacketMemory) {
        self.bytes = bytes
        self.memory = memory
    }

    deinit { memory.loans.subtract(1, ordering: .releasing) }
}
