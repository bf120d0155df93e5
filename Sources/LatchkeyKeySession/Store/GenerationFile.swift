// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection

/// The second place of the generation counter: a file that says which generation of which store this device has seen.
///
/// Latchkey's own format, version 1. Two slots of 4096 bytes; each starts with "LKGC", the version (1 byte), three zero
/// bytes, and then, sealed, the store's id (16 bytes) and the generation (8 bytes, big-endian). The slots are written
/// in turn, so that a write that was cut off leaves the other. The higher generation counts.
///
/// Used from the thread of its store alone; processes lock the file against each other.
final class GenerationFile {
    struct Value: Hashable {
        var storeID: [UInt8]
        var generation: UInt64
    }

    private static let slotSize = 4096
    private static let header: [UInt8] = Array("LKGC".utf8) + [1, 0, 0, 0]
    private static let sealedSize = RecordID.size + 8 + Seal.overhead

    private let path: String
    private let seal: Seal
    private let descriptor: Int32
    private let onStep: StoreStepObserver?

    /// Nil where the file is not there.
    init?(path: String, seal: Seal, onStep: StoreStepObserver?) throws(LicenseStoreError) {
        self.path = path
        self.seal = seal
        self.onStep = onStep
        descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw StoreFiles.failure(path, errno)
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Makes the file; one that is already there stays.
    static func create(path: String, value: Value, seal: Seal) throws(LicenseStoreError) {
        let slots = [try slot(value, 0, seal), try slot(value, 1, seal)]
        try StoreFiles.create(path, contents: slots[0] + slots[1])
    }

    /// The latest value. Throws `altered` where no slot can be opened.
    func read() throws(LicenseStoreError) -> Value {
        guard let latest = try slots().compactMap(\.self).max(by: { $0.generation < $1.generation }) else {
            throw .altered(
                "\(path) cannot be opened: it is damaged, or another device's. Put the right file back, or reset the "
                    + "license store")
        }
        return latest
    }

    /// Puts the generation up, on disk when the call returns. A higher one that another process put there stays.
    func advance(to value: Value) throws(LicenseStoreError) {
        while flock(descriptor, LOCK_EX) != 0 {
            guard errno == EINTR else { throw StoreFiles.failure(path, errno) }
        }
        defer { _ = flock(descriptor, LOCK_UN) }
        let slots = try slots()
        if let latest = slots.compactMap(\.self).max(by: { $0.generation < $1.generation }),
            latest.storeID == value.storeID, latest.generation >= value.generation
        {
            return
        }
        // The one that cannot be read, or the older one.
        let target =
            switch (slots[0], slots[1]) {
            case (let first?, let second?): first.generation <= second.generation ? 0 : 1
            case (nil, _): 0
            case (_, nil): 1
            }
        let bytes = try Self.slot(value, target, seal)
        onStep?(.counterWrite)
        // SAFETY: exactly the array's bytes.
        guard pwrite(descriptor, bytes, bytes.count, off_t(target * Self.slotSize)) == bytes.count else {
            throw StoreFiles.failure(path, errno)
        }
        onStep?(.counterSync)
        guard fdatasync(descriptor) == 0 else { throw StoreFiles.failure(path, errno) }
        onStep?(.counterDone)
    }

    private func slots() throws(LicenseStoreError) -> [Value?] {
        var values: [Value?] = []
        for index in 0..<2 {
            let size = Self.header.count + Self.sealedSize
            var bytes = [UInt8](repeating: 0, count: size)
            // SAFETY: exactly the array's bytes.
            let count = pread(descriptor, &bytes, size, off_t(index * Self.slotSize))
            guard count >= 0 else { throw StoreFiles.failure(path, errno) }
            guard count == size, Array(bytes.prefix(Self.header.count)) == Self.header,
                let opened = try seal.open(
                    Array(bytes.dropFirst(Self.header.count)), authenticating: Self.header + [UInt8(index)]),
                opened.count == RecordID.size + 8
            else {
                values.append(nil)
                continue
            }
            values.append(
                Value(
                    storeID: Array(opened.prefix(RecordID.size)),
                    generation: opened.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }))
        }
        return values
    }

    private static func slot(_ value: Value, _ index: Int, _ seal: Seal) throws(LicenseStoreError) -> [UInt8] {
        var clear = value.storeID
        clear.appendBigEndian(value.generation, size: 8)
        let used = header + (try seal.seal(clear, authenticating: header + [UInt8(index)]))
        return used + [UInt8](repeating: 0, count: slotSize - used.count)
    }
}

/// Where a store is in writing, for tests that end the process there.
package enum StoreStep: String, Sendable, CaseIterable {
    case transactionBegun, beforeCommit, afterCommit, counterWrite, counterSync, counterDone
}

package typealias StoreStepObserver = @Sendable (StoreStep) -> Void
