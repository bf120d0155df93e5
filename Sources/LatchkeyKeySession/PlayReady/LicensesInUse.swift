// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

/// The licences whose keys sessions have, as a value: to find them again at the first play.
struct LicensesInUse {
    struct Entry: Sendable {
        let license: InstalledLicense
        /// What the session calls the key.
        var names: Set<KeyID>
        let session: UInt64
        /// What brought it, for a renewal that has nothing of the media's.
        let origin: Origin
        /// Its first play in this session is noted, or being so.
        var hasStarted = false
    }

    struct Origin: Sendable {
        var header: WRMHeader?
        var place: MediaPlace
        /// `PlayReadyNeed.isNamedByURI`.
        var isNamedByURI = false
    }

    /// The oldest go when there are more, and all go with their session. A stream that rotates keys brings new ones for ever.
    private let limit: Int
    private var entries: [Entry] = []

    init(limit: Int = 4096) { self.limit = limit }

    mutating func add(_ license: InstalledLicense, for name: KeyID, in session: UInt64, from origin: Origin) {
        remove(name, in: session)
        if entries.count >= limit { entries.removeFirst() }
        entries.append(Entry(license: license, names: [name], session: session, origin: origin))
    }

    /// The session is over: its keys go.
    mutating func end(_ session: UInt64) { entries.removeAll { $0.session == session } }

    var isEmpty: Bool { entries.isEmpty }

    func entries(in session: UInt64) -> [Entry] { entries.filter { $0.session == session } }

    func entries(for names: [KeyID], in session: UInt64) -> [Entry] {
        let names = Set(names)
        return entries.filter { $0.session == session && !$0.names.isDisjoint(with: names) }
    }

    func has(_ names: [KeyID], in session: UInt64) -> Bool {
        entries.contains { $0.session == session && !$0.names.isDisjoint(with: names) }
    }

    /// Those whose key, by any of its names, is played for the first time. Nil: all of the session's, for media without a
    /// KID.
    mutating func start(_ names: [KeyID]?, in session: UInt64) -> [Entry] {
        var started: [Entry] = []
        for index in entries.indices where entries[index].session == session && !entries[index].hasStarted {
            guard names.map({ !entries[index].names.isDisjoint(with: $0) }) ?? true else { continue }
            entries[index].hasStarted = true
            started.append(entries[index])
        }
        return started
    }

    /// The first play could not be noted: the next one counts.
    mutating func forgetStart(of license: RecordID, in session: UInt64) {
        for index in entries.indices where entries[index].session == session && entries[index].license.id == license {
            entries[index].hasStarted = false
        }
    }

    private mutating func remove(_ name: KeyID, in session: UInt64) {
        entries.removeAll { $0.session == session && $0.names.contains(name) }
    }
}
