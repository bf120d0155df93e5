// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import LatchkeyElementKit

/// The GStreamer that runs here, with what Latchkey needs of it.
public enum GStreamerInstallation {
    /// Starts GStreamer; false with the reason where it does not start.
    public static func start() throws(DiagnosisError) {
        var error: UnsafeMutablePointer<GError>?
        guard gst_init_check(nil, nil, &error) == 0 else { return }
        defer { if let error { g_error_free(error) } }
        throw DiagnosisError(error.map { String(cString: $0.pointee.message) } ?? "GStreamer does not start")
    }

    public static var version: (major: UInt32, minor: UInt32, micro: UInt32) { Environment.gstreamerVersion }

    /// `latchkey` is the version of the command itself.
    public static func section(latchkey: String) -> DiagnosisSection {
        let version = version
        var findings = [
            Finding(.fact, "GStreamer \(version.major).\(version.minor).\(version.micro), Latchkey \(latchkey)")
        ]
        if (version.major, version.minor) < (1, 22) {
            findings.append(
                Finding(.problem, "Latchkey needs GStreamer 1.22 or newer", advice: "Install a newer GStreamer."))
        }
        findings.append(plugin(latchkey: latchkey))
        if let ranks = Environment.variable("GST_PLUGIN_FEATURE_RANK") {
            findings.append(Finding(.fact, "GST_PLUGIN_FEATURE_RANK=\(ranks)"))
        }
        findings += missingElements()
        findings += idlePlugins()
        return DiagnosisSection("GStreamer", findings)
    }

    private static func plugin(latchkey: String) -> Finding {
        guard let plugin = gst_registry_find_plugin(gst_registry_get(), "latchkey") else {
            return MissingPlugin().finding(exists: { access($0, R_OK) == 0 }, failure: MissingPlugin.failure(of:))
        }
        defer { gst_object_unref(UnsafeMutableRawPointer(plugin)) }
        let version = gst_plugin_get_version(plugin).map { String(cString: $0) } ?? "?"
        let file = gst_plugin_get_filename(plugin).map { String(cString: $0) } ?? "linked in"
        guard version == latchkey else {
            return Finding(
                .hint, "the plug-in latchkey is of version \(version): \(file)",
                advice: "The command is of version \(latchkey): install both from one build.")
        }
        return Finding(.fact, "plug-in latchkey \(version): \(file)")
    }

    /// Elements, what they are for, and the Debian package that has them.
    private static let needed: [(element: String, use: String, package: String)] = [
        ("playbin3", "players", "gstreamer1.0-plugins-base"),
        ("qtdemux", "MP4", "gstreamer1.0-plugins-good"),
        ("matroskademux", "WebM", "gstreamer1.0-plugins-good"),
        ("hlsdemux2", "HLS", "gstreamer1.0-plugins-good"),
        ("dashdemux2", "DASH", "gstreamer1.0-plugins-good"),
        ("mssdemux2", "Smooth Streaming", "gstreamer1.0-plugins-good"),
        ("souphttpsrc", "HTTP", "gstreamer1.0-plugins-good"),
        ("tsdemux", "transport streams", "gstreamer1.0-plugins-bad"),
        ("h264parse", "H.264", "gstreamer1.0-plugins-bad"),
        ("h265parse", "H.265", "gstreamer1.0-plugins-bad"),
        ("aacparse", "AAC", "gstreamer1.0-plugins-good"),
    ]

    private static func missingElements() -> [Finding] {
        needed.compactMap { element, use, package in
            guard let factory = gst_element_factory_find(element) else {
                return Finding(.problem, "\(element) is missing (\(use))", advice: "Debian has it in \(package).")
            }
            gst_object_unref(UnsafeMutableRawPointer(factory))
            return nil
        }
    }

    /// Plug-ins of hardware decoders look for their devices when they are loaded, and offer nothing where there are none.
    private static func idlePlugins() -> [Finding] {
        ["va", "vaapi", "nvcodec", "v4l2codecs", "video4linux2", "msdk", "qsv", "vulkan"].compactMap { name in
            guard let plugin = gst_registry_find_plugin(gst_registry_get(), name) else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(plugin)) }
            let features = gst_registry_get_feature_list_by_plugin(gst_registry_get(), name)
            defer { gst_plugin_feature_list_free(features) }
            var count = 0
            var item = features
            while let current = item {
                item = current.pointee.next
                guard let pointer = current.pointee.data, ek_is_decoder_factory(pointer) != 0 else { continue }
                count += 1
            }
            return count == 0
                ? Finding(
                    .fact,
                    "plug-in \(name) is there and offers no decoder: it found no device of its kind, or no driver for it"
                )
                : Finding(.fact, "plug-in \(name) offers \(count) decoders")
        }
    }
}

