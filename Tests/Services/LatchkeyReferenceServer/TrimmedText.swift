// SPDX-License-Identifier: MPL-2.0

extension StringProtocol {
    /// Without white space at its ends.
    func trimmed() -> String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[first...last])
    }
}
