// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import Synchronization

/// Answers from a keys file, as `StaticKeyLoader` does.
///
/// The file is read at the first request and again when it changed. A request for a key that the file lacks goes on to
/// the next loader. Where the file cannot be read, the request fails with `invalidConfiguration`, which names the path
/// and the reason: a file that was asked for and does not work is not passed over in silence.
///
/// Thread-safe; the keys are held as long as the loader.
public final class KeysFileLoader: ResourceLoader {
    /// For logs.
    public let name: String
    /// Yes.
    public var needsNoNetwork: Bool { true }
    /// The path of the file, as it was given.
    public let path: String
    private let cache = Mutex<(stamp: RegularFile.Stamp, keys: StaticKeys)?>(nil)

    /// Reads nothing yet: a file that is missing shows with the first request.
    public init(path: String) {
        self.path = path
        name = "keys file \(path)"
    }

    /// Takes what the file has keys for, and every request where the file cannot be read.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        do throws(KeyError) {
            return try keys().load(request)
        } catch {
            request.finishLoading(with: error)
            return true
        }
    }

    private func keys() throws(KeyError) -> StaticKeys {
        let file = try RegularFile(path: path)
        let stamp = file.stamp
        if let cached = cache.withLock({ $0?.stamp == stamp ? $0?.keys : nil }) { return cached }
        var bytes = try file.contents(limit: KeysFile.maximumSize)
        defer { wipe(&bytes) }
        let keys = try StaticKeys.parse(file: bytes, name: "keys file \(path)")
        cache.withLock { $0 = (stamp, keys) }
        return keys
    }
}
