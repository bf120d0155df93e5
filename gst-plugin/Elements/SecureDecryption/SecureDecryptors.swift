// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// The secure decryptors of the process. Thread-safe.
public enum SecureDecryptors {
    private static let registered = Mutex<[any SecureDecryptor]>([])

    /// Adds one behind those that are there. Streams whose caps come from now on may get it.
    public static func register(_ decryptor: any SecureDecryptor) { registered.withLock { $0.append(decryptor) } }

    /// Gives it to no stream whose caps come from now on; those that have it keep it. False where it is not registered.
    @discardableResult
    public static func unregister(_ decryptor: any SecureDecryptor) -> Bool {
        // The caller has a reference: it does not go under the lock.
        registered.withLock { registered in
            guard let index = registered.firstIndex(where: { $0 === decryptor }) else { return false }
            registered.remove(at: index)
            return true
        }
    }

    /// The first that takes the stream. They are asked without the lock.
    static func first(for stream: SecureStream) -> (any SecureDecryptor)? {
        registered.withLock(\.self).first { $0.takes(stream) }
    }
}
