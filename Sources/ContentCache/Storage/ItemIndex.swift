// SPDX-License-Identifier: MPL-2.0

import Storage

/// The index of an item: an SQLite database that says which blocks of which resources are on disk, with the digest of
/// each. Used from the thread of the cache alone.
///
/// A row for a block is written when the block is on disk, never before. Times are whole microseconds.
struct ItemIndex {
    private let connection: SQLiteConnection<CacheError>
    /// Of the block size that the index was made with.
    let blockSize: Int

    /// Of SQLite's header: tells our files from others.
    private static let applicationID = 0x4C4B_4343
    private static let version = 1

    private static let schema = """
        CREATE TABLE item (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE resource (
          number INTEGER PRIMARY KEY, url BLOB NOT NULL UNIQUE, answering BLOB NOT NULL, size INTEGER,
          validator BLOB NOT NULL, type BLOB NOT NULL);
        CREATE TABLE block (
          resource INTEGER NOT NULL, number INTEGER NOT NULL, digest BLOB NOT NULL,
          PRIMARY KEY (resource, number)) WITHOUT ROWID;
        CREATE TABLE piece (
          number INTEGER PRIMARY KEY, track INTEGER NOT NULL, resource INTEGER NOT NULL, first INTEGER NOT NULL,
          length INTEGER, begin INTEGER NOT NULL, duration INTEGER NOT NULL);
        PRAGMA application_id = \(applicationID);
        PRAGMA user_version = \(version);
        """

    /// Opens the index, or makes one with this block size. Throws `damaged` for what is none, or a later version's.
    init(path: String, blockSize: Int) throws(CacheError) {
        connection = try SQLiteConnection(path: path, fileSystem: nil, busyTimeout: .seconds(5))
        // With a write-ahead log, other processes read while this one writes. A loss of power may cost the last blocks,
        // and never brings rows for blocks that are not there.
        try connection.statement("PRAGMA journal_mode = WAL").run()
        try connection.execute("PRAGMA synchronous = NORMAL")
        if try connection.integer("SELECT count(*) FROM sqlite_schema") == 0 {
            try connection.execute("BEGIN IMMEDIATE; \(Self.schema) COMMIT")
        }
        let (id, version) = (
            try connection.integer("PRAGMA application_id"), try connection.integer("PRAGMA user_version")
        )
        guard id == Self.applicationID, version == Self.version else {
            throw CacheError(.damaged, "\(path) is no index of this version; purge the item and start again")
        }
        let statement = try connection.statement("SELECT value FROM item WHERE name = 'block-size'")
        let known = try statement.step() ? Int(statement.text(0)) : nil
        statement.reset()
        self.blockSize = known.flatMap { (1 << 10...1 << 24).contains($0) ? $0 : nil } ?? blockSize
        if known == nil { try set("block-size", "\(blockSize)") }
    }

    func close() { connection.close() }

    /// All of the body's changes, or none.
    func transaction(_ body: () throws(CacheError) -> Void) throws(CacheError) {
        try connection.execute("BEGIN IMMEDIATE")
        do throws(CacheError) {
            try body()
            try connection.execute("COMMIT")
        } catch {
            connection.rollBack()
            throw error
        }
    }

    // MARK: The item

    func set(_ name: String, _ value: String) throws(CacheError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO item VALUES (CAST(? AS TEXT), ?)")
        try statement.bind(1, Array(name.utf8))
        try statement.bind(2, Array(value.utf8))
        try statement.run()
    }

    func values() throws(CacheError) -> [String: String] {
        let statement = try connection.statement("SELECT name, value FROM item")
        var values: [String: String] = [:]
        while try statement.step() { values[statement.text(0)] = statement.text(1) }
        return values
    }

    // MARK: Resources

