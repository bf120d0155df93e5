// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyManifests

/// Where the item with a URL is: in a folder with the name of the normalized URL. Before URLs were normalized, the name was
/// that of the spelling that was given. A value; looks at the disk for a moment.
struct ItemFolder: Sendable {
    private let path: String
    /// By the spelling; nil where that is the same.
    private let older: String?

    init(of url: String, in folder: String) {
        // A URL without a digest would be one without OpenSSL.
        func path(_ url: String) -> String { "\(folder)/\((try? BlockDigest.name(of: url)) ?? "unknown")" }
        let normalized = URIReference.normalized(url)
        self.path = path(normalized)
        older = normalized == url ? nil : path(url)
    }

    /// Whether something of the item is on disk.
    var isThere: Bool { Self.hasIndex(path) || older.map(Self.hasIndex) ?? false }

    /// The folder to use. One with the older name gets the new one, unless somebody has it open: then it stays for now.
    func settled() -> String {
        guard let older, !Self.hasIndex(path), Self.hasIndex(older) else { return path }
        guard let lock = try? CacheFolder.Lock(older, for: .removal) else { return older }
        return withExtendedLifetime(lock) { rename(older, path) == 0 ? path : older }
    }

    private static func hasIndex(_ folder: String) -> Bool { CacheFolder.exists(folder + "/index.db") }
}
