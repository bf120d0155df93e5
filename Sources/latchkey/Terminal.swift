// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import Glibc
import LatchkeyProtection

/// Where standard output goes.
struct Terminal {
    /// Whether a person looks at it, so that a line may be written over.
    let isInteractive: Bool
    /// Whether it may be in color: NO_COLOR (no-color.org) and dumb terminals say no.
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

    /// At most as wide as the terminal; what is cut off is told by an ellipsis. Without control characters, in one line.
    func fit(_ line: String) -> String {
        let line = line.inOneLine
        return line.count <= width || !isInteractive ? line : line.prefix(max(width - 1, 1)) + "…"
    }

    /// Sentences in lines that are at most as wide as the terminal, indented. A word that is wider is cut as by `fit`. If no person
    /// looks at it, one line.
    func wrap(_ text: String) -> [String] {
        let text = text.inOneLine
        guard isInteractive else { return ["  " + text] }
        var lines: [String] = []
        var line = " "
        for word in text.split(separator: " ") {
            if !line.allSatisfy({ $0 == " " }), line.count + 1 + word.count > width {
                lines.append(fit(line))
                line = "   "
            }
            line += " \(word)"
        }
        return lines + [fit(line)]
    }
}

extension String {
    /// For people: names and reasons may come from media and servers, and a terminal takes control characters for commands.
    /// Each but the end of a line is shown as U+FFFD.
    var withoutControls: String {
        guard unicodeScalars.contains(where: Self.isControl) else { return self }
        var shown = UnicodeScalarView()
        for scalar in unicodeScalars { shown.append(Self.isControl(scalar) ? "\u{FFFD}" : scalar) }
        return String(shown)
    }

    /// The same, and the end of a line is shown as U+FFFD, too: what follows it in a name would look like a line of the command's.
    var inOneLine: String { withoutControls.replacing("\n", with: "\u{FFFD}") }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control && scalar != "\n"
    }
}

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

/// Rows for people. Columns are as wide as they have to be, and the last one ends as it will.
struct TextTable {
    private let rows: [[String]]
    private let isRight: Set<Int>

    /// Each row has as many cells as there are titles. The columns `right` are aligned at their right side. What is shown has
    /// no control characters, and a row is one line.
    init(titles: [String], rows: [[String]], right: Set<Int> = []) {
        self.rows = [titles] + rows.map { $0.map(\.inOneLine) }
        isRight = right
    }

    var lines: [String] {
        let widths = (rows.first ?? []).indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            var cells = row.indices.map { column in
                let space = String(repeating: " ", count: widths[column] - row[column].count)
                return isRight.contains(column) ? space + row[column] : row[column] + space
            }
            if let last = row.indices.last, !isRight.contains(last) { cells[last] = row[last] }
            let line = cells.joined(separator: "  ")
            return String(line.prefix(line.count - line.reversed().prefix { $0 == " " }.count))
        }
    }
}

/// What is written with `--json`.
enum JSONText {
    /// Keys sorted, indented.
    static func of(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return escapingControls(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// A JSON text with escapes for DEL and the control characters behind ASCII. The encoder leaves them as they are, and a terminal
    /// takes them for commands. They can be in strings alone.
    static func escapingControls(_ json: String) -> String {
        guard json.unicodeScalars.contains(where: isUnescapedControl) else { return json }
        var escaped = String.UnicodeScalarView()
        for scalar in json.unicodeScalars {
            if isUnescapedControl(scalar) {
                escaped.append(contentsOf: "\\u00\(Hex.encode([UInt8(scalar.value)]))".unicodeScalars)
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }

    private static func isUnescapedControl(_ scalar: Unicode.Scalar) -> Bool { 0x7F...0x9F ~= scalar.value }

    /// ISO 8601, in UTC.
    static func time(_ time: UnixTime) -> String {
        Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601)
    }
}

/// Why a command failed, in words for people. Names the file.
struct ToolError: Error, Hashable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description.withoutControls }
}

/// Why a command failed, as a line of standard error.
func errorLine(_ text: String) -> String { "Error: \(text.withoutControls)\n" }

/// Says something beside the result.
func warn(_ text: String) { StandardStream.error.write("Warning: \(text.withoutControls)\n") }