    func resources() throws(CacheError) -> [CachedResource] {
        let statement = try connection.statement("SELECT number, url, answering, size, validator, type FROM resource")
        var found: [CachedResource] = []
        while try statement.step() {
            found.append(
                CachedResource(
                    number: statement.integer(0), url: statement.text(1), answeringURL: statement.text(2),
                    size: statement.optionalInteger(3).flatMap { UInt64(exactly: $0) }, validator: statement.text(4),
                    contentType: statement.text(5)))
        }
        return found
    }

    func write(_ resource: CachedResource) throws(CacheError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO resource VALUES (?, ?, ?, ?, ?, ?)")
        try statement.bind(1, resource.number)
        try statement.bind(2, Array(resource.url.utf8))
        try statement.bind(3, Array(resource.answeringURL.utf8))
        try statement.bind(4, resource.size.map { Int64(clamping: $0) })
        try statement.bind(5, Array(resource.validator.utf8))
        try statement.bind(6, Array(resource.contentType.utf8))
        try statement.run()
    }

    // MARK: Blocks

    func blocks() throws(CacheError) -> [Int64: Set<UInt64>] {
        let statement = try connection.statement("SELECT resource, number FROM block")
        var found: [Int64: Set<UInt64>] = [:]
        while try statement.step() {
            if let number = UInt64(exactly: statement.integer(1)) {
                found[statement.integer(0), default: []].insert(number)
            }
        }
        return found
    }

    func digest(_ resource: Int64, _ block: UInt64) throws(CacheError) -> [UInt8]? {
        let statement = try connection.statement("SELECT digest FROM block WHERE resource = ? AND number = ?")
        try statement.bind(1, resource)
        try statement.bind(2, Int64(clamping: block))
        defer { statement.reset() }
        return try statement.step() ? statement.bytes(0) : nil
    }

    func write(_ resource: Int64, _ block: UInt64, digest: [UInt8]) throws(CacheError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO block VALUES (?, ?, ?)")
        try statement.bind(1, resource)
        try statement.bind(2, Int64(clamping: block))
        try statement.bind(3, digest)
        try statement.run()
    }

    func remove(_ resource: Int64, _ block: UInt64) throws(CacheError) {
        let statement = try connection.statement("DELETE FROM block WHERE resource = ? AND number = ?")
        try statement.bind(1, resource)
        try statement.bind(2, Int64(clamping: block))
        try statement.run()
    }

    // MARK: Pieces

    func pieces() throws(CacheError) -> [CachedPiece] {
        let statement = try connection.statement(
            "SELECT track, resource, first, length, begin, duration FROM piece ORDER BY number")
        var found: [CachedPiece] = []
        while try statement.step() {
            found.append(
                CachedPiece(
                    track: statement.integer(0), resource: statement.integer(1),
                    offset: UInt64(clamping: statement.integer(2)),
                    length: statement.optionalInteger(3).flatMap { UInt64(exactly: $0) },
                    begin: .microseconds(statement.integer(4)), duration: .microseconds(statement.integer(5))))
        }
        return found
    }

    /// In the place of those that are there.
    func replacePieces(_ pieces: [CachedPiece]) throws(CacheError) {
        try connection.execute("DELETE FROM piece")
        for (number, piece) in pieces.enumerated() { try write(piece, number) }
    }

    func write(_ piece: CachedPiece, _ number: Int) throws(CacheError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO piece VALUES (?, ?, ?, ?, ?, ?, ?)")
        try statement.bind(1, Int64(number))
        try statement.bind(2, piece.track)
        try statement.bind(3, piece.resource)
        try statement.bind(4, Int64(clamping: piece.offset))
        try statement.bind(5, piece.length.map { Int64(clamping: $0) })
        try statement.bind(6, piece.begin.microseconds)
        try statement.bind(7, piece.duration.microseconds)
        try statement.run()
    }
}

extension Duration {
    /// Whole microseconds; as many as fit.
    var microseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        let (sum, carry) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000)
        return overflow || carry ? (seconds < 0 ? .min : .max) : sum
    }

    /// For computing with and for people.
    var inSeconds: Double { Double(microseconds) / 1_000_000 }
}
