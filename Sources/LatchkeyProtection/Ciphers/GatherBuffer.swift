// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Memory for encrypted blocks that lie apart, so that they are decrypted with one call. A plain value: its owner calls
/// `release` once. Not thread-safe.
struct GatherBuffer {
    /// In blocks. All parts together, and the lines of the sample that the blocks lie in, stay in the first-level cache;
    /// the call for 2 KiB is already lost in the noise.
    static let capacity = 128

    private static let size = capacity * 16

    // SAFETY: each has room for `capacity` blocks or numbers; there are no more ranges than blocks.
    let encrypted: UnsafeMutableRawPointer
    let clear: UnsafeMutableRawPointer
    /// Where each block lies in the sample.
    let offsets: UnsafeMutablePointer<Int>
    /// The blocks that are the first of their range.
    let rangeStarts: UnsafeMutablePointer<Int>

    init() {
        encrypted = .allocate(byteCount: Self.size, alignment: 64)
        clear = .allocate(byteCount: Self.size, alignment: 64)
        offsets = .allocate(capacity: Self.capacity)
        rangeStarts = .allocate(capacity: Self.capacity)
    }

    func release() {
        // It held clear media.
        explicit_bzero(clear, Self.size)
        encrypted.deallocate()
        clear.deallocate()
        offsets.deallocate()
        rangeStarts.deallocate()
    }
}
