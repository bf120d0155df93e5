// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Standard output and standard error, past the buffer of `print`.
enum StandardStream: Int32 {
    case output = 1
    case error = 2

    /// Writes at once, also into a pipe. What cannot be written is lost.
    func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(rawValue, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(count, 0))
        }
    }
}
