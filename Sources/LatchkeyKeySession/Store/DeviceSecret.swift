// SPDX-License-Identifier: MPL-2.0

import CLatchkeyKeyring
import Glibc
import LatchkeyHTTP
public import LatchkeyProtection
import LatchkeyStorage

/// The secret of this device, from which the keys of the license store are derived.
///
/// A program that has it can open the store, so it stays on the device. Called on the thread of the store, which it may
/// block; thread-safe.
public protocol DeviceSecret: Sendable {
    /// A key of 32 bytes for one purpose: the same for the same purpose, and for another purpose one that tells nothing
    /// of this. A secret that is not there is made where `creating` is set; else it throws `secretMissing`, so that a
    /// store is never opened with a new secret by mistake.
    func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey
}

extension DeviceSecret {
    /// The key that FairPlay-style stored keys are sealed with (`KeySessionConfiguration.deviceSecret`); the secret is
    /// made where there is none.
    ///
    /// Throws `invalidConfiguration` where it cannot be used. May block.
    public func keyForPersistableKeys() throws(KeyError) -> SealingKey {
        do throws(LicenseStoreError) {
            return try ExitGate.pass { () throws(LicenseStoreError) in
                try key(for: "persistable keys 1", creating: true)
            }
        } catch {
            throw .invalidConfiguration("device secret: \(error)")
        }
    }
}

/// A device secret of 32 random bytes in a file that only its owner may read and write (mode 0600).
///
/// The file is made in one step: it is never there in part, and of two processes that make it at once, one wins and both
/// use it. A file that others may read or write, that another user owns, or that is no regular file is refused, and so is
/// one in a folder that others may write to. The keys are derived with the machine's id as salt, so that a copied home folder
/// does not open on another machine.
public struct FileDeviceSecret: DeviceSecret {
    /// The path of the file with the secret.
    public let path: String
    private let machine: [UInt8]

    /// `machine` stands for the device, and is no secret; nil reads `/etc/machine-id` (see machine-id(5)), where there
    /// is one.
    public init(path: String, machine: [UInt8]? = nil) {
        self.path = path
        self.machine = machine ?? Self.machineID()
    }

    /// Reads the file at each call. Throws `secretMissing`, `secretExposed` where others may read it, `secretUnusable`.
    public func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey {
        // Others could put a secret there that they know.
        if let flaw = FileAccess.folderFlaw(ofFile: path) { throw .secretUnusable("\(path): \(flaw)") }
        var secret: [UInt8]
        do throws(LicenseStoreError) {
            secret = try read()
        } catch  where creating && error.isSameKind(as: .secretMissing("")) {
            try create()
            secret = try read()
        }
        defer { wipe(&secret) }
        return try Self.derive(secret, machine: machine, purpose: purpose)
    }

    static func derive(
        _ secret: [UInt8], machine: [UInt8], purpose: String
    ) throws(LicenseStoreError) -> SealingKey {
        let result = secret.withUnsafeBytes { bytes in
            Result { () throws(LicenseStoreError) in
                try KeyDerivation.key(from: bytes, salt: machine, info: "latchkey " + purpose)
            }
        }
        return try result.get()
    }

    private func read() throws(LicenseStoreError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            let code = errno
            if code == ENOENT {
                throw .secretMissing("\(path) is not there; put it back, or reset the license store")
            }
            throw .secretUnusable("\(path): \(errorText(code))")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .secretUnusable("\(path): \(errorText(errno))") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .secretUnusable("\(path): not a regular file") }
        guard status.st_mode & 0o077 == 0, status.st_uid == geteuid() else {
            throw .secretExposed(
                "\(path) has mode 0\(String(status.st_mode & 0o777, radix: 8)) and owner \(status.st_uid); it must be "
                    + "0600 and this user's. If others may have read it, reset the license store")
        }
        // One more byte shows a file that is too long.
        var bytes = [UInt8](repeating: 0, count: SealingKey.size + 1)
        // SAFETY: exactly the array's bytes.
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count == SealingKey.size else {
            wipe(&bytes)
            throw .secretUnusable("\(path): not \(SealingKey.size) bytes; put the right file back, or reset the store")
        }
        bytes.removeLast()
        return bytes
    }

    private func create() throws(LicenseStoreError) {
        var secret = try randomBytes(SealingKey.size)
        defer { wipe(&secret) }
        do throws(LicenseStoreError) {
            try StoreFiles.create(path, contents: secret)
        } catch {
            throw .secretUnusable("the device secret cannot be made: \(error)")
        }
    }

    private static func machineID() -> [UInt8] {
        let descriptor = open("/etc/machine-id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        // SAFETY: exactly the array's bytes.
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)).prefix { $0 > 0x20 })
    }
}

