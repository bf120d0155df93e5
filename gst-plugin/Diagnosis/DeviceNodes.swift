// SPDX-License-Identifier: MPL-2.0

import Glibc

/// The device files that hardware decoders work through.
public struct DeviceNodes: Sendable {
    /// A file, and whether this process may use it.
    public struct Node: Sendable, Hashable {
        public let path: String
        public let isUsable: Bool
    }

    public let renderNodes: [Node]
    public let nvidia: [Node]
    public let video: [Node]

    /// Looks into a folder, `/dev` of the machine.
    public init(folder: String = "/dev") {
        renderNodes = Self.nodes("\(folder)/dri", prefix: "renderD")
        // nvidia0 is a card; nvidiactl, nvidia-uvm and others belong to the driver.
        nvidia = Self.nodes(folder, prefix: "nvidia").filter { $0.path.last?.isNumber == true }
        video = Self.nodes(folder, prefix: "video") + Self.nodes(folder, prefix: "media")
    }

    public var section: DiagnosisSection {
        DiagnosisSection(
            "Devices",
            Self.findings(
                renderNodes, "render nodes (VA-API, Vulkan)",
                none: "no render node in /dev/dri: VA-API decoders (va, vaapi) have nothing to work with")
                + Self.findings(
                    nvidia, "NVIDIA cards (NVDEC)", none: "no NVIDIA card: nvcodec's decoders have nothing to work with"
                )
                + Self.findings(
                    video, "video devices (V4L2)",
                    none: "no V4L2 device: v4l2 and v4l2codecs have nothing to work with"))
    }

    private static func findings(_ nodes: [Node], _ title: String, none: String) -> [Finding] {
        guard !nodes.isEmpty else { return [Finding(.fact, none)] }
        let list = nodes.map(\.path).joined(separator: ", ")
        var findings = [Finding(.fact, "\(title): \(list)")]
        let closed = nodes.filter { !$0.isUsable }.map(\.path)
        if !closed.isEmpty {
            findings.append(
                Finding(
                    .hint, "this user may not open \(closed.joined(separator: ", "))",
                    advice: "Add the user to the group of the file (ls -l shows it: often render or video), and log in "
                        + "again."))
        }
        return findings
    }

    private static func nodes(_ folder: String, prefix: String) -> [Node] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var nodes: [Node] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name.hasPrefix(prefix), name.dropFirst(prefix.count).first?.isNumber == true else { continue }
            let path = "\(folder)/\(name)"
            nodes.append(Node(path: path, isUsable: access(path, R_OK | W_OK) == 0))
        }
        return nodes.sorted { $0.path < $1.path }
    }
}
