// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials

/// A complete test authority in a folder: what `PlayReadyFolder` and `FairPlayFolder` keep.
public struct AuthorityFolder: Hashable, Sendable {
    /// The names of files that were made, in order.
    public let made: [String]
    /// Those of files of an authority that were there, and are as they were.
    public let kept: [String]

    /// What clients are provisioned with. It belongs to private keys that are there, so nothing new can take its place.
    private static let forClients = ["model.bcert", "model-key.pem", "root.pub", "server.pub"].map { "playready-" + $0 }

    /// Makes what is missing in the folder, which is made, too, where it is not there. What is there stays as it is.
    ///
    /// Throws as the two folders do where something is there that is no authority's, or lacks what clients need.
    public init(makingAt path: String) throws {
        let before = try Self.names(at: path)
        _ = try PlayReadyFolder.authority(at: path)
        _ = try FairPlayFolder.authorities(at: path)
        let now = try Self.names(at: path)
        if let missing = Self.forClients.first(where: { !now.contains($0) }) {
            throw PlayReadyFolderError(
                path: path, reason: "\(missing) is missing; put it back, or name an empty folder")
        }
        made = now.filter { !before.contains($0) }
        kept = before
    }

    /// In words, a line each.
    public func lines(for path: String) -> [String] {
        let files = made.map { "made  \($0)" } + kept.map { "kept  \($0)" }
        let result =
            if kept.isEmpty {
                "\(path): a new test authority"
            } else if made.isEmpty {
                "\(path): a test authority was there already; nothing was made or changed. Name an empty folder to "
                    + "make another one."
            } else {
                "\(path): a part of a test authority was there and was kept; the rest was made"
            }
        return files + [result]
    }

    private static func names(at path: String) throws -> [String] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        do {
            return try FileManager.default.contentsOfDirectory(atPath: path).filter {
                $0.hasPrefix("playready-") || $0.hasPrefix("fairplay-")
            }.sorted()
        } catch {
            throw PlayReadyFolderError(path: path, reason: "no folder that can be read")
        }
    }
}
