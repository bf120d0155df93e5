// SPDX-License-Identifier: MPL-2.0

import CSQLite

/// One prepared statement. Places and columns are counted from 1 and from 0, as SQLite does. Not thread-safe.
final class SQLiteStatement {
    private let handle: OpaquePointer
    private let connection: SQLiteConnection.Failures

    init(_ handle: OpaquePointer, failures: SQLiteConnection.Failures) {
        self.handle = handle
        connection = failures
    }

    deinit { sqlite3_finalize(handle) }

    func bind(_ place: Int32, _ value: Int64?) throws(LicenseStoreError) {
        if let value {
            try connection.check(sqlite3_bind_int64(handle, place, value))
        } else {
            try connection.check(sqlite3_bind_null(handle, place))
        }
    }

    func bind(_ place: Int32, _ bytes: [UInt8]) throws(LicenseStoreError) {
        // An empty array may have no address, and then SQLite would bind NULL.
        guard !bytes.isEmpty else { return try connection.check(sqlite3_bind_zeroblob(handle, place, 0)) }
        // SAFETY: SQLite copies exactly these bytes before the call returns.
        let code = bytes.withUnsafeBytes {
            latchkey_sqlite_bind_blob(handle, place, $0.baseAddress, sqlite3_uint64($0.count))
        }
        try connection.check(code)
    }

    /// Whether there is a row. After the last one, and after an error, the statement can be bound and run again.
    func step() throws(LicenseStoreError) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        sqlite3_reset(handle)
        guard code == SQLITE_DONE else { throw connection.failure(code) }
        return false
    }

    /// Runs a statement that gives no rows, or whose rows do not matter.
    func run() throws(LicenseStoreError) { while try step() {} }

    /// Ends a run before its last row.
    func reset() { sqlite3_reset(handle) }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func optionalInteger(_ column: Int32) -> Int64? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : sqlite3_column_int64(handle, column)
    }

    /// A copy of the bytes of this row.
    func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        let size = Int(sqlite3_column_bytes(handle, column))
        // SAFETY: SQLite vouches for `size` bytes until the next step; they are copied here.
        return Array(UnsafeRawBufferPointer(start: start, count: size))
    }

    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
