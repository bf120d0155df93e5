// SPDX-License-Identifier: MPL-2.0

import CLatchkeySQLite
import Glibc

/// What a store that keeps its things with SQLite makes of SQLite's result codes. Each text names the file and says what
/// to do.
package protocol SQLiteFailure: Error {
    /// Another connection kept the database locked for longer than this one waits.
    static func busy(_ detail: String) -> Self
    /// The file is damaged, no database, or not one of ours.
    static func corrupted(_ detail: String) -> Self
    /// No room is left.
    static func diskFull(_ detail: String) -> Self
    /// The disk or the file system failed.
    static func inputOutput(_ detail: String) -> Self
    /// The file or its folder cannot be written.
    static func readOnly(_ detail: String) -> Self
    /// The file cannot be opened or made.
    static func cannotOpen(_ detail: String) -> Self
    /// More bytes than SQLite takes.
    static func recordTooLarge(_ detail: String) -> Self
}

/// An open SQLite database. Used from the thread of its store alone.
package final class SQLiteConnection<Failure: SQLiteFailure> {
    private let handle: OpaquePointer
    private let failures: Failures
    private var statements: [String: SQLiteStatement<Failure>] = [:]
    private var isClosed = false

    /// What may be done with the file.
    package enum Access: Sendable {
        /// It is made where it is not there.
        case readWrite
        /// Others may write to it meanwhile.
        case readOnly
        /// No process writes to it: no lock is taken, and the log beside it is not looked at.
        case immutable
    }

    /// Opens the file, and follows no link in its place; folders on the way may be links. `fileSystem` names a registered
    /// VFS; nil is SQLite's own. `largestRow`: what has more bytes fails with `recordTooLarge`; nil: SQLite's own limit.
    package init(
        path: String, access: Access = .readWrite, fileSystem: String?, busyTimeout: Duration, largestRow: Int32? = nil
    ) throws(Failure) {
        var opened: OpaquePointer?
        // SQLite would refuse links in the place of folders too.
        let place = Self.withoutLinksToFolders(path)
        let (name, flags) =
            switch access {
            case .readWrite: (place, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .readOnly: (place, SQLITE_OPEN_READONLY)
            case .immutable: ("file:\(Self.escaped(place))?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
            }
        let code = sqlite3_open_v2(
            name, &opened, flags | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_NOFOLLOW, fileSystem)
        guard let handle = opened else { throw .cannotOpen("\(path): no memory is left") }
        self.handle = handle
        failures = Failures(handle: handle, path: path)
        sqlite3_extended_result_codes(handle, 1)
        if let largestRow { sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, largestRow) }
        sqlite3_busy_timeout(handle, Int32(clamping: Int64(min(busyTimeout / .milliseconds(1), 1e9))))
        guard code == SQLITE_OK else { throw failures.failure(code) }
    }

    deinit { close() }

    private static func withoutLinksToFolders(_ path: String) -> String {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        // SAFETY: a new string that ends in NUL, which is copied and freed here, or null.
        guard let real = realpath(folder, nil) else { return path }
        defer { free(real) }
        let name = slash.map { path[path.utf8.index(after: $0)...] } ?? path[...]
        return "\(String(cString: real))/\(name)"
    }

    /// A path as SQLite reads it in a URI.
    private static func escaped(_ path: String) -> String {
        path.map { ["%": "%25", "?": "%3f", "#": "%23"][$0] ?? String($0) }.joined()
    }

    /// Lets go of the file. Nothing may be asked of the connection afterwards.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        statements = [:]
        sqlite3_close_v2(handle)
    }

    /// Runs statements that give no rows.
    package func execute(_ sql: String) throws(Failure) {
        try failures.check(sqlite3_exec(handle, sql, nil, nil, nil))
    }

    /// A statement ready to be bound. The same text gives the same statement, so one that gives rows is run to its end
    /// or reset before it is asked for again.
    package func statement(_ sql: String) throws(Failure) -> SQLiteStatement<Failure> {
        if let statement = statements[sql] { return statement }
        var prepared: OpaquePointer?
        try failures.check(sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil))
        guard let prepared else { throw .cannotOpen("an empty statement") }
        let statement = SQLiteStatement(prepared, failures: failures)
        statements[sql] = statement
        return statement
    }

    /// The one number that a statement gives.
    package func integer(_ sql: String) throws(Failure) -> Int64 {
        let statement = try statement(sql)
        defer { statement.reset() }
        return try statement.step() ? statement.integer(0) : 0
    }

    /// Whether a transaction is open.
    package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Undoes the open transaction, where there is one. SQLite has done so itself after some errors.
    package func rollBack() {
        if isInTransaction { sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) }
    }

    /// Turns SQLite's result codes into errors.
    struct Failures {
        fileprivate let handle: OpaquePointer
        fileprivate let path: String

        func check(_ code: Int32) throws(Failure) {
            guard code == SQLITE_OK else { throw failure(code) }
        }

        func failure(_ code: Int32) -> Failure {
            // SAFETY: a constant string of SQLite's that ends in NUL.
            let reason = sqlite3_errstr(code).map { String(cString: $0) } ?? "error"
            var detail = "\(path): \(reason) (SQLite \(code)"
            let system = sqlite3_system_errno(handle)
            if code & 0xFF != SQLITE_CORRUPT, system != 0 { detail += "; \(errorText(system))" }
            detail += ")"
            switch code & 0xFF {
            case SQLITE_BUSY, SQLITE_LOCKED: return .busy(detail + "; try again")
            case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT: return .corrupted(detail)
            // Our statements are right, so the tables are not ours any more.
            case SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH: return .corrupted(detail)
            case SQLITE_FULL: return .diskFull(detail + "; free some room")
            case SQLITE_READONLY, SQLITE_PERM: return .readOnly(detail + "; check the permissions of file and folder")
            case SQLITE_CANTOPEN: return .cannotOpen(detail + "; check the path and its permissions")
            case SQLITE_IOERR where [ENOSPC, EDQUOT, EFBIG].contains(system):
                return .diskFull(detail + "; free some room")
            case SQLITE_TOOBIG: return .recordTooLarge(detail)
            default: return .inputOutput(detail + "; check the disk, and the limit on the size of files")
            }
        }
    }
}

