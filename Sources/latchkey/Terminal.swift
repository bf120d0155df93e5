// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import Glibc

/// Where standard output goes.
struct Terminal {
    /// Whether a person looks at it, so that a line may be written over.
    let isInteractive: Bool
    /// Whether it may be in colour: NO_COLOR (no-color.org) and dumb terminals say no.
    let hasColor: Bool
    /// In columns.
    let width: Int

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        isInteractive = isatty(STDOUT_FILENO) == 1 && environment["TERM"] != "dumb"
        hasColor = isInteractive && (environment["NO_COLOR"] ?? "").isEmpty
        var size = winsize()
        let columns = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 ? Int(size.ws_col) : 0
        width = columns > 0 ? columns : environment["COLUMNS"].flatMap { Int($0) } ?? 80
    }

    init(isInteractive: Bool, hasColor: Bool, width: Int) {
        self.isInteractive = isInteractive
        self.hasColor = hasColor
        self.width = width
    }

    func bold(_ text: String) -> String { hasColor ? "\u{1B}[1m\(text)\u{1B}[0m" : text }

    /// At most as wide as the terminal; what is cut off is told by an ellipsis.
    func fit(_ line: String) -> String {
        line.count <= width || !isInteractive ? line : line.prefix(max(width - 1, 1)) + "…"
    }
}
