// SPDX-License-Identifier: MPL-2.0

import Foundation

/// A folder with media in it and files around it, removed with the last reference.
final class TemporaryFolder: Sendable {
    let root: URL
    /// The folder that is served; `outside.txt` lies next to it.
    var media: URL { root.appendingPathComponent("media") }

    init() throws {
        root = FileManager.default.temporaryDirectory.appendingPathComponent("latchkey-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: media.appendingPathComponent("sub"), withIntermediateDirectories: true)
        try write("outside", to: "outside.txt")
        // A neighbour whose path starts like that of the folder.
        try FileManager.default.createDirectory(
            at: root.appendingPathComponent("media-other"), withIntermediateDirectories: true)
        try write("outside", to: "media-other/file.txt")
    }

    deinit { try? FileManager.default.removeItem(at: root) }

    /// Writes a file; `path` is relative to the root.
    func write(_ text: String, to path: String) throws { try write(Array(text.utf8), to: path) }

    func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: root.appendingPathComponent(path))
    }

    func link(_ path: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(
            atPath: root.appendingPathComponent(path).path, withDestinationPath: target)
    }
}
