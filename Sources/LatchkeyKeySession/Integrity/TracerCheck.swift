// SPDX-License-Identifier: MPL-2.0

/// Whether a debugger is attached to this process, as the kernel says in `/proc/self/status` (proc(5), `TracerPid`).
enum TracerCheck {
    /// Why not to decrypt; nil where nobody is attached. `status` is what the file says; nil where it cannot be read.
    static func violation(status: [UInt8]?) -> String? {
        guard let status else { return "/proc/self/status cannot be read, so that nobody knows who traces the process" }
        for line in status.split(separator: UInt8(ascii: "\n")) where line.starts(with: "TracerPid:".utf8) {
            let text = String(decoding: line.dropFirst(10), as: UTF8.self)
            guard let number = UInt32(text.split(whereSeparator: \.isWhitespace).first ?? "") else { break }
            return number == 0 ? nil : "process \(number) traces this one"
        }
        return "/proc/self/status does not say who traces the process"
    }
}
