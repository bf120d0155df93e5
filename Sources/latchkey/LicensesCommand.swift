// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import FoundationEssentials
import Glibc
import LicenseControl

/// `latchkey licenses`: what a licence store holds, and how to empty it.
struct LicensesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "licenses",
        abstract: "List the licences on this device, or remove all of them.",
        subcommands: [LicensesListCommand.self, LicensesResetCommand.self])
}

/// Where the store is.
struct StorePlace: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The folder of the licence store: store in [playready] of latchkey.conf. Left out: the user's own.",
            valueName: "folder"))
    var store: String?

    func configuration() throws -> LicenseStoreConfiguration {
        if let store { return LicenseStoreConfiguration(folder: store) }
        guard let own = LicenseStoreConfiguration(environment: ProcessInfo.processInfo.environment) else {
            throw ToolError("there is no place for the licence store; give --store, or set HOME")
        }
        return own
    }
}

struct LicensesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the PlayReady-style licences on this device, and how their rights stand.",
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

    @Flag(help: "Only signed time counts: clock=secure in [playready].")
    var secureClock = false

    func run() async throws {
        let configuration = try place.configuration()
        let licenses = try await Self.licenses(in: configuration, isClockSecure: secureClock)
        guard !json else { return print(try LicenseTable(licenses).json()) }
        guard !licenses.isEmpty else { return print("no licences in \(configuration.database)") }
        for line in LicenseTable(licenses).lines { print(line) }
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
        abstract: "Remove every licence, domain and device key of this device (reset DRM database).",
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
        var reset = StoreReset(configuration: try place.configuration())
        reset.report = { print($0) }
        try await reset.run { question in
            if yes { return true }
            guard isatty(STDIN_FILENO) == 1 else { throw ToolError("nobody can be asked; give --yes") }
            StandardStream.error.write("\(question) [y/N] ")
            return ["y", "yes"].contains(readLine()?.lowercased())
        }
    }
}
