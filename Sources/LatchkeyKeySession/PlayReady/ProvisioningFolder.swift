// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyKeySystems
import LatchkeyProtection

/// A folder with what PlayReady-style licenses need: the model's certificate and key, those who are trusted, and the
/// device that was made from them.
///
/// | file | what it is |
/// |---|---|
/// | `playready-model.bcert` | the model's certificate chain |
/// | `playready-model-key.pem` | the model's private key, P-256 in PEM without a pass phrase |
/// | `playready-root.pub` | what all chains go back to: P-256, x and y, 64 bytes |
/// | `playready-server.pub` | what challenges are encrypted for, likewise |
/// | `playready-time.pub` | what the time service goes back to, likewise; missing: the root |
/// | `playready-revocation.crl` | a revocation list (`RevocationList`); may be missing |
/// | `playready-device.bcert`, `playready-device-signing-key.pem`, `playready-device-encryption-key.pem` | the device |
///
/// Private keys are files of mode 0600 in a folder of mode 0700. The names of the first four are those that the test
/// authority of `latchkey-server` uses. Reads and writes when it is called; any thread.
public struct ProvisioningFolder: Sendable {
    /// The files, by their names.
    public enum File: String, CaseIterable, Sendable {
        /// The model's `BCertChain`, up to one that the root signed.
        case modelCertificate = "playready-model.bcert"
        /// The model's private key in PEM, or its PKCS #11 URI. Mode 0600.
        case modelKey = "playready-model-key.pem"
        /// The public key of the root: P-256, x and y, 64 bytes.
        case rootKey = "playready-root.pub"
        /// The public key that challenges are encrypted for: P-256, x and y, 64 bytes.
        case serverKey = "playready-server.pub"
        /// The public key that the time service goes back to, in the same form.
        case timeKey = "playready-time.pub"
        /// A `RevocationList`.
        case revocationList = "playready-revocation.crl"
        /// The device's `BCertChain`, up to one that the root signed.
        case deviceCertificate = "playready-device.bcert"
        /// The private key that signs challenges. Mode 0600.
        case deviceSigningKey = "playready-device-signing-key.pem"
        /// The private key that opens licenses. Mode 0600.
        case deviceEncryptionKey = "playready-device-encryption-key.pem"

        var isSecret: Bool {
            switch self {
            case .modelKey, .deviceSigningKey, .deviceEncryptionKey: true
            case .modelCertificate, .rootKey, .serverKey, .timeKey, .revocationList, .deviceCertificate: false
            }
        }

        fileprivate static let device: [File] = [.deviceCertificate, .deviceSigningKey, .deviceEncryptionKey]
    }

    /// The most bytes of a file that are read.
    private static let limit = 1024 * 1024

    /// The path of the folder, as it was given.
    public let path: String

    /// Neither reads nor makes the folder.
    public init(path: String) { self.path = path }

    /// Where a file is, or would be.
    public func path(of file: File) -> String { "\(path)/\(file.rawValue)" }

    // MARK: Reading

    /// The bundle, checked. Throws `ProvisioningError` with the file that is wrong.
    public func provisioning() throws(ProvisioningError) -> PlayReadyProvisioning {
        let certificate = try read(.modelCertificate)
        let (rootKey, serverKey) = (try publicKey(.rootKey), try publicKey(.serverKey))
        let timeKey = exists(.timeKey) ? try publicKey(.timeKey) : nil
        let lists = exists(.revocationList) ? [try read(.revocationList)] : []
        var key = try read(.modelKey)
        defer { wipe(&key) }
        do throws(PlayReadyError) {
            return try PlayReadyProvisioning(
                modelCertificate: certificate, modelPrivateKeyPEM: key, rootKey: rootKey, serverKey: serverKey,
                timeKey: timeKey, revocationLists: lists)
        } catch {
            throw ProvisioningError(path: path(of: Self.file(of: error)), reason: error.description)
        }
    }

    /// The device; nil where none has been made yet. Throws `ProvisioningError` with the file that is wrong.
    public func device() throws(ProvisioningError) -> PlayReadyDevice? {
        guard File.device.contains(where: exists) else { return nil }
        let chain = try read(.deviceCertificate)
        var (signing, encryption): ([UInt8], [UInt8]) = ([], [])
        defer {
            wipe(&signing)
            wipe(&encryption)
        }
        signing = try read(.deviceSigningKey)
        encryption = try read(.deviceEncryptionKey)
        do throws(PlayReadyError) {
            return try PlayReadyDevice(chain: chain, signingKeyPEM: signing, encryptionKeyPEM: encryption)
        } catch {
            throw ProvisioningError(path: path(of: .deviceCertificate), reason: error.description)
        }
    }

    // MARK: Writing

