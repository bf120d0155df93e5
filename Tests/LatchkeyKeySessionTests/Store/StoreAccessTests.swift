// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

/// Files and folders of a store that others may write to, and links in their place.
@Suite("License store, access")
struct StoreAccessTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func open() async -> LicenseStoreError? {
        do {
            let store = try await LicenseStore.open(folder.configuration)
            _ = try await store.record(recordID(1))
            await store.close()
            return nil
        } catch {
            return error as? LicenseStoreError
        }
    }

    private func made() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        await store.close()
    }

    @Test(
        arguments: [
            ("data/licenses.db", 0o602), ("data/licenses.db", 0o666), ("state/licenses.counter", 0o602),
            ("data", 0o777), ("state", 0o702),
        ])
    func whatOthersMayWriteIsRefused(name: String, mode: mode_t) async throws {
        try await made()
        let path = "\(folder.path)/\(name)"
        let before = try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
        #expect(chmod(path, mode) == 0)
        let error = await open()
        #expect(error?.isSameKind(as: .cannotOpen("")) == true)
        #expect(error?.description.contains("\(path): others may write to") == true, "\(String(describing: error))")
        #expect(chmod(path, mode_t(before)) == 0)
        #expect(await open() == nil)
    }

    /// Others may read what is sealed, and see the names in the folders. In a folder with the sticky bit, they cannot exchange
    /// files.
    @Test(arguments: [("data/licenses.db", 0o644), ("data", 0o755), ("data", 0o1777)])
    func whatOthersMayNotExchangeIsOpened(name: String, mode: mode_t) async throws {
        try await made()
        #expect(chmod("\(folder.path)/\(name)", mode) == 0)
        #expect(await open() == nil)
    }

    @Test(arguments: ["data/licenses.db", "data/licenses.db.lock", "state/licenses.counter"])
    func noFileIsALink(name: String) async throws {
        try await made()
        let path = "\(folder.path)/\(name)"
        try FileManager.default.moveItem(atPath: path, toPath: path + ".elsewhere")
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path + ".elsewhere")
        #expect(await open() != nil)
        // Nor is a file made where a link leads.
        try FileManager.default.moveItem(atPath: path + ".elsewhere", toPath: path + ".before")
        #expect(await open() != nil)
        #expect(!FileManager.default.fileExists(atPath: path + ".elsewhere"))
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: path + ".before", toPath: path)
        #expect(await open() == nil)
    }

    /// A home folder may be a link.
    @Test func aFolderMayBeALink() async throws {
        try await made()
        let path = "\(folder.path)/data"
        try FileManager.default.moveItem(atPath: path, toPath: path + ".elsewhere")
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path + ".elsewhere")
        #expect(await open() == nil)
        #expect(chmod(path + ".elsewhere", 0o777) == 0)
        #expect(await open() != nil)
    }
}

/// The same of single files with secrets, and of stored keys.
@Suite("Files with secrets, access")
struct SecretFileTests {
    let folder = TemporaryFolder()

    private func key(_ store: FilePersistableKeyStore) throws -> [UInt8]? { try store.data(named: "key") }

    @Test func storedKeysAreNoLinksAndNotInAFolderOfOthers() throws {
        let path = folder.path + "/keys"
        let store = try FilePersistableKeyStore(folder: path)
        try store.store([1, 2, 3], named: "key")
        #expect(try key(store) == [1, 2, 3])
        #expect(chmod(path, 0o777) == 0)
        let error = #expect(throws: KeyError.self) { try key(store) }
        #expect(error?.description.contains("\(path): others may write to it") == true)
        for name in ["key", "other"] { #expect(throws: KeyError.self) { try store.store([4], named: name) } }
        #expect(chmod(path, 0o700) == 0)
        #expect(try store.names() == ["key"])
        #expect(chmod(path + "/key.lkpk", 0o602) == 0)
        #expect(throws: KeyError.self) { try key(store) }
        #expect(chmod(path + "/key.lkpk", 0o600) == 0)
        #expect(try key(store) == [1, 2, 3])
        #expect(rename(path + "/key.lkpk", path + "/other") == 0)
        #expect(symlink(path + "/other", path + "/key.lkpk") == 0)
        #expect(throws: KeyError.self) { try key(store) }
    }

    /// Once for each file that others may read, and never for one that has no secrets.
    @Test func aWarningTellsOfSecretsThatOthersMayRead() async {
        await #expect(processExitsWith: .success) {
            let lines = Mutex<[String]>([])
            let folder = TemporaryFolder()
            FileWarnings.setHandler { line in lines.withLock { $0.append(line) } }
            func read(_ name: String, _ mode: mode_t) throws -> String {
                let path = folder.write("* c685730e9039aa683a2b62218280f4c1\n", to: name)
                #expect(chmod(path, mode) == 0)
                for _ in 0..<2 { #expect(try StaticKeys.read(path: path).entries.count == 1) }
                return path
            }
            _ = try read("private", 0o600)
            #expect(lines.withLock { $0 }.isEmpty)
            let path = try read("open", 0o644)
            let told = lines.withLock { $0 }
            #expect(told.count == 1)
            #expect(told.first == "keys file \(path) has secrets in it, and others may read it; run chmod go-r on it")
            #expect(throws: KeyError.self) {
                let certificate = folder.write("no certificate", to: "certificate")
                #expect(chmod(certificate, 0o644) == 0)
                _ = try RegularFile(path: certificate, kind: "certificate", has: .settings).contents(limit: 1)
            }
            #expect(lines.withLock { $0 }.count == 1)
            let key = folder.write("a key", to: "model-key.pem")
            #expect(chmod(key, 0o644) == 0)
            #expect(try ProvisioningFolder.contents(of: key).count == 5)
            #expect(lines.withLock { $0 }.count == 1)
            #expect(try ProvisioningFolder.contents(of: key, isSecret: true).count == 5)
            let last = lines.withLock { $0 }.last
            #expect(last == "file \(key) has secrets in it, and others may read it; run chmod go-r on it")
        }
    }
}