/// What the system says to an error number.
package func errorText(_ code: Int32) -> String {
    // SAFETY: glibc returns a string that ends in NUL, good until this thread's next call.
    strerror(code).map { String(cString: $0) } ?? "error \(code)"
}

/// One prepared statement. Places and columns are counted from 1 and from 0, as SQLite does. Not thread-safe.
package final class SQLiteStatement<Failure: SQLiteFailure> {
    private let handle: OpaquePointer
    private let connection: SQLiteConnection<Failure>.Failures

    init(_ handle: OpaquePointer, failures: SQLiteConnection<Failure>.Failures) {
        self.handle = handle
        connection = failures
    }

    deinit { sqlite3_finalize(handle) }

    package func bind(_ place: Int32, _ value: Int64?) throws(Failure) {
        if let value {
            try connection.check(sqlite3_bind_int64(handle, place, value))
        } else {
            try connection.check(sqlite3_bind_null(handle, place))
        }
    }

    package func bind(_ place: Int32, _ bytes: [UInt8]) throws(Failure) {
        // An empty array may have no address, and then SQLite would bind NULL.
        guard !bytes.isEmpty else { return try connection.check(sqlite3_bind_zeroblob(handle, place, 0)) }
        // SAFETY: SQLite copies exactly these bytes before the call returns.
        let code = bytes.withUnsafeBytes {
            latchkey_sqlite_bind_blob(handle, place, $0.baseAddress, sqlite3_uint64($0.count))
        }
        try connection.check(code)
    }

    /// Whether there is a row. After the last one, and after an error, the statement can be bound and run again.
    package func step() throws(Failure) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        sqlite3_reset(handle)
        guard code == SQLITE_DONE else { throw connection.failure(code) }
        return false
    }

    /// Runs a statement that gives no rows, or whose rows do not matter.
    package func run() throws(Failure) { while try step() {} }

    /// Ends a run before its last row.
    package func reset() { sqlite3_reset(handle) }

    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    package func optionalInteger(_ column: Int32) -> Int64? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : sqlite3_column_int64(handle, column)
    }

    /// A copy of the bytes of this row.
    package func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        let size = Int(sqlite3_column_bytes(handle, column))
        // SAFETY: SQLite vouches for `size` bytes until the next step; they are copied here.
        return Array(UnsafeRawBufferPointer(start: start, count: size))
    }

    package func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
