// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// A store whose folder is given, as by the settings of every key system. Its counter is elsewhere.
@Suite struct FolderStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func configuration(
        _ name: String = "store", state: String? = nil, isResolved: Bool = false
    ) -> LicenseStoreConfiguration {
        let path = "\(isResolved ? StoreFiles.resolved(folder.path) : folder.path)/\(name)"
        var configuration = LicenseStoreConfiguration(
            folder: path, environment: ["XDG_STATE_HOME": state ?? folder.path + "/state"])
        configuration.secret = FileDeviceSecret(path: path + "/device.secret", machine: Array("latchkey".utf8))
        return configuration
    }

    private func fill(_ configuration: LicenseStoreConfiguration, _ numbers: ClosedRange<Int>) async throws {
        let store = try await LicenseStore.open(configuration)
        for number in numbers { try await store.put(license(number)) }
        await store.close()
    }

    private func count(_ configuration: LicenseStoreConfiguration) async throws -> Int {
        let store = try await LicenseStore.open(configuration)
        let count = try await store.list().count
        await store.close()
        return count
    }

    private func opening(_ configuration: LicenseStoreConfiguration) async -> String? {
        await failure { try await LicenseStore.open(configuration).close() }
    }

    /// A program that another thread is starting has a copy of each descriptor until it runs.
    @Test func aCopyOfItsDescriptorKeepsNoLock() throws {
        let name = "/copied.lock"
        var lock: StoreLock? = try StoreLock(path: folder.path + name)
        let descriptor = try #require(
            (0..<4096).first {
                let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
                return path.map { $0.hasSuffix(name) && $0.contains(folder.path.split(separator: "-").last ?? "-") }
                    == true
            })
        let copy = fcntl(Int32(descriptor), F_DUPFD_CLOEXEC, 0)
        defer { close(copy) }
        let other = try StoreLock(path: folder.path + name)
        #expect(copy >= 0 && lock != nil && !other.becomeExclusive())
        lock = nil
        #expect(other.becomeExclusive())
    }

    // MARK: What is put back

    @Test func aFolderThatIsPutBackIsRefused() async throws {
        try await fill(configuration(), 1...2)
        try folder.copy("store", to: "older")
        try await fill(configuration(), 3...3)
        try folder.copy("store", to: "latest")
        try folder.copy("older", to: "store")
        #expect(await opening(configuration()) == "rolled back")
        try folder.copy("latest", to: "store")
        #expect(try await count(configuration()) == 3)
    }

    /// Of what is in the folder, only the database says what is stored; the rest may be as old as it likes.
    @Test func aFileThatIsPutBackIsRefusedOrNoOlder() async throws {
        try await fill(configuration(), 1...2)
        try folder.copy("store", to: "older")
        try await fill(configuration(), 3...3)
        try folder.copy("store", to: "latest")
        let names = try folder.names(in: "older")
        #expect(names == ["device.secret", "licenses.db", "licenses.db-journal", "licenses.db.lock"])
        for name in names {
            try folder.copy("latest", to: "store")
            try folder.copy("older/\(name)", to: "store/\(name)")
            if name == "licenses.db" {
                #expect(await opening(configuration()) == "rolled back")
            } else {
                #expect(try await count(configuration()) == 3, "\(name)")
            }
        }
    }

    @Test func aCopyElsewhereIsRefused() async throws {
        try await fill(configuration(), 1...2)
        try folder.copy("store", to: "copy")
        #expect(await opening(configuration("copy")) == "missing")
        #expect(try await count(configuration()) == 2)
    }

    /// The same database under another name is no other store either.
    @Test func aHardLinkElsewhereIsRefused() async throws {
        try await fill(configuration(), 1...2)
        try folder.copy("store", to: "copy")
        try folder.remove("copy/licenses.db")
        try FileManager.default.linkItem(
            atPath: folder.path + "/store/licenses.db", toPath: folder.path + "/copy/licenses.db")
        #expect(await opening(configuration("copy")) == "missing")
        #expect(try await count(configuration()) == 2)
    }

    @Test func aFolderThatBecomesALinkToAnOlderCopyIsRefused() async throws {
        try await fill(configuration(), 1...2)
        try folder.copy("store", to: "older")
        let store = try await LicenseStore.open(configuration())
        try await store.put(license(3))
        try FileManager.default.moveItem(atPath: folder.path + "/store", toPath: folder.path + "/latest")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/store", withDestinationPath: folder.path + "/older")
        #expect(await failure { try await store.put(license(4)) } == "missing")
        #expect(await failure { try await store.list() } == "missing")
        await store.close()
        #expect(await opening(configuration()) == "missing")
        try folder.remove("store")
        try FileManager.default.moveItem(atPath: folder.path + "/latest", toPath: folder.path + "/store")
        #expect(try await count(configuration()) == 3)
    }

    /// Moves the folder, and puts a link to another one in its place.
    private func link(to other: String, moving place: String) throws {
        try FileManager.default.moveItem(atPath: folder.path + "/store", toPath: "\(folder.path)/\(place)")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/store", withDestinationPath: "\(folder.path)/\(other)")
    }

    /// A counter that went along with the link would be missing then.
    @Test(arguments: ["rolled back", "altered", "missing"])
    func theRightFolderGoesOnAfterARefusedLink(refusal: String) async throws {
        try await fill(configuration(isResolved: true), 1...2)
        try folder.copy("store", to: "other")
        try await fill(configuration(isResolved: true), 3...3)
        let counter = configuration(isResolved: true).counter
        switch refusal {
        case "altered":
            try folder.copy("store", to: "other")
            try SQLiteAccess(folder.path + "/other/licenses.db").execute(
                "DELETE FROM record WHERE number = (SELECT min(number) FROM record)")
        case "missing": try folder.remove("other/licenses.db")
        default: break
        }
        try link(to: "other", moving: "latest")
        #expect(await opening(configuration(isResolved: true)) == refusal)
        #expect(configuration(isResolved: true).counter != counter)
        #expect(!StoreFiles.exists(configuration(isResolved: true).counter))
        try folder.remove("store")
        try FileManager.default.moveItem(atPath: folder.path + "/latest", toPath: folder.path + "/store")
        #expect(configuration(isResolved: true).counter == counter)
        #expect(try await count(configuration(isResolved: true)) == 3)
    }

    @Test func aFolderThatIsMovedBehindALinkTakesItsCounterAlong() async throws {
        try await fill(configuration(isResolved: true), 1...2)
        let counter = configuration(isResolved: true).counter
        try link(to: "moved", moving: "moved")
        try await fill(configuration(isResolved: true), 3...3)
        #expect(!StoreFiles.exists(counter) && StoreFiles.exists(configuration(isResolved: true).counter))
        #expect(try await count(configuration("moved", isResolved: true)) == 3)
        // What was counted through the link counts.
        try folder.copy("moved", to: "older")
        try await fill(configuration(isResolved: true), 4...4)
        try folder.copy("older", to: "moved")
        #expect(await opening(configuration("moved", isResolved: true)) == "rolled back")
    }

    /// As a loss of power leaves it, between the two steps in which a counter gets another place.
    @Test func anEarlierCounterThatWasLeftIsRemoved() async throws {
        try await fill(configuration(isResolved: true), 1...2)
        try folder.copy("store", to: "older")
        let earlier = configuration(isResolved: true).counter
        let contents = try Data(contentsOf: URL(filePath: earlier))
        try link(to: "moved", moving: "moved")
        try await fill(configuration(isResolved: true), 3...3)
        try contents.write(to: URL(filePath: earlier))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: earlier)
        try await fill(configuration(isResolved: true), 4...4)
        #expect(!StoreFiles.exists(earlier))
        // What was left agrees with it.
        try folder.remove("store")
        try folder.copy("older", to: "store")
        #expect(await opening(configuration(isResolved: true)) == "missing")
        #expect(try await count(configuration("moved", isResolved: true)) == 4)
    }

    /// Each has its own counter. A link to the other one takes none away.
    @Test func theCounterOfAnotherStoreStays() async throws {
        try await fill(configuration(isResolved: true), 1...2)
        try await fill(configuration("other", isResolved: true), 3...3)
        try link(to: "other", moving: "kept")
        #expect(try await count(configuration(isResolved: true)) == 1)
        try folder.remove("store")
        try FileManager.default.moveItem(atPath: folder.path + "/kept", toPath: folder.path + "/store")
        #expect(try await count(configuration(isResolved: true)) == 2)
        #expect(try await count(configuration("other", isResolved: true)) == 1)
    }

    /// It is moved aside, but not the counter of the folder that was there before: that was not compared with it.
    @Test(arguments: ["foreign", "corrupted"])
    func aBrokenDatabaseBehindALinkTakesNoCounterAlong(refusal: String) async throws {
        try await fill(configuration(isResolved: true), 1...2)
        let counter = configuration(isResolved: true).counter
        try folder.copy("store", to: "other")
        try folder.remove("other/licenses.db")
        if refusal == "foreign" {
            try SQLiteAccess(folder.path + "/other/licenses.db").execute("CREATE TABLE film (title TEXT)")
        } else {
            try folder.write(Data(repeating: 7, count: 8192), to: "other/licenses.db")
        }
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: folder.path + "/other/licenses.db")
        try link(to: "other", moving: "latest")
        let error = await #expect(throws: LicenseStoreError.self) {
            try await LicenseStore.open(configuration(isResolved: true))
        }
        #expect(error?.shortDescription == refusal)
        #expect(error?.description.contains("the counter \(counter) stays") == true)
        #expect(try folder.names(in: "other").contains("licenses.db.aside-1"))
        #expect(await opening(configuration(isResolved: true)) == "missing")
        try folder.remove("store")
        try FileManager.default.moveItem(atPath: folder.path + "/latest", toPath: folder.path + "/store")
        #expect(try await count(configuration(isResolved: true)) == 2)
    }

    @Test func thePathMayBeWrittenInAnyWay() async throws {
        try await fill(configuration(), 1...1)
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/link", withDestinationPath: folder.path + "/store")
        for name in ["store/", "./store", "state/../store", "link", "link/"] {
            #expect(configuration(name).counter == configuration().counter, "\(name)")
            #expect(try await count(configuration(name)) == 1)
        }
        // Also before it is there.
        #expect(configuration("new//store/").counter == configuration("new/store").counter)
        #expect(configuration("new/store").counter != configuration("new").counter)
    }

    // MARK: Counters of earlier versions

    /// The files that an earlier version wrote, with the counter among them.
    private func takeEarlierStore() throws {
        let files = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("EarlierStore")
        try FileManager.default.copyItem(atPath: files.path, toPath: folder.path + "/store")
        for name in try folder.names(in: "store") {
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600], ofItemAtPath: "\(folder.path)/store/\(name)")
        }
    }

    @Test func aStoreOfAnEarlierVersionGoesOnAndIsTakenOverOnce() async throws {
        try takeEarlierStore()
        try folder.copy("store", to: "older")
        #expect(configuration().isThere)
        var store = try await LicenseStore.open(configuration())
        let records = try await store.list()
        #expect(records.map(\.keyIDs) == [[KeyID(high: 1, low: 1)]])
        let record = try await store.record(try #require(records.first?.id))
        #expect(record?.payload == [1] + [UInt8](repeating: 1, count: 197))
        await store.close()
        #expect(try folder.names(in: "store").contains("licenses.counter") == false)
        let counter = try Data(contentsOf: URL(fileURLWithPath: configuration().counter))
        #expect(try counter == folder.contents("older/licenses.counter"))
        store = try await LicenseStore.open(configuration())
        try await store.put(license(9))
        await store.close()
        // The copy has a counter that agrees with it. It is not asked any more.
        try folder.copy("older", to: "store")
        #expect(await opening(configuration()) == "rolled back")
        let moved = try await LicenseStore.reset(configuration())
        #expect(moved.contains { $0.hasSuffix("/store/licenses.counter.reset-1") })
        #expect(try await count(configuration()) == 0)
    }

    /// Earlier versions named it by the path as it was written.
    @Test func aCounterThatIsNamedByAnotherSpellingIsTakenOver() async throws {
        try FileManager.default.createDirectory(atPath: folder.path + "/store", withIntermediateDirectories: true)
        let path = folder.path + "/./store"
        var earlier = configuration()
        earlier.counter =
            folder.path + "/state/latchkey/counters/\(Hex.encode(try Digest.sha256(Array(path.utf8)).prefix(16)))"
        try await fill(earlier, 1...3)
        #expect(await opening(configuration()) == "missing")
        #expect(try await count(configuration("./store")) == 3)
        #expect(try await count(configuration()) == 3)
        #expect(!FileManager.default.fileExists(atPath: earlier.counter))
    }

    /// Does what another process does in the middle of an open.
    private struct BusySecret: DeviceSecret {
        let secret: any DeviceSecret
        let work: @Sendable () throws(LicenseStoreError) -> Void

        func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey {
            try work()
            return try secret.key(for: purpose, creating: creating)
        }
    }

    @Test func twoProcessesMayTakeACounterOver() async throws {
        try takeEarlierStore()
        try folder.copy("store", to: "older")
        var configuration = configuration()
        let (earlier, counter) = (folder.path + "/store/licenses.counter", configuration.counter)
        #expect(!StoreFiles.exists(counter))
        configuration.secret = BusySecret(secret: configuration.secret) { () throws(LicenseStoreError) in
            guard StoreFiles.exists(earlier) else { return }
            try StoreFiles.createFolder(of: counter)
            try StoreFiles.move(earlier, to: counter)
        }
        try await fill(configuration, 2...2)
        #expect(StoreFiles.exists(counter) && !StoreFiles.exists(earlier))
        try folder.copy("older", to: "store")
        try folder.remove("store/licenses.counter")
        #expect(await opening(configuration) == "rolled back")
    }

    @Test func anEmptiedDatabaseIsRefusedWhileItsCounterIsTakenOver() async throws {
        try takeEarlierStore()
        var configuration = configuration()
        let (counter, database) = (configuration.counter, configuration.database)
        let earlier = folder.path + "/store/licenses.counter"
        configuration.secret = BusySecret(secret: configuration.secret) { () throws(LicenseStoreError) in
            guard StoreFiles.exists(earlier) else { return }
            try StoreFiles.createFolder(of: counter)
            try StoreFiles.move(earlier, to: counter)
            truncate(database, 0)
        }
        #expect(await opening(configuration) == "missing")
        #expect(FileManager.default.contents(atPath: database) == Data())
    }

    /// On a device without a place for state, an earlier version's store goes on as it was.
    @Test func aCounterThatCannotBeTakenOverStays() async throws {
        let state = "/sys/latchkey-test"
        #expect(await opening(configuration("new", state: state)) == "read only")
        try takeEarlierStore()
        #expect(try await count(configuration(state: state)) == 1)
        try await fill(configuration(state: state), 2...3)
        #expect(try await count(configuration(state: state)) == 3)
        // With one, it is taken over.
        try folder.copy("store", to: "older")
        try await fill(configuration(), 4...4)
        try folder.copy("older", to: "store")
        #expect(await opening(configuration()) == "rolled back")
    }

    @Test func aPlaceForCountersThatCannotBeMadeIsNamedWithItsSetting() async throws {
        let error = await #expect(throws: LicenseStoreError.self) {
            try await LicenseStore.open(configuration(state: "/sys/latchkey-test"))
        }
        #expect(error?.description.contains("/sys/latchkey-test") == true)
        #expect(error?.description.contains("XDG_STATE_HOME") == true)
    }

    /// What keeps counters from being made there may be anything.
    @Test func aPlaceForCountersThatIsNoFolderChangesNothing() async throws {
        let counters = folder.path + "/state/latchkey/counters"
        try FileManager.default.createDirectory(
            atPath: folder.path + "/state/latchkey", withIntermediateDirectories: true)
        try folder.write(Data(), to: "state/latchkey/counters")
        try takeEarlierStore()
        try await fill(configuration(), 2...2)
        #expect(try folder.names(in: "store").contains("licenses.counter"))
        try FileManager.default.removeItem(atPath: counters)
        #expect(try await count(configuration()) == 2)
        #expect(try folder.names(in: "store").contains("licenses.counter") == false)
    }
}
