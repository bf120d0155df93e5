// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import Foundation
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import latchkey

/// `latchkey licenses`.
@Suite struct LicensesTests {
    private let scratch = ScratchFolder()
    private let account = GUID("4C4B444D-0000-0000-0000-0000000000AA")!

    private var configuration: LicenseStoreConfiguration { configuration("store") }

    private func configuration(_ name: String) -> LicenseStoreConfiguration {
        LicenseStoreConfiguration(folder: scratch.path(name), environment: ["XDG_STATE_HOME": scratch.path("state")])
    }

    private func keyID(_ number: UInt8) -> KeyID { KeyID([UInt8](repeating: 0, count: 15) + [number])! }

    /// A store with two licenses, a domain and the mark of a first play. What a license is needs no service here.
    private func fill() async throws {
        let store = try await LicenseStore.open(configuration)
        for number in UInt8(1)...2 {
            try await store.put(
                LicenseRecord(kind: .license, keySystem: .playReady, keyIDs: [keyID(number)], payload: [1, 2, 3]))
        }
        try await store.put(
            LicenseRecord(
                kind: .domain, keySystem: .playReady, contentID: account.uuidOrderBytes, payload: [4]))
        _ = try await store.markFirstPlay(for: .random(), at: UnixTime(seconds: 1_800_000_000))
        await store.close()
    }

    /// Everything that is said while a store is reset; the question is the line that starts with "?".
    private func reset(answer: Bool = true) async throws -> [String] {
        var lines: [String] = []
        var reset = StoreReset(configuration: configuration)
        reset.report = { lines.append($0) }
        try await reset.run { question in
            lines.append("? " + question)
            return answer
        }
        return lines
    }

    /// Where there is no store, the place says so; a place that cannot be looked at is an error and no empty store.
    @Test func saysWhereNoStoreIs() async throws {
        let lines = try LicensesListCommand.lines([], in: configuration)
        #expect(lines == ["no licenses: there is no license store yet at \(configuration.database)"])
        try await fill()
        _ = try await reset()
        #expect(try LicensesListCommand.lines([], in: configuration) == ["no licenses in \(configuration.database)"])
        try Data().write(to: URL(fileURLWithPath: scratch.path("file")))
        await #expect(throws: ToolError.self) { try await LicensesListCommand.licenses(in: configuration("file")) }
    }

    @Test func removesAllAndSaysWhatIsToBeAcquiredAgain() async throws {
        try await fill()
        let lines = try await reset()
        let summary = "2 licenses, 1 domain membership, 1 mark of a first play"
        #expect(lines.first == "? Remove \(summary) from \(configuration.database)?")
        #expect(lines.contains("removed: \(summary)"))
        for number in UInt8(1)...2 { #expect(lines.contains("  license for KID \(keyID(number))")) }
        #expect(lines.contains("  membership of domain \(account)"))
        let store = try await LicenseStore.open(configuration)
        #expect(try await store.list().isEmpty)
        await store.close()
        let again = try await reset()
        #expect(again == ["\(configuration.database) is empty; nothing was removed"])
    }

    /// Stored FairPlay-style keys have a store of their own, which may have to be moved aside too.
    @Test func removesStoredKeysAndAStoreOfThemThatWasPutBack() async throws {
        let store = configuration("keys")
        // One of its own each time: a store that is open cannot be moved aside.
        func keys() -> PersistableKeys { PersistableKeys(store) }
        func reset() async throws -> [String] {
            var lines: [String] = []
            var reset = StoreReset(configuration: configuration)
            (reset.keys, reset.keysFolder) = (keys(), "keys")
            reset.report = { lines.append($0) }
            try await reset.run { question in
                lines.append("? " + question)
                return true
            }
            return Array(lines.dropFirst())
        }
        #expect(try await reset() == [])
        #expect(!FileManager.default.fileExists(atPath: scratch.path("keys")))
        for number in UInt8(1)...2 { try await keys().store([number], for: [number]) }
        let older = try Data(contentsOf: URL(fileURLWithPath: store.database))
        try await keys().store([3], for: [3])
        #expect(
            try await reset() == [
                "? Remove 3 stored FairPlay-style keys from keys?", "removed: 3 stored FairPlay-style keys from keys",
            ])
        #expect(try await keys().count == 0)
        try older.write(to: URL(fileURLWithPath: store.database))
        let lines = try await reset()
        #expect(lines.first?.hasPrefix("rolled back: ") == true, "\(lines)")
        #expect(lines.contains("? Move \(store.database) aside and start anew?"))
        #expect(lines.contains("To be acquired again: every stored FairPlay-style key."))
        #expect(try await keys().count == 0)
    }

