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

/// Overwrites with zeros in a way that the optimiser keeps.
func explicitBzero(_ bytes: UnsafeMutableRawBufferPointer) {
    // SAFETY: exactly the caller's buffer.
    if let address = bytes.baseAddress { explicit_bzero(address, bytes.count) }
}
