// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// The contents of a configuration file in GLib's `GKeyFile` syntax: `[group]`, `key=value`, `#` comments.
public struct ConfigurationFile: ~Copyable {
    // SAFETY: made by `init` and freed by `deinit`, and there is no copy.
    private let pointer: OpaquePointer

    /// Why a file cannot be used. Never quotes what is in it: a keys file or a header that is given by mistake holds
    /// secrets.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// What is wrong, for people.
        public let description: String
    }

    /// Reads what a file has in it. Throws where that is not in the syntax.
    public init(contents: [UInt8]) throws(Failure) {
        guard let file = g_key_file_new() else { throw Failure(description: "out of memory") }
        guard !contents.isEmpty else {
            pointer = file
            return
        }
        var error: UnsafeMutablePointer<GError>?
        let isRead = contents.withUnsafeBytes { bytes in
            // SAFETY: exactly the array's bytes, which GLib copies.
            let text = bytes.baseAddress?.assumingMemoryBound(to: gchar.self)
            return g_key_file_load_from_data(file, text, gsize(bytes.count), ek_key_file_keep_translations(), &error)
        }
        guard isRead != 0 else {
            g_key_file_free(file)
            let message = error.map { Self.reason($0.pointee, contents) } ?? "it cannot be read"
            if let error { g_error_free(error) }
            throw Failure(description: message)
        }
        pointer = file
    }

    deinit { g_key_file_free(pointer) }

    private static func reason(_ error: GError, _ contents: [UInt8]) -> String {
        guard error.domain == g_key_file_error_quark() else { return "it cannot be read" }
        switch GKeyFileError(UInt32(bitPattern: error.code)) {
        case G_KEY_FILE_ERROR_UNKNOWN_ENCODING: return "it is not in UTF-8"
        case G_KEY_FILE_ERROR_GROUP_NOT_FOUND: return "its first line is in no [group]"
        default:
            // GLib has no code of its own for this.
            let line = firstBadLine(contents).map { "line \($0)" } ?? "a line"
            return "\(line) is no “[group]”, “key=value” or “# comment”"
        }
    }

    /// From 1.
    private static func firstBadLine(_ contents: [UInt8]) -> Int? {
        let lines = contents.prefix { $0 != 0 }.split(separator: 0x0A, omittingEmptySubsequences: false)
        let index = lines.firstIndex { line in
            let start = line.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            guard let first = start.first, first != 0x23 else { return false }
            if first == 0x5B { return !start.contains(0x5D) }
            return first == 0x3D || !start.contains(0x3D)
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

/// What GLib knows of the process's surroundings.
public enum Environment {
    /// An environment variable that is set and not empty.
    public static func variable(_ name: String) -> String? {
        guard let value = g_getenv(name) else { return nil }
        let text = String(cString: value)
        return text.isEmpty ? nil : text
    }

    /// The user's configuration folder (`XDG_CONFIG_HOME`, usually `~/.config`).
    public static var userConfigurationFolder: String { String(cString: g_get_user_config_dir()) }

    /// The version of the GStreamer library that runs.
    public static var gstreamerVersion: (major: UInt32, minor: UInt32, micro: UInt32) {
        var version: (guint, guint, guint, guint) = (0, 0, 0, 0)
        gst_version(&version.0, &version.1, &version.2, &version.3)
        return (version.0, version.1, version.2)
    }
}
