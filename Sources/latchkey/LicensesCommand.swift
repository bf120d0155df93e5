// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import FoundationEssentials
import Glibc
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection

#if LATCHKEY_GSTREAMER
    import Latchkey
#endif

/// `latchkey licenses`: what a license store holds, and how to empty it.
struct LicensesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "licenses",
        abstract: "List the licenses on this device, or remove all of them.",
        discussion: """
            The store, its clock and the folder of stored FairPlay-style keys are those of latchkey.conf. With --store, only \
            that store counts.
            """,
        subcommands: [LicensesListCommand.self, LicensesResetCommand.self])
}

/// Where the store is.
struct StorePlace: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The folder of the license store. Left out: store in [playready] of latchkey.conf, or else the user's own.",
            valueName: "folder"))
    var store: String?

    /// Throws `ToolError` if the configuration file cannot be used, or there is no place for a store.
    func resolved() throws -> Stores {
        if let store { return Stores(licenses: LicenseStoreConfiguration(folder: store)) }
        do {
            let settings = try Self.settings()
            guard let licenses = try settings.licenseStore else {
                throw ToolError("there is no place for the license store; give --store, or set HOME")
            }
            var stores = Stores(licenses: licenses)
            stores.isClockSecure = settings.playReady?.requiresSecureClock ?? false
            stores.keys = settings.storedKeys
            stores.keysFolder = settings.fairPlay?.storedKeysFolder ?? ""
            return stores
        } catch let error as ToolError {
            throw error
        } catch {
            throw ToolError("\(error)")
        }
    }

    private static func settings() throws -> ControlSettings {
        #if LATCHKEY_GSTREAMER
            try Latchkey.settings()
        #else
            ControlSettings()
        #endif
    }
}

extension LicenseStoreConfiguration {
    /// Whether there is a store. Throws `ToolError` if that cannot be seen, as in a folder of another user.
    func exists() throws(ToolError) -> Bool {
        if isThere { return true }
        guard access(database, F_OK) != 0, errno != ENOENT else { return false }
        throw ToolError("\(database) cannot be read: \(String(cString: strerror(errno)))")
    }
}

/// What `latchkey licenses` is about.
struct Stores {
    var licenses: LicenseStoreConfiguration
    var isClockSecure = false
    /// Of FairPlay-style key servers; nil if none are kept.
    var keys: PersistableKeys?
    var keysFolder = ""
}

struct LicensesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the PlayReady-style licenses on this device, and how their rights stand.",
        discussion: """
            STATUS
              valid           may be used now
              none            cannot be used: the reason says why
              future          cannot be used yet
              expired         cannot be used any more
              untrusted time  depends on dates, and the clock was set back

            No key is shown. JSON has one object for each license, with keyIds, status (valid, none, future, expired, \
            untrustedTime), reason, expiresAfterFirstUse, and where they are known begins, ends (ISO 8601) and domain.
            """)

    @OptionGroup var place: StorePlace

    @Flag(help: "Write JSON, for programs.")
    var json = false

    @Flag(help: "Only signed time counts, as with clock=secure in [playready].")
    var secureClock = false

    func run() async throws {
        let stores = try place.resolved()
        let licenses = try await Self.licenses(
            in: stores.licenses, isClockSecure: secureClock || stores.isClockSecure)
        guard !json else { return print(try LicenseTable(licenses).json()) }
        for line in try Self.lines(licenses, in: stores.licenses) { print(line) }
        if let count = try await stores.keys?.count, count > 0 {
            print("stored FairPlay-style keys in \(stores.keysFolder): \(count)")
        }
    }

    static func lines(
        _ licenses: [StoredPlayReadyLicense], in configuration: LicenseStoreConfiguration
    ) throws(ToolError) -> [String] {
        guard licenses.isEmpty else { return LicenseTable(licenses).lines }
        guard try configuration.exists() else {
            return ["no licenses: there is no license store yet at \(configuration.database)"]
        }
        return ["no licenses in \(configuration.database)"]
    }

    static func licenses(
        in configuration: LicenseStoreConfiguration, isClockSecure: Bool = false,
        clocks: any ClockSource = SystemClocks()
    ) async throws -> [StoredPlayReadyLicense] {
        guard try configuration.exists() else { return [] }
        let store = try await LicenseStore.open(configuration)
        var policy = TrustedClockPolicy()
        policy.takesSystemClock = !isClockSecure
        return try await store.playReadyLicenses(clocks: clocks, policy: policy)
    }
}

