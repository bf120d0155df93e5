// SPDX-License-Identifier: MPL-2.0

import Synchronization

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

    /// Whether nobody else has any part of it.
    var isWhole: Bool { loans.load(ordering: .acquiring) == 0 }

    /// Lends `count` packets from `index` on.
    func lend(from index: Int, count: Int) -> SharedBytes {
        loans.add(1, ordering: .relaxed)
        return SharedBytes(
            UnsafeMutableRawBufferPointer(
                start: start + index * TransportPacket.size, count: count * TransportPacket.size), of: self)
    }
}

/// Bytes that nobody else reads or writes as long as this object is there. Thread-safe but for the bytes themselves, which
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
