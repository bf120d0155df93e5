// SPDX-License-Identifier: MPL-2.0

/// The packets of a stream that are held back, in order, in one piece of memory, each with a link to another packet.
///
/// Packets have numbers that only grow. Not thread-safe.
struct PacketStore: ~Copyable {
    // SAFETY: `memory` has room for `capacity` packets and one partial packet, `links` for `capacity` numbers; packet
    // `number` lies at `number - origin`. Numbers come from this file's callers, which check them with `contains`.
    private var memory: UnsafeMutableRawPointer
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
        memory = .allocate(byteCount: capacity * TransportPacket.size, alignment: 64)
        links = .allocate(capacity: capacity)
    }

    deinit {
        memory.deallocate()
        links.deallocate()
    }

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

    /// Copies a packet behind the last. Returns its number.
    @inline(__always)
    mutating func append(_ bytes: UnsafeRawPointer) -> Int {
        if end - origin == capacity { makeRoom() }
        let number = end
        end += 1
        (memory + (number - origin) * TransportPacket.size).copyMemory(
            from: bytes, byteCount: TransportPacket.size)
        links[number - origin] = -1
        return number
    }

    /// Lends the packets in front of `number`.
    func withPackets(before number: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        let start = memory + (first - origin) * TransportPacket.size
        body(UnsafeRawBufferPointer(start: start, count: max(0, number - first) * TransportPacket.size))
    }

    /// Drops the packets in front of `number`.
    mutating func remove(before number: Int) {
        first = min(max(first, number), end)
        // All gone: start over, so that the memory stays in the cache.
        if first == end { origin = first }
    }

    mutating func removeAll() { remove(before: end) }

    /// Room is made by moving where that frees at least half, so that the moves together stay linear.
    private mutating func makeRoom() {
        let held = count
        let start = memory + (first - origin) * TransportPacket.size
        let firstLink = links + (first - origin)
        if held * 2 <= capacity {
            memory.copyMemory(from: start, byteCount: held * TransportPacket.size)
            links.update(from: firstLink, count: held)
        } else {
            capacity *= 2
            let largerMemory = UnsafeMutableRawPointer.allocate(
                byteCount: capacity * TransportPacket.size, alignment: 64)
            largerMemory.copyMemory(from: start, byteCount: held * TransportPacket.size)
            let largerLinks = UnsafeMutablePointer<Int>.allocate(capacity: capacity)
            largerLinks.update(from: firstLink, count: held)
            memory.deallocate()
            links.deallocate()
            memory = largerMemory
            links = largerLinks
        }
        origin = first
    }
}