/// A device secret of 32 random bytes in the kernel's keyring of this user (keyrings(7)), where no file holds it.
///
/// It is gone after a reboot, and the store with it: for licenses that need not last. Where the kernel has no keyrings
/// or does not let this process use them, `keyringUnavailable` says so, and the caller may fall back on a file.
public struct KeyringDeviceSecret: DeviceSecret {
    /// The description of the key, at most 200 bytes; two stores of one user need two.
    public let name: String

    /// Asks the kernel for nothing yet.
    public init(name: String = "latchkey:device-secret") { self.name = name }

    /// Reads the keyring at each call. Throws `secretMissing`, `keyringUnavailable`, `secretUnusable`.
    public func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey {
        guard !name.isEmpty, name.utf8.count <= 200, !name.utf8.contains(0) else {
            throw .secretUnusable("the name of the key in the keyring is empty, too long, or has a NUL in it")
        }
        var found = try read()
        if found == nil, creating { found = try create() }
        guard var secret = found else {
            throw .secretMissing("the key “\(name)” is not in the user's keyring; reset the license store")
        }
        defer { wipe(&secret) }
        return try FileDeviceSecret.derive(secret, machine: [], purpose: purpose)
    }

    /// Takes the secret out of the keyring. What is sealed with it cannot be opened any more. Does nothing where it is
    /// not there. Throws `keyringUnavailable` where the kernel refuses.
    public func remove() throws(LicenseStoreError) {
        let number = latchkey_keyring_search(name)
        let result = number < 0 ? number : latchkey_keyring_unlink(number)
        guard result >= 0 || Self.isAbsent(result) else { throw Self.failure(result) }
    }

    private func read() throws(LicenseStoreError) -> [UInt8]? {
        let number = latchkey_keyring_search(name)
        guard number >= 0 else {
            if Self.isAbsent(number) { return nil }
            throw Self.failure(number)
        }
        // One more byte shows a key that is too long.
        var bytes = [UInt8](repeating: 0, count: SealingKey.size + 1)
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let size = latchkey_keyring_read(number, &bytes, bytes.count)
        guard size == SealingKey.size else {
            wipe(&bytes)
            if size < 0 { throw Self.failure(size) }
            throw .secretUnusable("the key “\(name)” in the keyring has \(size) bytes, not \(SealingKey.size)")
        }
        bytes.removeLast()
        return bytes
    }

    private func create() throws(LicenseStoreError) -> [UInt8]? {
        var secret = try randomBytes(SealingKey.size)
        defer { wipe(&secret) }
        // SAFETY: the kernel copies exactly the array's bytes.
        let number = latchkey_keyring_add(name, secret, secret.count)
        guard number >= 0 else { throw Self.failure(number) }
        // Another process may have added one at the same moment; both read what came last.
        return try read()
    }

    /// The result is a serial number, or a negated error number.
    private static func isAbsent(_ result: Int) -> Bool {
        [ENOKEY, EKEYEXPIRED, EKEYREVOKED].contains { result == -Int($0) }
    }

    private static func failure(_ result: Int) -> LicenseStoreError {
        .keyringUnavailable("\(errorText(Int32(clamping: -result))); keep the device secret in a file")
    }
}

/// A device secret that stays in a token, a TPM or a trusted application: only keys derived from it come out.
///
/// `derive` is given the purpose and returns 32 bytes: an HMAC-SHA-256 of the purpose under a key of the token, say. It
/// is called on the thread of the store and may take its time. It throws a `LicenseStoreError`, `secretMissing` where
/// the token holds no key yet and it was not asked to make one.
public struct TokenDeviceSecret: DeviceSecret {
    /// Derives the bytes of a key from a secret, for a purpose; with `creating`, makes the secret where there is none.
    public typealias Derivation = @Sendable (_ purpose: String, _ creating: Bool) throws(LicenseStoreError) -> [UInt8]

    private let derive: Derivation

    /// `derive` is kept as long as the secret.
    public init(derive: @escaping Derivation) { self.derive = derive }

    /// Throws what the closure throws, `secretUnusable` for another number of bytes than 32, `cryptography` without
    /// memory.
    public func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey {
        var bytes = try derive("latchkey " + purpose, creating)
        defer { wipe(&bytes) }
        guard bytes.count == SealingKey.size else {
            throw .secretUnusable("the token gave \(bytes.count) bytes, not \(SealingKey.size)")
        }
        guard let key = SealingKey(bytes) else { throw .cryptography("no memory is left for a key") }
        return key
    }
}