struct LicensesResetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reset",
        abstract: "Remove every license, domain, device key and stored FairPlay-style key (reset DRM database).",
        discussion: """
            Says what is there, asks, and says what was removed and what has to be acquired again. The trusted clock \
            stays, unless its record cannot be read: then licenses with dates are disabled until signed time comes from \
            the time service. A store that is damaged, foreign, altered or put back from a copy is never emptied: its files are \
            moved aside under new names, and the next start makes a new store.

            EXIT STATUS
              0   it is empty now, or was before
              1   it is as it was: the answer was no, there was no terminal to ask on, or
                  it failed; standard error says why
            """)

    @OptionGroup var place: StorePlace

    @Flag(name: .shortAndLong, help: "Do not ask.")
    var yes = false

    func run() async throws {
        let stores = try place.resolved()
        var reset = StoreReset(configuration: stores.licenses)
        reset.keys = stores.keys
        reset.keysFolder = stores.keysFolder
        reset.report = { print($0) }
        try await reset.run { question in try yes || Self.agrees(question) }
    }

    /// Asks on the terminal. Throws `ToolError` if there is none.
    static func agrees(_ question: String) throws -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { throw ToolError("no one can be asked; give --yes") }
        StandardStream.error.write("\(question) [y/N] ")
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}

/// Licenses as a table for people, or as JSON for programs.
struct LicenseTable {
    private let licenses: [StoredPlayReadyLicense]

    init(_ licenses: [StoredPlayReadyLicense]) { self.licenses = licenses }

    /// Columns are as wide as they have to be; the last one is the reason.
    var lines: [String] {
        TextTable(
            titles: ["KID", "STATUS", "BEGINS", "ENDS", "DOMAIN", "WHY"], rows: licenses.flatMap(Self.rows)
        ).lines
    }

    /// A license of several keys has a row for each.
    private static func rows(_ license: StoredPlayReadyLicense) -> [[String]] {
        let rights = license.rights
        let ends = rights.ends?.description ?? (rights.rightsExpireAfterFirstUse ? "after the first play" : "-")
        let names = license.keyIDs.isEmpty ? ["-"] : license.keyIDs.map(\.description)
        return names.map { name in
            [
                name, rights.kind == .untrustedTime ? "untrusted time" : rights.kind.rawValue,
                rights.begins?.description ?? "-", ends, license.domain?.description ?? "-", rights.reason,
            ]
        }
    }

    func json() throws -> String { try JSONText.of(licenses.map(Entry.init)) }

    private struct Entry: Encodable {
        let keyIds: [String]
        let status: String
        let reason: String
        let begins: String?
        let ends: String?
        let expiresAfterFirstUse: Bool
        let domain: String?

        init(_ license: StoredPlayReadyLicense) {
            keyIds = license.keyIDs.map(\.description)
            status = license.rights.kind.rawValue
            reason = license.rights.reason
            begins = license.rights.begins.map(JSONText.time)
            ends = license.rights.ends.map(JSONText.time)
            expiresAfterFirstUse = license.rights.rightsExpireAfterFirstUse
            domain = license.domain?.description
        }
    }
}

/// Empties a license store, or moves one that does not open aside, and tells about it.
struct StoreReset {
    let configuration: LicenseStoreConfiguration
    /// Stored keys of FairPlay-style key servers, which go too; nil if none are kept.
    var keys: PersistableKeys?
    /// Where they are.
    var keysFolder = ""
    /// Gets a line for people.
    var report: (String) -> Void = { _ in }

    /// Longer lists are cut.
    private static let namedAtMost = 20
    /// Failures that only a new store mends.
    private static let hopeless: [LicenseStoreError] = [
        .corrupted(""), .foreign(""), .altered(""), .rolledBack(""), .missing(""), .newerSchema(""), .secretMissing(""),
    ]

    init(configuration: LicenseStoreConfiguration) { self.configuration = configuration }

    /// `confirm` is asked before anything goes: about the license store, and about stored keys. Throws `ToolError` if it
    /// says no.
    func run(confirm: (String) throws -> Bool) async throws {
        try await resetStore(confirm)
        try await removeKeys(confirm)
    }

    private func removeKeys(_ confirm: (String) throws -> Bool) async throws {
        guard let keys else { return }
        if let error = await Self.failure(keys.configuration) {
            guard Self.hopeless.contains(where: error.isSameKind) else { throw error }
            try await replace(error, keys.configuration, "every stored FairPlay-style key", confirm)
        }
        let count = try await keys.count
        guard count > 0 else { return }
        let name = "\(count) stored FairPlay-style \(count == 1 ? "key" : "keys")"
        guard try confirm("Remove \(name) from \(keysFolder)?") else { throw ToolError("the stored keys stay") }
        try await keys.invalidateAll()
        report("removed: \(name) from \(keysFolder)")
    }

