// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization

/// Pages for secrets: locked in memory, left out of core dumps, wiped when a secret goes.
///
/// Slots are 32 bytes, so that a 4 KiB page holds 128 keys and `RLIMIT_MEMLOCK` is not used up. Pages stay mapped until
/// the process ends. Thread-safe.
final class KeyMemory: Sendable {
    static let slotSize = 32
    static let shared = KeyMemory()

    private struct Pages {
        var free: [Slot] = []
    }

    /// One slot of 32 bytes.
    struct Slot: @unchecked Sendable {
        // SAFETY: the address belongs to one owner from `allocate` to `release`, and the owner only reads after it
        // has filled the slot.
        let bytes: UnsafeMutableRawBufferPointer
        /// Whether the kernel locked the page. It refuses above `RLIMIT_MEMLOCK`; the slot works all the same.
        let isLocked: Bool
    }

    private let pages = Mutex(Pages())

    /// A zeroed slot, or nil where the system has no memory left.
    func allocate() -> Slot? {
        pages.withLock { pages in
            if pages.free.isEmpty { Self.addPage(to: &pages) }
            return pages.free.popLast()
        }
    }

    /// Wipes the slot and takes it back.
    func release(_ slot: Slot) {
        explicitBzero(slot.bytes)
        pages.withLock { $0.free.append(slot) }
    }

    private static func addPage(to pages: inout Pages) {
        let size = Int(sysconf(Int32(_SC_PAGESIZE)))
        // SAFETY: an anonymous private mapping of one page; the result is checked before use.
        guard let page = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            page != MAP_FAILED
        else { return }
        let isLocked = mlock(page, size) == 0
        _ = madvise(page, size, Int32(MADV_DONTDUMP))
        for offset in stride(from: 0, to: size - slotSize + 1, by: slotSize) {
            pages.free.append(
                Slot(
                    bytes: UnsafeMutableRawBufferPointer(start: page + offset, count: slotSize), isLocked: isLocked))
        }
    }
}

/// Overwrites with zeros in a way that the optimizer keeps.
package func explicitBzero(_ bytes: UnsafeMutableRawBufferPointer) {
    // SAFETY: exactly the caller's buffer.
    if let address = bytes.baseAddress { explicit_bzero(address, bytes.count) }
}

/// 32 secret bytes that other things are sealed with, in memory that is locked, left out of core dumps and wiped.
///
/// Prints as `<redacted>`. Immutable and thread-safe; the memory is wiped when the last reference goes.
public final class SealingKey: Sendable {
    /// The size of an AES-256 key, in bytes.
    public static let size = 32

    private let slot: KeyMemory.Slot

    /// Nil unless `bytes` has exactly 32 elements (or no memory is left). The caller's copy is the caller's to wipe.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size, KeyMemory.slotSize >= Self.size, let slot = KeyMemory.shared.allocate() else {
            return nil
        }
        // SAFETY: the slot has 32 bytes, 32 are written.
        for (position, byte) in bytes.enumerated() { slot.bytes[position] = byte }
        self.slot = slot
    }

    deinit { KeyMemory.shared.release(slot) }

    /// Lends the 32 bytes for the time of the call. They must not be kept. Throws what `body` throws.
    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: the slot outlives the call, because `self` does.
        try body(UnsafeRawBufferPointer(start: slot.bytes.baseAddress, count: Self.size))
    }
}

extension SealingKey: Redacted {}
