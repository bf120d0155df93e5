// SPDX-License-Identifier: MPL-2.0

/// Why a command failed, in words for people. Names the file.
struct ToolError: Error, Hashable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Says something beside the result.
func warn(_ text: String) { StandardStream.error.write("Warning: \(text)\n") }
