// SPDX-License-Identifier: MPL-2.0

/// The 16 bytes of an AES-128 content key, in memory that is locked, left out of core dumps and wiped.
///
/// Prints as `<redacted>`. Immutable and thread-safe; the memory is wiped when the last reference goes.
public final class ContentKey: Sendable {
    /// The size of an AES-128 key, in bytes.
    public static let size = 16

    /// The IV that came with the key, as FairPlay-style licenses and keys files bring it; 16 bytes, no secret. For media
    /// that carries no IV of its own.
    public let initializationVector: InitializationVector?

    private let slot: KeyMemory.Slot
    private let memory: KeyMemory

    /// Nil unless `bytes` has exactly 16 elements (or no memory is left). The caller's copy is the caller's to wipe.
    public convenience init?(_ bytes: some Collection<UInt8>, initializationVector: InitializationVector? = nil) {
        self.init(bytes, initializationVector: initializationVector, in: .shared)
    }

    init?(_ bytes: some Collection<UInt8>, initializationVector: InitializationVector? = nil, in memory: KeyMemory) {
        guard bytes.count == Self.size, let slot = memory.allocate() else { return nil }
        // SAFETY: the slot has 32 bytes, 16 are written.
        for (position, byte) in bytes.enumerated() { slot.bytes[position] = byte }
        self.initializationVector = initializationVector
        self.slot = slot
        self.memory = memory
    }

    /// Reads 32 hexadecimal digits.
    public convenience init?(hex text: some StringProtocol) {
        guard text.utf8.count == 32, var bytes = Hex.decode(text) else { return nil }
        defer { wipe(&bytes) }
        self.init(bytes)
    }

    deinit { memory.release(slot) }

    /// Whether the kernel keeps the key out of swap. False above `RLIMIT_MEMLOCK`.
    public var isLocked: Bool { slot.isLocked }

    /// Lends the 16 bytes for the time of the call. They must not be kept. Throws what `body` throws.
    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: the slot outlives the call, because `self` does.
        try body(UnsafeRawBufferPointer(start: slot.bytes.baseAddress, count: Self.size))
    }

    /// Removes a line end behind 16 bytes, because some servers keep their keys as lines of text. All other bytes stay as they
    /// are. No copy is made.
    package static func removeLineEnd(behind bytes: inout [UInt8]) {
        let isLine = bytes.count == size + 1 && bytes[size] == UInt8(ascii: "\n")
        let isLineOfWindows =
            bytes.count == size + 2 && bytes[size] == UInt8(ascii: "\r") && bytes[size + 1] == UInt8(ascii: "\n")
        if isLine || isLineOfWindows { bytes.removeLast(bytes.count - size) }
    }

    /// Compares without an early exit, so that the time tells nothing of the bytes.
    public static func == (left: ContentKey, right: ContentKey) -> Bool {
        guard left.initializationVector == right.initializationVector else { return false }
        return left.withBytes { first in
            right.withBytes { second in
                zip(first, second).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
            }
        }
    }
}

extension ContentKey: Redacted {}

/// Overwrites an array that held a secret, in a way that the optimizer keeps.
@inline(never)
public func wipe(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { explicitBzero($0) }
    bytes.removeAll()
}
