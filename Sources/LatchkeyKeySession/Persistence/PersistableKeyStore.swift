// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Where small records are that need no protection from an older copy: reports of sessions, and which key servers send their
/// code. Keys are in a license store (`PersistableKeys`). It keeps bytes by name: letters, digits and hyphens, 128 at most.
///
/// Thread-safe. Calls may block for as long as a file system does.
public protocol PersistableKeyStore: Sendable {
    /// Nil where there is nothing of this name.
    func data(named name: String) throws(KeyError) -> [UInt8]?
    /// In place of what has this name.
    func store(_ data: [UInt8], named name: String) throws(KeyError)
    /// Nothing happens where there is nothing of this name.
    func remove(named name: String) throws(KeyError)
    /// In no order.
    func names() throws(KeyError) -> [String]
}

extension PersistableKeyStore {
    /// Removes everything. Throws at the first that cannot be removed; the others stay.
    public func removeAll() throws(KeyError) {
        for name in try names() { try remove(named: name) }
    }
}
