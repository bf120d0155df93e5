// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Where a licence store keeps what.
public struct LicenseStoreConfiguration: Sendable {
    /// The path of the database.
    public var database: String
    /// The path of the generation counter. Put it where a backup of the database does not take it along: who restores
    /// both restores the past.
    public var counter: String
    /// What the store is sealed with.
    public var secret: any DeviceSecret
    /// How long the store waits for other processes before it says `busy`. Milliseconds count.
    public var busyTimeout: Duration = .seconds(10)

    // What tests set.
    package var schema = StoreSchema.current
    package var fileSystem: String?
    package var onStep: StoreStepObserver?

    /// `database` and `counter` are paths; their folders are made where they are missing.
    public init(database: String, counter: String, secret: any DeviceSecret) {
        self.database = database
        self.counter = counter
        self.secret = secret
    }

    /// The places of the XDG Base Directory Specification: the database under `XDG_DATA_HOME`, the counter and the file
    /// with the device secret under `XDG_STATE_HOME`, in folders named `latchkey`. Nil where `environment` has neither
    /// these nor `HOME`. Variables that are no absolute paths count as unset, as the specification asks for.
    public init?(environment: [String: String]) {
        func folder(_ variable: String, _ fallback: String) -> String? {
            if let path = environment[variable], path.hasPrefix("/") { return path + "/latchkey" }
            guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
            return "\(home)/\(fallback)/latchkey"
        }
        guard let data = folder("XDG_DATA_HOME", ".local/share"), let state = folder("XDG_STATE_HOME", ".local/state")
        else { return nil }
        self.init(
            database: data + "/licenses.db", counter: state + "/licenses.counter",
            secret: FileDeviceSecret(path: state + "/device.secret"))
    }

    /// Everything in one folder: `licenses.db`, `licenses.counter` and `device.secret`.
    public init(folder: String) {
        self.init(
            database: folder + "/licenses.db", counter: folder + "/licenses.counter",
            secret: FileDeviceSecret(path: folder + "/device.secret"))
    }

    /// Whether something was ever stored: opening makes a store where there is none, and looking must not.
    public var isThere: Bool { [database, counter].contains { (path: String) in access(path, F_OK) == 0 } }

    /// The file that stores lock while they are open.
    var lock: String { database + ".lock" }

    /// All that moves when the database is moved aside. SQLite names its journal after the database.
    var movable: [String] { [database, database + "-journal", counter] }
}
