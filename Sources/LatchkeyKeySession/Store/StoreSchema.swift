// SPDX-License-Identifier: MPL-2.0

/// The tables of the licence store, and how they came to be: one step a version.
///
/// A database of an earlier version goes through the steps that it lacks, in one transaction. A step changes tables; it
/// neither adds records nor takes them out, and leaves the columns that `StoredRow` codes as they are.
package struct StoreSchema: Sendable {
    /// `PRAGMA application_id` of our databases: "LKLS".
    static let applicationID: Int64 = 0x4C4B_4C53

    /// The statements that lead to version 1, 2, ….
    package let steps: [String]

    package init(steps: [String]) { self.steps = steps }

    /// `PRAGMA user_version` of a database that has been through all steps.
    var version: Int64 { Int64(steps.count) }

    package static let current = StoreSchema(steps: [
        """
        CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), sealed BLOB NOT NULL);
        CREATE TABLE record (
            number INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE,
            kind INTEGER NOT NULL,
            key_system INTEGER NOT NULL,
            key_count INTEGER NOT NULL,
            content_id BLOB NOT NULL,
            begins INTEGER,
            ends INTEGER,
            removal INTEGER,
            generation INTEGER NOT NULL,
            tag BLOB NOT NULL,
            sealed BLOB NOT NULL
        );
        CREATE INDEX record_content ON record (content_id);
        CREATE INDEX record_removal ON record (removal) WHERE removal IS NOT NULL;
        CREATE TABLE record_key (
            key_id BLOB NOT NULL,
            record INTEGER NOT NULL REFERENCES record (number),
            place INTEGER NOT NULL,
            PRIMARY KEY (key_id, record)
        ) WITHOUT ROWID;
        CREATE INDEX record_key_record ON record_key (record);
        """
    ])
}