    /// Puts a bundle into the folder, which is made where it is missing, and checks it before anything is written.
    ///
    /// Each file is replaced in one step. A device that another model made goes, and its licenses with it: they are for
    /// its keys. Throws `ProvisioningError` with the file that cannot be used or written.
    public func write(
        modelCertificate: [UInt8], modelPrivateKeyPEM: [UInt8], rootKey: [UInt8], serverKey: [UInt8],
        timeKey: [UInt8]? = nil, revocationList: [UInt8]? = nil
    ) throws(ProvisioningError) {
        let bundle: PlayReadyProvisioning
        do throws(PlayReadyError) {
            bundle = try PlayReadyProvisioning(
                modelCertificate: modelCertificate, modelPrivateKeyPEM: modelPrivateKeyPEM, rootKey: rootKey,
                serverKey: serverKey, timeKey: timeKey, revocationLists: revocationList.map { [$0] } ?? [])
        } catch {
            throw ProvisioningError(path: path(of: Self.file(of: error)), reason: error.description)
        }
        try makeFolder()
        if let device = try? device(), !device.isMade(by: bundle) {
            removeDevice()
        }
        try write(modelCertificate, to: .modelCertificate)
        try write(modelPrivateKeyPEM, to: .modelKey)
        try write(rootKey, to: .rootKey)
        try write(serverKey, to: .serverKey)
        // What the new bundle lacks must not stay from an older one.
        for (bytes, file) in [(timeKey, File.timeKey), (revocationList, .revocationList)] {
            if let bytes { try write(bytes, to: file) } else { _ = unlink(path(of: file)) }
        }
    }

    /// The device of the folder, made here from the model's key where there is none yet. Throws `ProvisioningError` for
    /// a bundle that is not complete, for the device of another model, and where a file cannot be written.
    public func makeDevice() throws(ProvisioningError) -> PlayReadyDevice {
        let bundle = try provisioning()
        if let device = try device() {
            guard device.isMade(by: bundle) else {
                throw ProvisioningError(
                    path: path(of: .deviceCertificate), reason: "another model made this device; remove its three files"
                )
            }
            return device
        }
        let device: PlayReadyDevice
        var (signing, encryption): ([UInt8], [UInt8]) = ([], [])
        defer {
            wipe(&signing)
            wipe(&encryption)
        }
        do throws(PlayReadyError) {
            device = try bundle.makeDevice()
            (signing, encryption) = try device.privateKeyPEMs()
        } catch {
            throw ProvisioningError(path: path(of: .deviceCertificate), reason: error.description)
        }
        do throws(ProvisioningError) {
            try write(signing, to: .deviceSigningKey)
            try write(encryption, to: .deviceEncryptionKey)
            try write(device.chain.serialized, to: .deviceCertificate)
        } catch {
            removeDevice()
            throw error
        }
        return device
    }
}

extension ProvisioningFolder {
    /// Reads a public key as it is provisioned: 64 bytes x and y, the same behind a 4, or either in hexadecimal.
    public static func publicKey(_ bytes: [UInt8]) -> [UInt8]? {
        var key = bytes
        if bytes.count >= 128 {
            let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
            guard let decoded = Hex.decode(text) else { return nil }
            key = decoded
        }
        if key.count == 65, key.first == 4 { key.removeFirst() }
        return key.count == 64 ? key : nil
    }

    private func publicKey(_ file: File) throws(ProvisioningError) -> [UInt8] {
        guard let key = Self.publicKey(try read(file)) else {
            throw ProvisioningError(path: path(of: file), reason: "no public key of P-256: 64 bytes, x and y")
        }
        return key
    }

    private func exists(_ file: File) -> Bool { access(path(of: file), F_OK) == 0 }

    private func read(_ file: File) throws(ProvisioningError) -> [UInt8] {
        try Self.contents(of: path(of: file), isSecret: file.isSecret)
    }

    /// The bytes of a file that is provisioned. The caller wipes them where they are secret; of such a file, a warning tells if
    /// others may read it. Throws `ProvisioningError` where it cannot be read, is no regular file, can be changed by others, or
    /// has more than 1 MiB.
    public static func contents(of path: String, isSecret: Bool = false) throws(ProvisioningError) -> [UInt8] {
        do throws(KeyError) {
            let file = try RegularFile(path: path, kind: "file", has: isSecret ? .secrets : .settings)
            return try file.contents(limit: limit)
        } catch {
            throw ProvisioningError(
                path: path, reason: "cannot be read: \(error.reason.trimmingPrefix("file \(path): "))")
        }
    }

    private func removeDevice() { for file in File.device { _ = unlink(path(of: file)) } }

    private func makeFolder() throws(ProvisioningError) {
        guard mkdir(path, 0o700) != 0, errno != EEXIST else { return }
        throw ProvisioningError(path: path, reason: String(cString: strerror(errno)))
    }

    private func write(_ bytes: [UInt8], to file: File) throws(ProvisioningError) {
        do throws(KeyError) {
            try RegularFile.write(bytes, to: path(of: file), subject: file.rawValue)
        } catch {
            throw ProvisioningError(path: path(of: file), reason: "cannot be written (\(error))")
        }
        // What is public may be read by others, for whom the folder is open.
        if !file.isSecret { _ = chmod(path(of: file), 0o644) }
    }

    /// The file that an error of the bundle is about.
    private static func file(of error: PlayReadyError) -> File {
        switch error.part {
        case .rootKey: .rootKey
        case .serverKey: .serverKey
        case .modelPrivateKey: .modelKey
        case .timeKey: .timeKey
        case .revocationList: .revocationList
        case .modelCertificate, nil: .modelCertificate
        }
    }
}

/// A file of a provisioning folder, or one that is to get into it, that cannot be used.
public struct ProvisioningError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of the file that the error is about.
    public let path: String
    /// Never has the file's content in it.
    public let reason: String

    /// `reason` must not quote the file: it may be a private key.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    /// Path and reason.
    public var description: String { "\(path): \(reason)" }
}
