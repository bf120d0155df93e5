// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Damaged, foreign, older and altered files: each has its own error, and none is emptied.
@Suite("License store, faults")
struct LicenseStoreFaultTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func fill(_ numbers: ClosedRange<Int> = 1...3) async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in numbers { try await store.put(license(number)) }
        await store.close()
    }

    private func open() async -> String? { await failure { try await LicenseStore.open(folder.configuration) } }

    // MARK: Rollback

    @Test func anOlderCopyIsRefusedAndTheLatestOneTakenAgain() async throws {
        try await fill()
        try folder.copy("data/licenses.db", to: "older.db")
        try await fill(4...4)
        try folder.copy("data/licenses.db", to: "latest.db")
        try folder.copy("older.db", to: "data/licenses.db")
        #expect(await open() == "rolled back")
        #expect(await open() == "rolled back")
        #expect(try folder.contents("data/licenses.db") == folder.contents("older.db"))
        try folder.copy("latest.db", to: "data/licenses.db")
        let store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().count == 4)
    }

    @Test func anOlderCopyUnderAnOpenStoreIsRefused() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        let older = try folder.contents("data/licenses.db")
        try await store.put(license(2))
        // Into the same file, as a file system's snapshot would do it.
        let handle = try FileHandle(forWritingTo: URL(filePath: folder.path + "/data/licenses.db"))
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: older)
        #expect(await failure { try await store.put(license(3)) } == "rolled back")
        #expect(await failure { try await store.list() } == "rolled back")
    }

    @Test func anOlderCounterIsNoHarm() async throws {
        try await fill()
        try folder.copy("state/licenses.counter", to: "older.counter")
        try await fill(4...4)
        // As after a power cut between the database and the counter.
        try folder.copy("older.counter", to: "state/licenses.counter")
        #expect(await open() == nil)
        try folder.copy("data/licenses.db", to: "copy.db")
        try await fill(5...5)
        try folder.copy("copy.db", to: "data/licenses.db")
        #expect(await open() == "rolled back")
    }

    @Test func aDatabaseOrACounterThatIsGoneIsMissing() async throws {
        try await fill()
        try folder.copy("data/licenses.db", to: "kept.db")
        try folder.remove("data/licenses.db")
        #expect(await open() == "missing")
        #expect(await open() == "missing")
        for size in 0...1 {
            try folder.write(Data(repeating: 7, count: size), to: "data/licenses.db")
            #expect(await open() == "missing")
        }
        try folder.copy("kept.db", to: "data/licenses.db")
        #expect(await open() == nil)
        try folder.remove("state/licenses.counter")
        #expect(await open() == "missing")
    }

    @Test func theCounterOfAnotherStoreIsRefused() async throws {
        try await fill()
        try folder.copy("state/licenses.counter", to: "first.counter")
        _ = try await LicenseStore.reset(folder.configuration)
        try await fill()
        try folder.copy("first.counter", to: "state/licenses.counter")
        #expect(await open() == "rolled back")
        try folder.write(Data(repeating: 1, count: 8192), to: "state/licenses.counter")
        #expect(await open() == "altered")
    }

    @Test func halfOfTheCounterIsEnough() async throws {
        try await fill()
        for slot in 0..<2 {
            let whole = try folder.contents("state/licenses.counter")
            var torn = whole
            torn.replaceSubrange(slot * 4096..<slot * 4096 + 64, with: Data(repeating: 0xEE, count: 64))
            try folder.write(torn, to: "state/licenses.counter")
            #expect(await open() == nil)
            try await fill(10...11)
            #expect(await open() == nil)
        }
    }

    // MARK: Alteration

    @Test(arguments: [
        "DELETE FROM record WHERE number = 2",
        "DELETE FROM record_key WHERE record = 2",
        "UPDATE record_key SET key_id = x'00112233445566778899aabbccddeeff' WHERE record = 2",
        "UPDATE record SET kind = 2 WHERE number = 2",
        "UPDATE record SET ends = NULL WHERE number = 2",
        "UPDATE record SET removal = 1 WHERE number = 2",
        "UPDATE record SET content_id = x'00' WHERE number = 2",
        "UPDATE record SET generation = 1 WHERE number = 2",
        "INSERT INTO record SELECT number + 10, zeroblob(16), kind, key_system, 0, content_id, begins, ends, removal,"
            + " generation, tag, sealed FROM record WHERE number = 1",
        "CREATE TRIGGER forget AFTER INSERT ON record BEGIN DELETE FROM record WHERE kind = 4; END",
        """
        ALTER TABLE record RENAME TO kept; CREATE VIEW record AS WITH RECURSIVE endless(n) AS
        (SELECT 1 UNION ALL SELECT n FROM endless) SELECT kept.* FROM kept, endless
        """,
    ])
    func alteredRowsAreNoticed(sql: String) async throws {
        try await fill()
        try folder.alter(sql)
        #expect(await open() == "altered")
        #expect(await open() == "altered")
    }

    /// The table has all rows. By its id, one is not found.
    @Test func aRowThatTheIndexDoesNotNameIsNoticed() async throws {
        try await fill()
        try folder.alter(
            """
            PRAGMA writable_schema = ON;
            CREATE TEMP TABLE kept AS SELECT * FROM record WHERE number = 2;
            CREATE TEMP TABLE plan AS
                SELECT * FROM sqlite_schema WHERE name IN ('record', 'sqlite_autoindex_record_1');
            DELETE FROM record WHERE number = 2;
            DELETE FROM sqlite_schema WHERE name = 'sqlite_autoindex_record_1';
            UPDATE sqlite_schema SET sql = replace(sql, ' UNIQUE', '') WHERE name = 'record';
            PRAGMA writable_schema = RESET;
            INSERT INTO record SELECT * FROM kept;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = (SELECT sql FROM plan WHERE name = 'record') WHERE name = 'record';
            INSERT INTO sqlite_schema SELECT * FROM plan WHERE name <> 'record';
            PRAGMA writable_schema = RESET;
            """)
        let database = try SQLiteAccess(folder.path + "/data/licenses.db")
        #expect(try database.integer("SELECT count(*) FROM record") == 3)
        let id = Hex.encode(recordID(2).bytes)
        #expect(try database.integer("SELECT count(*) FROM record WHERE id = x'\(id)'") == 0)
        #expect(await open() == "corrupted")
    }

    @Test func aRowThatWasPutBackIsNoticed() async throws {
        try await fill()
        try folder.alter("CREATE TABLE kept AS SELECT * FROM record WHERE number = 2")
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(2, payload: [1]))
        await store.close()
        #expect(await open() == nil)
        try folder.alter(
            "DELETE FROM record_key WHERE record = 4; DELETE FROM record WHERE number = 4;"
                + "INSERT INTO record SELECT * FROM kept")
        #expect(await open() == "altered")
    }

    @Test func anAlteredSealShowsWhenTheRecordIsRead() async throws {
        try await fill()
        // The tag, which the code over all rows covers, is left as it is.
        try folder.alter("UPDATE record SET sealed = zeroblob(20) || substr(sealed, 21) WHERE number = 2")
        let store = try await LicenseStore.open(folder.configuration)
        #expect(await failure { try await store.record(recordID(2)) } == "record unreadable")
        #expect(await failure { try await store.records(for: keyID(2)) } == "record unreadable")
        #expect(await failure { try await store.verify() } == "record unreadable")
        #expect(try await store.record(recordID(1)) == license(1))
        #expect(try await store.delete(recordID(2)))
        try await store.verify()
    }

    @Test func oneRecordInThePlaceOfAnotherIsNoticed() async throws {
        try await fill()
        try folder.alter(
            "UPDATE record SET sealed = (SELECT sealed FROM record WHERE number = 1) WHERE number = 2")
        let store = try await LicenseStore.open(folder.configuration)
        #expect(await failure { try await store.record(recordID(2)) } == "record unreadable")
    }

    @Test func alterationUnderAnOpenStoreIsNoticed() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        try await store.put(license(2))
        try folder.alter("DELETE FROM record_key WHERE record = 1; DELETE FROM record WHERE number = 1")
        #expect(await failure { try await store.records(for: keyID(1)) } == "altered")
        #expect(await failure { try await store.put(license(3)) } == "altered")
    }

    // MARK: Damage

    @Test(arguments: [100, 512, 4096, 65536])
    func bytesThatAreNoDatabaseAreKeptAside(size: Int) async throws {
        try await fill()
        var random = SeededGenerator(seed: UInt64(size))
        let garbage = Data(random.bytes(size))
        try folder.write(garbage, to: "data/licenses.db")
        do {
            _ = try await LicenseStore.open(folder.configuration)
            Issue.record("opened")
        } catch {
            #expect(error.isSameKind(as: .corrupted("")))
            #expect(error.description.contains("licenses.db.aside-1"))
        }
        #expect(try folder.contents("data/licenses.db.aside-1") == garbage)
        #expect(try folder.names(in: "state").contains("licenses.counter.aside-1"))
        let store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().isEmpty)
        try await store.put(license(1))
    }

    @Test func aDamagedPageNeverGivesAWrongRecord() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...40 { try await store.put(license(number, payload: [UInt8](repeating: 5, count: 2000))) }
        await store.close()
        let whole = try folder.contents("data/licenses.db")
        let counter = try folder.contents("state/licenses.counter")
        var random = SeededGenerator(seed: 99)
        var named: [String: Int] = [:]
        for _ in 0..<60 {
            var damaged = whole
            for _ in 0..<8 {
                damaged[Int.random(in: 0..<damaged.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            try folder.write(damaged, to: "data/licenses.db")
            try folder.write(counter, to: "state/licenses.counter")
            do {
                let store = try await LicenseStore.open(folder.configuration)
                for number in 1...40 {
                    let record = try? await store.record(recordID(number))
                    if let record { #expect(record == license(number, payload: [UInt8](repeating: 5, count: 2000))) }
                }
                do { try await store.verify() } catch { named[error.shortDescription, default: 0] += 1 }
                await store.close()
            } catch {
                named[error.shortDescription, default: 0] += 1
            }
        }
        #expect(named.values.reduce(0, +) >= 50, "\(named)")
        #expect(
            Set(named.keys).isSubset(of: [
                "corrupted", "foreign", "altered", "record unreadable", "newer schema", "rolled back", "missing",
            ]), "\(named)")
    }

    @Test func aFileThatWasCutOffIsKeptAside() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...40 { try await store.put(license(number, payload: [UInt8](repeating: 5, count: 2000))) }
        await store.close()
        let whole = try folder.contents("data/licenses.db")
        try folder.write(whole.prefix(whole.count / 2), to: "data/licenses.db")
        #expect(await open() == "corrupted")
        #expect(try folder.contents("data/licenses.db.aside-1").count == whole.count / 2)
    }

    @Test func damageThatShowsLaterEndsTheStoreAndIsKeptAside() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...40 { try await store.put(license(number, payload: [UInt8](repeating: 5, count: 2000))) }
        let handle = try FileHandle(forWritingTo: URL(filePath: folder.path + "/data/licenses.db"))
        let size = try handle.seekToEnd()
        for page in stride(from: 4096, to: size, by: 4096) {
            try handle.seek(toOffset: page)
            try handle.write(contentsOf: Data(repeating: 0xA5, count: 4096))
        }
        // The file's change counter, so that the open connection reads the pages again.
        try handle.seek(toOffset: 24)
        try handle.write(contentsOf: Data([9, 9, 9, 9]))
        #expect(await failure { try await store.list() } == "corrupted")
        #expect(await failure { try await store.put(license(1)) } == "corrupted")
        #expect(try folder.names(in: "data").contains("licenses.db.aside-1"))
        #expect(await open() == nil)
    }

    @Test(arguments: [true, false]) func aFileThatIsMovedAwayEndsTheStore(isReplaced: Bool) async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        let (place, elsewhere) = (folder.path + "/data/licenses.db", folder.path + "/elsewhere.db")
        try FileManager.default.moveItem(atPath: place, toPath: elsewhere)
        if isReplaced { try folder.write(Data(), to: "data/licenses.db") }
        #expect(await failure { try await store.put(license(2)) } == "missing")
        #expect(await failure { try await store.list() } == "missing")
        #expect(await !store.isOpen)
        #expect(await open() == "missing")
        if isReplaced { try folder.remove("data/licenses.db") }
        try FileManager.default.moveItem(atPath: elsewhere, toPath: place)
        let again = try await LicenseStore.open(folder.configuration)
        #expect(try await again.list().map(\.id) == [recordID(1)])
        try await again.verify()
    }

    // MARK: Foreign files

    @Test func anotherProgramsDatabaseIsKeptAside() async throws {
        try FileManager.default.createDirectory(
            atPath: folder.path + "/data", withIntermediateDirectories: true)
        try folder.alter("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (42)")
        let theirs = try folder.contents("data/licenses.db")
        try FileManager.default.createDirectory(atPath: folder.path + "/state", withIntermediateDirectories: true)
        try folder.write(Data(repeating: 3, count: 32), to: "state/device.secret")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: folder.path + "/state/device.secret")
        #expect(await open() == "foreign")
        #expect(try folder.contents("data/licenses.db.aside-1") == theirs)
        #expect(await open() == nil)
    }

    @Test func anotherDevicesDatabaseIsKeptAside() async throws {
        try await fill()
        let theirs = try folder.contents("data/licenses.db")
        let elsewhere = folder.configuration(machine: "another machine")
        #expect(await failure { try await LicenseStore.open(elsewhere) } == "foreign")
        #expect(try folder.contents("data/licenses.db.aside-1") == theirs)
        let store = try await LicenseStore.open(elsewhere)
        #expect(try await store.list().isEmpty)
    }

    @Test func theStoreOfAMissingSecretIsLeftAlone() async throws {
        try await fill()
        try folder.copy("state/device.secret", to: "kept.secret")
        try folder.remove("state/device.secret")
        #expect(await open() == "secret missing")
        #expect(try folder.names(in: "data").filter { $0.contains("aside") }.isEmpty)
        try folder.copy("kept.secret", to: "state/device.secret")
        let store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().count == 3)
    }

    @Test func aFileInUseIsNotMovedAside() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        #expect(await failure { try await LicenseStore.reset(folder.configuration) } == "in use")
        let elsewhere = folder.configuration(machine: "another machine")
        #expect(await failure { try await LicenseStore.open(elsewhere) } == "foreign")
        #expect(try folder.names(in: "data").filter { $0.contains("aside") }.isEmpty)
        #expect(try await store.list().count == 1)
    }

    @Test func aResetKeepsTheFilesAndStartsAnew() async throws {
        try await fill()
        let moved = try await LicenseStore.reset(folder.configuration)
        #expect(
            moved.map { ($0 as NSString).lastPathComponent }.sorted() == [
                "licenses.counter.reset-1", "licenses.db-journal.reset-1", "licenses.db.reset-1",
            ])
        var store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().isEmpty)
        try await store.put(license(9))
        await store.close()
        #expect(try await LicenseStore.reset(folder.configuration).allSatisfy { $0.hasSuffix(".reset-2") })
        store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.list().isEmpty)
    }
}
