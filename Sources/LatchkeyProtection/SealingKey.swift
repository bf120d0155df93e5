// SPDX-License-Identifier: MPL-2.0

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

extension SealingKey: CustomStringConvertible, CustomReflectable {
    /// `<redacted>`, wherever the key is printed.
    public var description: String { "<redacted>" }
    /// Empty, so that `dump` and a debugger show no byte.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
