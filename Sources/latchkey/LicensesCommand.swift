// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import FoundationEssentials
import Glibc
import LatchkeyKeySession

#if LATCHKEY_GSTREAMER
    import Latchkey
#endif

/// `latchkey licenses`: what a licence store holds, and how to empty it.
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

            No key is shown. JSON has one object for each licence, with keyIds, status (valid, none, future, expired, \
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
        if licenses.isEmpty { print("no licenses in \(stores.licenses.database)") }
        for line in LicenseTable(licenses).lines where !licenses.isEmpty { print(line) }
        if let count = try await stores.keys?.count, count > 0 {
            print("stored FairPlay-style keys in \(stores.keysFolder): \(count)")
        }
    }

    static func licenses(
        in configuration: LicenseStoreConfiguration, isClockSecure: Bool = false,
        clocks: any ClockSource = SystemClocks()
    ) async throws -> [StoredPlayReadyLicense] {
        guard configuration.isThere else { return [] }
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
            stays, unless its record cannot be read: then licences with dates are disabled until signed time comes from \
            the time service. A store that is damaged, foreign, altered or put back from a copy is never emptied: its files are \
            moved aside under new names, and the next start makes a new store.

            EXIT STATUS
              0   it is empty now, or was before
              1   it is as it was: the answer was no, nobody could be asked, or it failed; standard error says why
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
