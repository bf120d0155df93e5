// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection
import LatchkeyStorage

/// A device secret of 32 random bytes in a file that only its owner may read and write (mode 0600).
///
/// The file is made in one step: it is never there in part, and of two processes that make it at once, one wins and both
/// use it. A file that others may read or write, that another user owns, or that is no regular file is refused. The keys
/// are derived with the machine's id as salt, so that a copied home folder does not open on another machine.
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
                throw .secretMissing("\(path) is not there; put it back, or reset the licence store")
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
                    + "0600 and this user's. If others may have read it, reset the licence store")
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
