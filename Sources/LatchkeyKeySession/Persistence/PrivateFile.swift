// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyProtection

/// Files that only their owner may read, replaced in one step.
enum PrivateFile {
    /// Writes a new file next to `path`, and moves it there. Without `replacing`, a file that is there already wins.
    /// Throws `invalidConfiguration` with `kind` and the reason.
    static func write(_ bytes: [UInt8], to path: String, replacing: Bool = true, kind: String) throws(KeyError) {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw .invalidConfiguration("\(kind): the path is empty or has a NUL in it")
        }
        let temporary = "\(path).\(UInt64.random(in: 0 ... .max)).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(kind, errno) }
        var rest = bytes[...]
        var code: Int32 = 0
        while !rest.isEmpty, code == 0 {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 { rest = rest.dropFirst(written) } else if errno != EINTR { code = errno }
        }
        if code == 0, fsync(descriptor) != 0 { code = errno }
        if Glibc.close(descriptor) != 0, code == 0 { code = errno }
        if code == 0 {
            if replacing {
                if rename(temporary, path) != 0 { code = errno }
            } else if link(temporary, path) != 0, errno != EEXIST {
                code = errno
            }
        }
        // Gone after a rename; otherwise nobody wants it any more.
        _ = unlink(temporary)
        guard code == 0 else { throw failure(kind, code) }
    }

    static func failure(_ kind: String, _ code: Int32) -> KeyError {
        // SAFETY: glibc returns a string that ends in NUL, good until this thread's next call.
        let reason = strerror(code).map { String(cString: $0) } ?? "error \(code)"
        return .invalidConfiguration("\(kind): \(reason)")
    }
}