    @Test func leavesAllAsItIsWithoutAYes() async throws {
        try await fill()
        await #expect(throws: ToolError("nothing was removed")) { try await reset(answer: false) }
        let store = try await LicenseStore.open(configuration)
        #expect(try await store.list().count == 4)
    }

    /// What the clock knew is given up by name, and no license gains by that. The list works before, too.
    @Test func replacesAClockThatCannotBeRead() async throws {
        try await fill()
        func spoilClock() async throws {
            let store = try await LicenseStore.open(configuration)
            let id = try #require(RecordID(Array("latchkey clock 1".utf8)))
            try await store.put(LicenseRecord(id: id, kind: .clock, payload: [9]))
            await store.close()
        }
        try await spoilClock()
        #expect(try await LicensesListCommand.licenses(in: configuration).count == 2)
        await #expect(throws: ToolError("nothing was removed")) { try await reset(answer: false) }
        var lines = try await reset()
        #expect(lines.first?.hasPrefix("record unreadable: the trusted clock's record: ") == true)
        #expect(lines.contains { $0.hasPrefix("removed: 2 licenses, ") && $0.contains("the trusted clock's record") })
        #expect(lines.contains { $0.contains("disabled until signed time comes") })
        let store = try await LicenseStore.open(configuration)
        #expect(try await store.clockFailure() == nil)
        let clock = try await TrustedClock.open(storage: store)
        #expect(clock.now().trust == .rolledBack)
        await store.close()
        #expect(try await reset() == ["\(configuration.database) is empty; nothing was removed"])
        // An empty store, too.
        try await spoilClock()
        lines = try await reset()
        #expect(lines.contains("removed: the trusted clock's record, which cannot be read"))
        #expect(!lines.contains { $0.contains("device keys") })
    }

    /// Looking makes no store.
    @Test func findsNothingWhereNothingIs() async throws {
        #expect(try await reset() == ["there is no license store at \(configuration.database); nothing was removed"])
        #expect(try await LicensesListCommand.licenses(in: configuration).isEmpty)
        #expect(!FileManager.default.fileExists(atPath: scratch.path("store")))
    }

    /// Every byte is still there, under another name.
    @Test func keepsADamagedStoreAside() async throws {
        try await fill()
        let damaged = Data("no database ".utf8) + Data(repeating: 7, count: 8192)
        try damaged.write(to: URL(fileURLWithPath: configuration.database))
        let lines = try await reset()
        #expect(lines.contains { $0.hasPrefix("corrupted: ") && $0.contains("kept as ") })
        #expect(lines.contains("To be acquired again: every license and every membership of a domain."))
        #expect(try Data(contentsOf: URL(fileURLWithPath: configuration.database + ".aside-1")) == damaged)
        #expect(!FileManager.default.fileExists(atPath: configuration.database))
        #expect(try await LicenseStore.open(configuration).list().isEmpty)
    }

    /// The store leaves it in place, so that it can be put right: it goes aside only after a yes.
    @Test func movesAStoreWithoutItsCounterAside() async throws {
        try await fill()
        let contents = try Data(contentsOf: URL(fileURLWithPath: configuration.database))
        try FileManager.default.removeItem(atPath: configuration.counter)
        await #expect(throws: ToolError("nothing was removed")) { try await reset(answer: false) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: configuration.database)) == contents)
        let lines = try await reset()
        #expect(lines.contains("? Move \(configuration.database) aside and start anew?"))
        #expect(lines.contains { $0.hasPrefix("kept as \(configuration.database).reset-1") })
        #expect(try Data(contentsOf: URL(fileURLWithPath: configuration.database + ".reset-1")) == contents)
        #expect(try await LicenseStore.open(configuration).list().isEmpty)
    }

