// SPDX-License-Identifier: MPL-2.0

/// Counts looks, once a second, at an element that decrypts nothing more. A value.
struct IdleLooks {
    private var count = 0
    private var decrypted: UInt64 = 0

    /// True if that lasts too long. `decrypted`: the bytes so far. `isExcused`: there is a reason for it.
    mutating func look(decrypted: UInt64, isExcused: Bool) -> Bool {
        defer { self.decrypted = decrypted }
        guard !isExcused, decrypted > 0, decrypted == self.decrypted else {
            count = 0
            return false
        }
        count += 1
        return count >= MuteLooks.limit
    }
}
