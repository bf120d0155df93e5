// SPDX-License-Identifier: MPL-2.0

import CLatchkeyKeyring
import Glibc
public import LatchkeyProtection
import LatchkeyStorage

/// A device secret of 32 random bytes in the kernel's keyring of this user (keyrings(7)), where no file holds it.
///
/// It is gone after a reboot, and the store with it: for licences that need not last. Where the kernel has no keyrings
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
            throw .secretMissing("the key “\(name)” is not in the user's keyring; reset the licence store")
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