    /// A player has the store open, which cannot be moved then; emptying one that opens is possible.
    @Test func emptiesAStoreInUse() async throws {
        try await fill()
        let player = try await LicenseStore.open(configuration)
        #expect(try await reset().contains { $0.hasPrefix("removed: ") })
        #expect(try await player.list().isEmpty)
    }

    @Test func parsesAsTheHelpSays() throws {
        let reset = try #require(
            try LatchkeyCommand.parseAsRoot(["licenses", "reset", "--yes", "--store", "/x"]) as? LicensesResetCommand)
        #expect(reset.yes && reset.place.store == "/x")
        let list = try #require(
            try LatchkeyCommand.parseAsRoot(["licenses", "list", "--json", "--secure-clock"]) as? LicensesListCommand)
        #expect(list.json && list.secureClock)
        #expect(throws: (any Error).self) { try LatchkeyCommand.parseAsRoot(["licenses", "reset", "--maybe"]) }
    }

    /// A license that cannot be opened is in the list, with why it is of no use.
    @Test func listsWhatIsOfNoUseToo() async throws {
        try await fill()
        let licenses = try await LicensesListCommand.licenses(in: configuration)
        #expect(licenses.map(\.keyIDs) == [[keyID(1)], [keyID(2)]])
        for license in licenses {
            #expect(license.rights.kind == .none)
            #expect(license.rights.reason == "the store holds no device that could open it")
        }
    }
}

/// What `latchkey licenses list` prints.
@Suite struct LicenseTableTests {
    private static let kid = KeyID([UInt8](repeating: 0xAB, count: 16))!
    private static let account = GUID("4C4B444D-0000-0000-0000-0000000000AA")!

    private static func license(_ rights: RightsStatus, domain: GUID? = nil) -> StoredPlayReadyLicense {
        StoredPlayReadyLicense(id: .random(), keyIDs: [kid], domain: domain, rights: rights)
    }

    private let licenses = [
        license(
            RightsStatus(
                kind: .future, begins: UnixTime(seconds: 1_800_000_000), ends: UnixTime(seconds: 1_800_003_600),
                reason: "later"), domain: account),
        license(RightsStatus(kind: .valid, rightsExpireAfterFirstUse: true, reason: "unused")),
        license(RightsStatus(kind: .untrustedTime, reason: "set back")),
    ]

    @Test func isATableForPeople() {
        let lines = LicenseTable(licenses).lines
        #expect(lines.count == 4)
        #expect(
            lines[1] == "\(Self.kid)  future          2027-01-15 08:00:00 UTC  2027-01-15 09:00:00 UTC  "
                + "\(Self.account)  later")
        #expect(lines[2].contains("valid           -                        after the first play     -"))
        #expect(lines[3].contains("untrusted time  -"))
        let columns = lines.map { line in line.range(of: line == lines[0] ? "WHY" : "  later")?.lowerBound }
        #expect(columns[0] != nil && columns[1] != nil)
    }

    @Test func isJSONForPrograms() throws {
        let value = try JSONSerialization.jsonObject(with: Data(try LicenseTable(licenses).json().utf8))
        let entries = try #require(value as? [[String: Any]])
        #expect(entries.map { $0["status"] as? String } == ["future", "valid", "untrustedTime"])
        #expect(entries[0]["keyIds"] as? [String] == [Self.kid.description])
        #expect(entries[0]["begins"] as? String == "2027-01-15T08:00:00Z")
        #expect(entries[0]["ends"] as? String == "2027-01-15T09:00:00Z")
        #expect(entries[0]["domain"] as? String == Self.account.description)
        #expect(entries.map { $0["expiresAfterFirstUse"] as? Bool } == [false, true, false])
        #expect(entries[1]["ends"] == nil && entries[1]["domain"] == nil)
        let keys = Set(entries.flatMap(\.keys))
        #expect(
            keys == ["keyIds", "status", "reason", "expiresAfterFirstUse", "begins", "ends", "domain"])
    }

    @Test func isAnEmptyListWithoutLicenses() throws {
        let value = try JSONSerialization.jsonObject(with: Data(try LicenseTable([]).json().utf8))
        #expect((value as? [Any])?.isEmpty == true)
        #expect(LicenseTable([]).lines.count == 1)
    }
}
