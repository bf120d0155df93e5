// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import FoundationEssentials
import Glibc
public import LatchkeyKeySystems
import LatchkeyProtection

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
            let hasSecrets = !path.hasSuffix(".cer")
            return try RegularFile(path: path, kind: "file", hasSecrets: hasSecrets).contents(limit: maximumSize)
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
