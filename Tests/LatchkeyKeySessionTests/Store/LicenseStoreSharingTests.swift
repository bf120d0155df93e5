// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession
import LatchkeyProtection
import Testing

/// Several stores on the same files, locks, schemas, places.
@Suite("License store, shared")
struct LicenseStoreSharingTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func severalStoresAtOnceLoseNothing() async throws {
        let folder = folder
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<4 {
                group.addTask {
                    var configuration = folder.configuration
                    configuration.busyTimeout = .seconds(60)
                    let store = try await LicenseStore.open(configuration)
                    for number in 0..<15 { try await store.put(license(writer * 100 + number, keys: [number])) }
                    #expect(try await store.records(for: keyID(14)).contains { $0.id == recordID(writer * 100 + 14) })
                }
            }
            try await group.waitForAll()
        }
        let store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().count == 60)
        #expect(try await store.records(for: keyID(3)).count == 4)
        try await store.verify()
    }

    /// What another one has made halfway is no other program's database.
    @Test func aNewStoreIsOpenedBySeveralAtOnce() async throws {
        for number in 0..<20 {
            var configuration = folder.configuration
            configuration.database += "-\(number)"
            configuration.counter += "-\(number)"
            configuration.busyTimeout = .seconds(60)
            let each = configuration
            try await withThrowingTaskGroup(of: LicenseStore.self) { group in
                for _ in 0..<6 { group.addTask { try await LicenseStore.open(each) } }
                for try await store in group { #expect(try await store.list().isEmpty) }
            }
        }
    }

    @Test func severalProcessesAtOnceLoseNothing() async throws {
        let tool = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            .deletingLastPathComponent().appending(path: "latchkey-store-writer")
        var processes: [(Process, Pipe)] = []
        for writer in 0..<3 {
            let process = Process()
            let pipe = Pipe()
            process.executableURL = tool
            process.arguments = [folder.path, "none", "0", "0", "9", "\(writer * 30)"]
            process.standardOutput = pipe
            try process.run()
            processes.append((process, pipe))
        }
        for (process, pipe) in processes {
            let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(output.split(separator: "\n").filter { $0.hasPrefix("ack") }.count == 9, "\(output)")
        }
        let store = try await LicenseStore.open(
            LicenseStoreConfiguration(
                database: folder.path + "/licenses.db", counter: folder.path + "/licenses.counter",
                secret: FileDeviceSecret(path: folder.path + "/device.secret")))
        // Of nine records, each third one went again.
        #expect(try await store.list().count == 18)
        try await store.verify()
    }

    /// More stores wait for a lock than tasks have threads: who gives the lock back still runs.
    @Test func aStoreThatWaitsKeepsNobodyElsesThread() async throws {
        var configuration = folder.configuration
        configuration.busyTimeout = .seconds(120)
        var stores: [LicenseStore] = []
        for _ in 0..<12 { stores.append(try await LicenseStore.open(configuration)) }
        let other = try SQLiteAccess(configuration.database)
        try other.execute("BEGIN EXCLUSIVE")
        let puts = stores.enumerated().map { number, store in Task { try await store.put(license(number)) } }
        for _ in 0..<100 { await Task { await Task.yield() }.value }
        try other.execute("ROLLBACK")
        for put in puts { try await put.value }
        #expect(try await stores[0].list().count == 12)
    }

    @Test func aLockedDatabaseIsBusyAndThenNot() async throws {
        var configuration = folder.configuration
        configuration.busyTimeout = .milliseconds(20)
        let store = try await LicenseStore.open(configuration)
        try await store.put(license(1))
        var other: SQLiteAccess? = try SQLiteAccess(configuration.database)
        try other?.execute("BEGIN IMMEDIATE")
        #expect(await failure { try await store.put(license(2)) } == "busy")
        #expect(try await store.list().count == 1)
        try other?.execute("ROLLBACK")
        try await store.put(license(2))
        try other?.execute("BEGIN EXCLUSIVE")
        #expect(await failure { try await store.list() } == "busy")
        #expect(await failure { try await LicenseStore.open(configuration) } == "busy")
        other = nil
        #expect(try await store.list().count == 2)
    }

    @Test func anEarlierSchemaIsBroughtUpAndALaterOneLeftAlone() async throws {
        var store = try await LicenseStore.open(folder.configuration)
        for number in 1...3 { try await store.put(license(number)) }
        await store.close()
        var later = folder.configuration
        later.schema = StoreSchema(
            steps: StoreSchema.current.steps + ["CREATE TABLE later (a); INSERT INTO later VALUES (5)"])
        store = try await LicenseStore.open(later)
        #expect(try await store.list().count == 3)
        try await store.put(license(4))
        await store.close()
        #expect(try SQLiteAccess(later.database).integer("PRAGMA user_version") == 2)
        #expect(try SQLiteAccess(later.database).integer("SELECT a FROM later") == 5)
        store = try await LicenseStore.open(later)
        await store.close()
        let before = try folder.contents("data/licenses.db")
        #expect(await failure { try await LicenseStore.open(folder.configuration) } == "newer schema")
        #expect(try folder.contents("data/licenses.db") == before)
        #expect(try folder.names(in: "data").filter { $0.contains("aside") }.isEmpty)
    }

    @Test func aFolderThatCannotBeUsedIsNamed() async throws {
        try folder.write(Data([1]), to: "file")
        var configuration = folder.configuration
        configuration.database = folder.path + "/file/licenses.db"
        #expect(await failure { try await LicenseStore.open(configuration) } == "cannot open")
    }

    @Test func theUsualPlacesFollowTheEnvironment() throws {
        let home = try #require(LicenseStoreConfiguration(environment: ["HOME": "/home/a"]))
        #expect(home.database == "/home/a/.local/share/latchkey/licenses.db")
        #expect(home.counter == "/home/a/.local/state/latchkey/licenses.counter")
        let xdg = try #require(
            LicenseStoreConfiguration(environment: ["XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s", "HOME": "x"]))
        #expect(xdg.database == "/d/latchkey/licenses.db")
        #expect((xdg.secret as? FileDeviceSecret)?.path == "/s/latchkey/device.secret")
        #expect(LicenseStoreConfiguration(environment: ["XDG_DATA_HOME": "d"]) == nil)
        #expect(LicenseStoreConfiguration(environment: [:]) == nil)
    }
}
