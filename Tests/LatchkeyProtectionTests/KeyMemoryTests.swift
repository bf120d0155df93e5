// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyProtection

@Suite struct KeyMemoryTests {
    @Test func slotsDoNotOverlap() throws {
        let memory = KeyMemory()
        // More than a page has.
        let slots = try (0..<300).map { _ in try #require(memory.allocate()) }
        let addresses = slots.map { UInt(bitPattern: $0.bytes.baseAddress) }.sorted()
        for (first, second) in zip(addresses, addresses.dropFirst()) {
            #expect(second - first >= UInt(KeyMemory.slotSize))
        }
        for (index, slot) in slots.enumerated() {
            #expect(slot.bytes.count == KeyMemory.slotSize)
            #expect(slot.bytes.allSatisfy { $0 == 0 })
            slot.bytes.copyBytes(from: [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: slot.bytes.count))
        }
        for (index, slot) in slots.enumerated() {
            #expect(slot.bytes.allSatisfy { $0 == UInt8(truncatingIfNeeded: index) })
            memory.release(slot)
        }
        #expect(slots.allSatisfy { $0.bytes.allSatisfy { $0 == 0 } })
    }

    @Test func releasedSlotsAreUsedAgain() throws {
        let memory = KeyMemory()
        let pages = Set(
            try (0..<10_000).map { _ in
                let slot = try #require(memory.allocate())
                defer { memory.release(slot) }
                return UInt(bitPattern: slot.bytes.baseAddress) / 4096
            })
        #expect(pages.count == 1)
    }

    @Test func threadsGetSlotsOfTheirOwn() async {
        let memory = KeyMemory()
        await withTaskGroup(of: Bool.self) { group in
            for task in 0..<8 {
                group.addTask {
                    let mark = UInt8(task + 1)
                    return (0..<500).allSatisfy { _ in
                        guard let slot = memory.allocate() else { return false }
                        defer { memory.release(slot) }
                        let isClean = slot.bytes.allSatisfy { $0 == 0 }
                        slot.bytes.copyBytes(from: [UInt8](repeating: mark, count: slot.bytes.count))
                        return isClean && slot.bytes.allSatisfy { $0 == mark }
                    }
                }
            }
            for await isRight in group { #expect(isRight) }
        }
    }

    /// What the kernel says of the page: `dd` is "left out of core dumps", `lo` is "locked in memory"
    /// (proc_pid_smaps(5)).
    @Test func pageIsLockedAndNotDumped() throws {
        let key = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        let address = try key.withBytes { try #require($0.baseAddress.map { UInt(bitPattern: $0) }) }
        let flags = try #require(try Self.flags(ofPageAt: address))
        #expect(flags.contains("dd"))
        // A process that forks copies it, as SECURITY.md says: it is neither left out (`dc`) nor wiped there (`wf`).
        #expect(flags.isDisjoint(with: ["dc", "wf"]))
        // AddressSanitizer answers mlock itself, without locking.
        let isLockedForReal = key.isLocked && dlsym(nil, "__asan_init") == nil
        #expect(flags.contains("lo") == isLockedForReal)
        var limit = rlimit()
        try #require(getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0)
        // The tests' few keys fit this limit by far.
        if limit.rlim_cur >= 1 << 20 { #expect(key.isLocked) }
    }

    /// The file has no size to go by, so it is read to its end.
    private static func smaps() throws -> String {
        let file = try #require(FileHandle(forReadingAtPath: "/proc/self/smaps"))
        var data = Data()
        while let part = try file.read(upToCount: 4096), !part.isEmpty { data += part }
        return String(decoding: data, as: UTF8.self)
    }

    private static func flags(ofPageAt address: UInt) throws -> Set<Substring>? {
        var isInside = false
        for line in try smaps().split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-")
            if bounds.count == 2, let start = UInt(bounds[0], radix: 16), let end = UInt(bounds[1], radix: 16) {
                isInside = (start..<end).contains(address)
            } else if isInside, fields[0] == "VmFlags:" {
                return Set(fields.dropFirst())
            }
        }
        return nil
    }
}
