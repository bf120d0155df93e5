// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

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
