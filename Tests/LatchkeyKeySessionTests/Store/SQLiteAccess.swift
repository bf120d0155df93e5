// SPDX-License-Identifier: MPL-2.0

import CLatchkeySQLite

/// The database as another program sees it.
final class SQLiteAccess {
    struct Failure: Error { let code: Int32 }

    private var handle: OpaquePointer?

    init(_ path: String) throws {
        let code = sqlite3_open(path, &handle)
        guard code == SQLITE_OK else { throw Failure(code: code) }
    }

    deinit { sqlite3_close(handle) }

    func execute(_ sql: String) throws {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw Failure(code: code) }
    }

    func integer(_ sql: String) throws -> Int64 {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        guard code == SQLITE_OK else { throw Failure(code: code) }
        defer { sqlite3_finalize(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW else { throw Failure(code: sqlite3_errcode(handle)) }
        return sqlite3_column_int64(statement, 0)
    }
}
