// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Memory for encrypted blocks that lie apart, so that they are decrypted with one call. A plain value: its owner calls
/// `release` once. Not thread-safe.
struct GatherBuffer {
    /// In blocks. What is used of all parts together stays in the first-level cache, and the call for 4 KiB is already
    /// lost in the noise.
    static let capacity = 256

    private static let size = capacity * 16

    // SAFETY: `encrypted` and `clear` have room for `capacity` blocks, `rows` for `capacity` values, each of which stands
    // for one block at least.
    let encrypted: UnsafeMutableRawPointer
    let clear: UnsafeMutableRawPointer
    let rows: UnsafeMutablePointer<BlockRows>

    init() {
        encrypted = .allocate(byteCount: Self.size, alignment: 64)
        clear = .allocate(byteCount: Self.size, alignment: 64)
        rows = .allocate(capacity: Self.capacity)
    }

    func release() {
        // It held clear media.
        explicit_bzero(clear, Self.size)
        encrypted.deallocate()
        clear.deallocate()
        rows.deallocate()
    }
}
