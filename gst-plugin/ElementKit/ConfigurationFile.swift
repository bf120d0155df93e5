// SPDX-License-Identifier: MPL-2.0

import CGStreamer

/// A configuration file in GLib's `GKeyFile` syntax: `[group]`, `key=value`, `#` comments.
public struct ConfigurationFile: ~Copyable {
    // SAFETY: made by `init` and freed by `deinit`, and there is no copy.
    private let pointer: OpaquePointer

    /// Why a file cannot be used. Never quotes what is in it: a keys file or a header that is given by mistake holds
    /// secrets.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// What is wrong, for people.
        public let description: String
        /// The file is not there at all, nor may its folder be.
        public let isMissing: Bool
    }

    /// Reads the file. Throws where it is not there, cannot be read, or is not in that syntax. `/dev/null` has nothing in
    /// it, for whoever wants no file to be read.
    public init(path: String) throws(Failure) {
        guard let file = g_key_file_new() else { throw Failure(description: "out of memory", isMissing: false) }
        guard path != "/dev/null" else {
            pointer = file
            return
        }
        var error: UnsafeMutablePointer<GError>?
        guard g_key_file_load_from_file(file, path, G_KEY_FILE_KEEP_TRANSLATIONS, &error) != 0 else {
            g_key_file_free(file)
            let message = error.map { Self.reason($0.pointee, path) } ?? "it cannot be read"
            // A folder of the path may be a file, as in XDG_CONFIG_HOME=/dev/null.
            let missing = [G_FILE_ERROR_NOENT, G_FILE_ERROR_NOTDIR].map { gint($0.rawValue) }
            let isMissing = error.map {
                $0.pointee.domain == g_file_error_quark() && missing.contains($0.pointee.code)
            }
            if let error { g_error_free(error) }
            throw Failure(description: message, isMissing: isMissing ?? false)
        }
        pointer = file
    }

    deinit { g_key_file_free(pointer) }

    private static func reason(_ error: GError, _ path: String) -> String {
        guard error.domain == g_key_file_error_quark() else {
            // Of opening and reading: names the file alone.
            return error.message.map { String(cString: $0) } ?? "it cannot be read"
        }
        switch GKeyFileError(UInt32(bitPattern: error.code)) {
        case G_KEY_FILE_ERROR_UNKNOWN_ENCODING: return "it is not in UTF-8"
        case G_KEY_FILE_ERROR_GROUP_NOT_FOUND: return "its first line is in no [group]"
        default:
            // GLib has no code of its own for this.
            let isThere = g_file_test(path, G_FILE_TEST_EXISTS) != 0
            if isThere, g_file_test(path, G_FILE_TEST_IS_REGULAR) == 0 { return "it is no regular file" }
            let line = firstBadLine(path).map { "line \($0)" } ?? "a line"
            return "\(line) is no “[group]”, “key=value” or “# comment”"
        }
    }

    /// From 1.
    private static func firstBadLine(_ path: String) -> Int? {
        var text: UnsafeMutablePointer<gchar>?
        guard g_file_get_contents(path, &text, nil, nil) != 0, let text else { return nil }
        defer { g_free(text) }
        let lines = UnsafeBufferPointer(start: text, count: strlen(text))
            .split(separator: CChar(bitPattern: 0x0A), omittingEmptySubsequences: false)
        let index = lines.firstIndex { line in
            let start = line.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            guard let first = start.first, first != CChar(bitPattern: 0x23) else { return false }
            if first == CChar(bitPattern: 0x5B) { return !start.contains(CChar(bitPattern: 0x5D)) }
            return first == CChar(bitPattern: 0x3D) || !start.contains(CChar(bitPattern: 0x3D))
        }
        return index.map { $0 + 1 }
    }

    /// The value, unescaped; nil where the group or the key is missing or the value is no UTF-8.
    public func string(_ key: String, in group: String) -> String? {
        guard let text = g_key_file_get_string(pointer, group, key, nil) else { return nil }
        defer { g_free(text) }
        return String(cString: text)
    }

    /// All keys of a group, in the file's order.
    public func keys(in group: String) -> [String] {
        var count: gsize = 0
        guard let keys = g_key_file_get_keys(pointer, group, &count, nil) else { return [] }
        defer { g_strfreev(keys) }
        return (0..<Int(count)).compactMap { keys[$0].map { String(cString: $0) } }
    }

    /// All groups, in the file's order.
    public var groups: [String] {
        var count: gsize = 0
        guard let groups = g_key_file_get_groups(pointer, &count) else { return [] }
        defer { g_strfreev(groups) }
        return (0..<Int(count)).compactMap { groups[$0].map { String(cString: $0) } }
    }
}
