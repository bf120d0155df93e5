// SPDX-License-Identifier: MPL-2.0

import CLatchkeySQLite

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
