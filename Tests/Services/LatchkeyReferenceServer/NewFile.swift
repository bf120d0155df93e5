// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A file that was not there before.
enum NewFile {
    /// Writes it. Returns why that is not possible, or nil.
    static func write(_ bytes: [UInt8], to path: String, mode: mode_t) -> String? {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        defer { close(descriptor) }
        return Glibc.write(descriptor, bytes, bytes.count) == bytes.count ? nil : "cannot be written"
    }
}
