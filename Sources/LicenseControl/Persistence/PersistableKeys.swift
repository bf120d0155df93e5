// SPDX-License-Identifier: MPL-2.0

import KeySystems
public import ProtectionModel
import Synchronization

/// The stored keys of FairPlay-style licences, by content identifier. Thread-safe.
public struct PersistableKeys: Sendable {
    /// Where the sealed keys are.
    public let store: any PersistableKeyStore

    /// Of all stores of the process: several may be of one folder. It is held for as long as a small file takes.
    private static let writing = Mutex(())

    /// Keys are found under a digest of their content identifier.
    public init(_ store: any PersistableKeyStore) { self.store = store }

    /// The sealed key; nil where none is stored. Throws the errors of the store.
    public func key(for contentIdentifier: [UInt8]) throws(KeyError) -> [UInt8]? {
        try store.data(named: try name(contentIdentifier))
    }

    /// Stores a sealed key, in place of the one that is there. Throws the errors of the store.
    public func store(_ key: [UInt8], for contentIdentifier: [UInt8]) throws(KeyError) {
        let name = try name(contentIdentifier)
        try Self.writing.withLock { _ throws(KeyError) in try store.store(key, named: name) }
    }

    /// Stores a sealed key, unless the one that is there is to be kept. Returns the one that is there then. No `store` of
    /// this process comes between.
    func store(
        _ key: [UInt8], for contentIdentifier: [UInt8], unless keeps: ([UInt8]) -> Bool
    ) throws(KeyError) -> [UInt8] {
        let name = try name(contentIdentifier)
        return try Self.writing.withLock { _ throws(KeyError) in
            if let stored = try? store.data(named: name), keeps(stored) { return stored }
            try store.store(key, named: name)
            return key
        }
    }

    /// Removes a key, as AVFoundation's `invalidatePersistableContentKey(_:options:)`. Sessions that use it go on.
    /// Throws the errors of the store.
    public func invalidate(_ contentIdentifier: [UInt8]) throws(KeyError) {
        try store.remove(named: try name(contentIdentifier))
    }

    /// Removes every key, as AVFoundation's `invalidateAllPersistableContentKeys(forApp:options:)`. Throws the errors
    /// of the store.
    public func invalidateAll() throws(KeyError) { try store.removeAll() }

    private func name(_ contentIdentifier: [UInt8]) throws(KeyError) -> String {
        do throws(FairPlayError) {
            return "key-\(try FairPlayPersistableKey.recordName(for: contentIdentifier))"
        } catch {
            throw error.keyError
        }
    }
}
