/* SPDX-License-Identifier: MPL-2.0 */
#ifndef LATCHKEY_CSQLITE_H
#define LATCHKEY_CSQLITE_H

#include <sqlite3.h>

/* SQLITE_TRANSIENT is a cast that Swift does not import: SQLite copies what is bound. */
static inline int latchkey_sqlite_bind_blob(sqlite3_stmt *statement, int place, const void *bytes, sqlite3_uint64 size)
{
    return sqlite3_bind_blob64(statement, place, bytes, size, SQLITE_TRANSIENT);
}

#endif
