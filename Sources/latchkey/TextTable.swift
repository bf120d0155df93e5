// SPDX-License-Identifier: MPL-2.0

/// Rows for people. Columns are as wide as they have to be, and the last one ends as it will.
struct TextTable {
    private let rows: [[String]]
    private let isRight: Set<Int>

    /// Each row has as many cells as there are titles. The columns `right` are aligned at their right side.
    init(titles: [String], rows: [[String]], right: Set<Int> = []) {
        self.rows = [titles] + rows
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