    /// Why a store does not open; nil if it does, or is not there.
    private static func failure(_ configuration: LicenseStoreConfiguration) async -> LicenseStoreError? {
        guard configuration.isThere else { return nil }
        do throws(LicenseStoreError) {
            let store = try await LicenseStore.open(configuration)
            await store.close()
            return nil
        } catch {
            return error
        }
    }

    private func resetStore(_ confirm: (String) throws -> Bool) async throws {
        guard try configuration.exists() else {
            return report("there is no license store at \(configuration.database); nothing was removed")
        }
        do {
            let store = try await LicenseStore.open(configuration)
            try await empty(store, confirm)
        } catch let error as LicenseStoreError where Self.hopeless.contains(where: error.isSameKind) {
            try await replace(error, configuration, "every license and every membership of a domain", confirm)
        }
    }

    private func empty(_ store: LicenseStore, _ confirm: (String) throws -> Bool) async throws {
        let records = try await store.list().filter { $0.kind != .clock }
        let clockFailure = try await store.clockFailure()
        guard !records.isEmpty || clockFailure != nil else {
            return report("\(configuration.database) is empty; nothing was removed")
        }
        if let clockFailure { report("\(clockFailure)") }
        let content = [Self.summary(records), clockFailure.map { _ in Self.clock } ?? ""].filter { !$0.isEmpty }
        try agree(confirm, "Remove \(content.joined(separator: ", ")) from \(configuration.database)?")
        // What came since the question goes, too.
        let (removed, isClockNew) = try await store.transaction { transaction throws(LicenseStoreError) in
            let records = try transaction.list().filter { $0.kind != .clock }
            _ = try transaction.deleteAll()
            return (records, try transaction.replaceUnreadableClock())
        }
        await store.close()
        let parts = [Self.summary(removed), isClockNew ? Self.clock : ""].filter { !$0.isEmpty }
        report("removed: \(parts.joined(separator: ", "))")
        tell("license for KID", removed.filter { $0.kind == .license }.flatMap(\.keyIDs).map(\.description))
        tell(
            "membership of domain",
            removed.filter { $0.kind == .domain }.compactMap { GUID(uuidOrder: $0.contentID)?.description })
        if !removed.isEmpty { report("The next use makes new device keys.") }
        report(
            isClockNew
                ? "The trusted clock is new, and not trusted yet: licenses with dates, also those that come now, are "
                    + "disabled until signed time comes from the time service (time-url)."
                : "The trusted clock stays as it was.")
    }

    private static let clock = "the trusted clock's record, which cannot be read"

    /// If a store does not open, it is unknown which licenses it had.
    private func replace(
        _ error: LicenseStoreError, _ configuration: LicenseStoreConfiguration, _ lost: String,
        _ confirm: (String) throws -> Bool
    ) async throws {
        if configuration.isThere {
            report("\(error)")
            try agree(confirm, "Move \(configuration.database) aside and start anew?")
            let names = try await LicenseStore.reset(configuration)
            report("kept as \(names.joined(separator: ", "))")
        } else {
            report("\(error)")
        }
        report("To be acquired again: \(lost).")
        report("The next use makes a new store, with a new trusted clock.")
    }

    private func agree(_ confirm: (String) throws -> Bool, _ question: String) throws {
        guard try confirm(question) else { throw ToolError("nothing was removed") }
    }

    private func tell(_ what: String, _ names: [String]) {
        let names = Set(names).sorted()
        guard !names.isEmpty else { return }
        report("To be acquired again:")
        for name in names.prefix(Self.namedAtMost) { report("  \(what) \(name)") }
        if names.count > Self.namedAtMost { report("  and \(names.count - Self.namedAtMost) more") }
    }

    /// “3 licenses, 1 domain”.
    static func summary(_ records: [LicenseRecord.Summary]) -> String {
        LicenseRecord.Kind.allCases.compactMap { kind in
            let count = records.count { $0.kind == kind }
            guard count > 0 else { return nil }
            return "\(count) \(count == 1 ? kind.name : kind.plural)"
        }.joined(separator: ", ")
    }
}

extension LicenseRecord.Kind {
    fileprivate var name: String {
        switch self {
        case .license: "license"
        case .domain: "domain membership"
        case .persistableKey: "persistable key"
        case .firstPlay: "mark of a first play"
        case .expiredSessionReport: "report of an expired session"
        case .clock: "clock"
        case .device: "device key set"
        case .acknowledgement: "acknowledgement that is due"
        case .revocationList: "revocation list"
        }
    }

    fileprivate var plural: String {
        switch self {
        case .firstPlay: "marks of first plays"
        case .expiredSessionReport: "reports of expired sessions"
        case .acknowledgement: "acknowledgements that are due"
        default: name + "s"
        }
    }
}