/// Why something cannot be looked at, in words for people.
public struct DiagnosisError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// Why GStreamer does not have the plug-in `latchkey`, and what to do.
public struct MissingPlugin {
    static let fileName = "libgstlatchkey.so"

    /// GStreamer's own folder of plug-ins; nil if it is not known.
    private let systemFolder: String?
    /// The other folders in which GStreamer looks for plug-ins, with all that is below them.
    private let searchedFolders: [String]
    /// The prefix of the installation that the command belongs to; nil if it is not known.
    private let prefix: String?

    public init(systemFolder: String?, searchedFolders: [String], prefix: String?) {
        self.systemFolder = systemFolder
        self.searchedFolders = searchedFolders
        self.prefix = prefix
    }

    /// Of this process.
    init() {
        let variable = Environment.variable("GST_PLUGIN_PATH_1_0") ?? Environment.variable("GST_PLUGIN_PATH")
        let command = g_file_read_link("/proc/self/exe", nil)
        defer { g_free(command) }
        self.init(
            systemFolder: Self.folderOfCoreElements,
            searchedFolders: variable?.split(separator: ":").map(String.init) ?? [],
            prefix: command.flatMap { Self.parent(of: String(cString: $0)) }.flatMap(Self.parent(of:)))
    }

    /// `exists` tells whether a file exists, `failure` why a plug-in cannot be loaded; nil if it can.
    public func finding(exists: (String) -> Bool, failure: (String) -> String?) -> Finding {
        let searched = (systemFolder.map { [$0] } ?? []) + searchedFolders
        let folders = searched + installedFolders
        guard let folder = folders.first(where: { exists("\($0)/\(Self.fileName)") }) else {
            let places = systemFolder.map { "in \($0) and in the folders of GST_PLUGIN_PATH" } ?? "in GST_PLUGIN_PATH"
            return Finding(
                .problem, "the plug-in latchkey is not found: protected media does not play",
                advice: "Install the package gstreamer1.0-latchkey, or build Latchkey and install it with "
                    + "`meson setup build --prefix=\(systemPrefix)` and `meson install -C build`. GStreamer looks \(places)."
            )
        }
        guard searched.contains(where: { folder == $0 || folder.hasPrefix("\($0)/") }) else {
            return Finding(
                .problem,
                "the plug-in latchkey is in \(folder), where GStreamer does not look: protected media does not play",
                advice: "Set GST_PLUGIN_PATH=\(folder), or build Latchkey with the prefix of GStreamer: "
                    + "`meson setup build --prefix=\(systemPrefix)`.")
        }
        let file = "\(folder)/\(Self.fileName)"
        guard let reason = failure(file) else {
            return Finding(
                .problem, "GStreamer's registry lacks the plug-in \(file), which can be loaded",
                advice:
                    "Remove the registry: the file that GST_REGISTRY names, or ~/.cache/gstreamer-1.0/registry.*.bin.")
        }
        return Finding(
            .problem, "the plug-in \(file) cannot be loaded: \(reason)",
            advice: "Install the library that is missing.")
    }

    /// What GStreamer says when it loads the plug-in.
    static func failure(of file: String) -> String? {
        var error: UnsafeMutablePointer<GError>?
        if let plugin = gst_plugin_load_file(file, &error) {
            gst_object_unref(UnsafeMutableRawPointer(plugin))
            return nil
        }
        defer { if let error { g_error_free(error) } }
        return error.map { String(cString: $0.pointee.message) } ?? "GStreamer gives no reason"
    }

    /// `lib/x86_64-linux-gnu/gstreamer-1.0` and the prefix before it.
    private var systemParts: (prefix: String, folder: String)? {
        guard let systemFolder else { return nil }
        let parts = systemFolder.split(separator: "/", omittingEmptySubsequences: false)
        guard let place = parts.lastIndex(where: { $0 == "lib" || $0 == "lib64" }) else { return nil }
        return (parts[..<place].joined(separator: "/"), parts[place...].joined(separator: "/"))
    }

    private var systemPrefix: String { systemParts?.prefix ?? "/usr" }

    private var installedFolders: [String] {
        guard let prefix else { return [] }
        let names = [systemParts?.folder, "lib/gstreamer-1.0", "lib64/gstreamer-1.0"]
        return names.compactMap { $0.map { "\(prefix)/\($0)" } }
    }

    private static var folderOfCoreElements: String? {
        guard let plugin = gst_registry_find_plugin(gst_registry_get(), "coreelements") else { return nil }
        defer { gst_object_unref(UnsafeMutableRawPointer(plugin)) }
        return gst_plugin_get_filename(plugin).flatMap { parent(of: String(cString: $0)) }
    }

    private static func parent(of path: String) -> String? { path.lastIndex(of: "/").map { String(path[..<$0]) } }
}
