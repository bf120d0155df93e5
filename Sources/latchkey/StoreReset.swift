// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection

/// Empties a licence store, or moves one that does not open aside, and tells about it.
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
        guard configuration.isThere else {
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
        tell("licence for KID", removed.filter { $0.kind == .license }.flatMap(\.keyIDs).map(\.description))
        tell(
            "membership of domain",
            removed.filter { $0.kind == .domain }.compactMap { GUID(uuidOrder: $0.contentID)?.description })
        if !removed.isEmpty { report("The next use makes new device keys.") }
        report(
            isClockNew
                ? "The trusted clock is new, and trusted by nobody: licences with dates, also those that come now, are "
                    + "disabled until signed time comes from the time service (time-url)."
                : "The trusted clock stays as it was.")
    }

    private static let clock = "the trusted clock's record, which cannot be read"

    /// Which licences a store had that does not open, nobody can tell.
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

    /// “3 licences, 1 domain”.
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
        case .license: "licence"
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
