// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import Glibc
public import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestAuthorities

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

/// The folder in which a test authority is kept, so that clients and a server that is started again share it.
///
/// Its files: `fairplay-v1.cer`, `fairplay-v2.cer` (certificates in DER), `fairplay-v1.key.pem`, `fairplay-v2.key.pem`
/// (private keys), `fairplay-ask.hex` (the application secret key, 32 hexadecimal digits). What clients need are a
/// certificate and the application secret key.
public enum FairPlayFolder {
    /// Reads the authority for both versions, or makes what is missing. A certificate and its private key are made
    /// together or not at all.
    ///
    /// Throws `FairPlayFolderError` with the file's path, and never its content.
    public static func authorities(at path: String) throws(FairPlayFolderError) -> [FairPlayTestAuthority] {
        try? FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let ask = try ask(at: "\(path)/fairplay-ask.hex")
        var result: [FairPlayTestAuthority] = []
        for version in SPCContainer.Version.allCases {
            result.append(try authority(version, ask: ask, at: "\(path)/fairplay-v\(version.rawValue)"))
        }
        return result
    }

    /// The most bytes of a file.
    private static let maximumSize = 1 << 20

    private static func ask(at path: String) throws(FairPlayFolderError) -> ContentKey {
        if let contents = try read(path) {
            let text = String(decoding: contents, as: UTF8.self).trimmed()
            guard let ask = ContentKey(hex: text) else {
                throw FairPlayFolderError(path: path, reason: "not 32 hexadecimal digits")
            }
            return ask
        }
        guard let ask = ContentKey((0..<16).map { _ in UInt8.random(in: 0...255) }) else {
            throw FairPlayFolderError(path: path, reason: "no memory for a key is left")
        }
        try write(ask.withBytes { Array("\(Hex.encode($0))\n".utf8) }, to: path, mode: 0o600)
        return ask
    }

    private static func authority(
        _ version: SPCContainer.Version, ask: ContentKey, at base: String
    ) throws(FairPlayFolderError) -> FairPlayTestAuthority {
        let (certificatePath, keyPath) = ("\(base).cer", "\(base).key.pem")
        let certificate = try read(certificatePath)
        let made: FairPlayTestAuthority
        var pem = try read(keyPath)
        defer { if var bytes = pem.take() { wipe(&bytes) } }
        guard (certificate == nil) == (pem == nil) else {
            throw FairPlayFolderError(
                path: certificate == nil ? certificatePath : keyPath, reason: "missing; remove its twin to make both")
        }
        do throws(FairPlayError) {
            if let certificate, let pem {
                let authority = try FairPlayTestAuthority.read(certificate: certificate, privateKeyPEM: pem, ask: ask)
                guard authority.version == version else {
                    throw .invalidCertificate("its key is not of the size that SPC version \(version.rawValue) has")
                }
                return authority
            }
            let authority = try FairPlayTestAuthority.generate(version, ask: ask)
            pem = try authority.privateKeyPEM()
            made = authority
        } catch {
            throw FairPlayFolderError(path: certificatePath, reason: error.description)
        }
        try write(pem ?? [], to: keyPath, mode: 0o600)
        try write(made.certificate, to: certificatePath, mode: 0o644)
        return made
    }

    /// Nil where there is no such file.
    private static func read(_ path: String) throws(FairPlayFolderError) -> [UInt8]? {
        guard access(path, F_OK) == 0 else { return nil }
        do throws(KeyError) {
            let contents: RegularFile.Contents = path.hasSuffix(".cer") ? .settings : .secrets
            return try RegularFile(path: path, kind: "file", has: contents).contents(limit: maximumSize)
        } catch {
            throw FairPlayFolderError(path: path, reason: error.reason)
        }
    }

    private static func write(_ bytes: [UInt8], to path: String, mode: mode_t) throws(FairPlayFolderError) {
        if let reason = NewFile.write(bytes, to: path, mode: mode) {
            throw FairPlayFolderError(path: path, reason: reason)
        }
    }
}

/// A file of a test authority that cannot be used.
public struct FairPlayFolderError: Error, Hashable, CustomStringConvertible {
    /// The file, or the folder.
    public let path: String
    let reason: String
    /// Path and reason, for the operator of the server.
    public var description: String { "\(path): \(reason)" }
}

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
                let file = try RegularFile(
                    path: "\(path)/\(name)", kind: "file", has: name.hasSuffix(".pem") ? .secrets : .settings)
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

/// A file that was not there before.
enum NewFile {
    /// Writes it. Returns why that is not possible, or nil.
    static func write(_ bytes: [UInt8], to path: String, mode: mode_t) -> String? {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        defer { close(descriptor) }
        return Glibc.write(descriptor, bytes, bytes.count) == bytes.count ? nil : "cannot be written"
    }
}
