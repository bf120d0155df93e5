// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import FoundationEssentials
import Glibc
public import LatchkeyKeySystems
import LatchkeyProtection

/// The folder in which a PlayReady-style test authority is kept, so that clients and a server that is started again share
/// it.
///
/// Its files: `playready-NAME-key.pem` (private keys), `playready-NAME.bcert` (certificate chains), and the public keys
/// `playready-root.pub` and `playready-server.pub` (P-256, x and y, 64 bytes). What clients need are
/// `playready-model.bcert`, `playready-model-key.pem` and the two public keys.
public enum PlayReadyFolder {
    private static let prefix = "playready-"
    /// The most bytes of a file.
    private static let maximumSize = 1 << 20

    /// Reads the authority, or makes one where the folder has no file of one.
    ///
    /// Throws `PlayReadyFolderError` with the path, and never a file's content.
    public static func authority(at path: String) throws(PlayReadyFolderError) -> PlayReadyTestAuthority {
        let manager = FileManager.default
        try? manager.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        guard let names = try? manager.contentsOfDirectory(atPath: path) else {
            throw PlayReadyFolderError(path: path, reason: "no folder that can be read")
        }
        var files: [String: [UInt8]] = [:]
        defer { for name in Array(files.keys) { if var bytes = files.removeValue(forKey: name) { wipe(&bytes) } } }
        for name in names where name.hasPrefix(prefix) {
            do throws(KeyError) {
                let file = try RegularFile(path: "\(path)/\(name)", kind: "file", hasSecrets: name.hasSuffix(".pem"))
                files[String(name.dropFirst(prefix.count))] = try file.contents(limit: maximumSize)
            } catch {
                throw PlayReadyFolderError(path: path, reason: error.reason)
            }
        }
        do throws(PlayReadyError) {
            if !names.contains(where: { $0.hasPrefix(prefix) }) {
                let authority = try PlayReadyTestAuthority.generate()
                files = try authority.files()
                for (name, bytes) in files {
                    let mode: mode_t = name.hasSuffix(".pem") ? 0o600 : 0o644
                    if let reason = NewFile.write(bytes, to: "\(path)/\(prefix)\(name)", mode: mode) {
                        throw .provisioning("\(prefix)\(name): \(reason)")
                    }
                }
                return authority
            }
            return try PlayReadyTestAuthority.read(files: files)
        } catch {
            throw PlayReadyFolderError(path: path, reason: error.description)
        }
    }
}

/// A folder of a PlayReady-style test authority that cannot be used.
public struct PlayReadyFolderError: Error, Hashable, CustomStringConvertible {
    /// The file, or the folder.
    public let path: String
    let reason: String
    /// Path and reason, for the operator of the server.
    public var description: String { "\(path): \(reason)" }
}
