// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyStorage

/// The index of an item: an SQLite database that says which blocks of which resources are on disk, with the digest of
/// each. Used from the thread of the cache alone.
///
/// A row for a block is written when the block is on disk, never before. Times are whole microseconds.
struct ItemIndex {
    private let connection: SQLiteConnection<CacheError>
    /// Of the block size that the index was made with.
    let blockSize: Int

    /// Of SQLite's header: tells our files from others.
    static let applicationID = 0x4C4B_4343
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

    private static let keySchema =
        "CREATE TABLE IF NOT EXISTS content_key (url BLOB PRIMARY KEY, sealed BLOB NOT NULL) WITHOUT ROWID"

    private static let refusalSchema =
        "CREATE TABLE IF NOT EXISTS server_key (uri BLOB PRIMARY KEY, refusal BLOB NOT NULL) WITHOUT ROWID"

    /// Opens the index. Where it is empty, makes one with this block size, or throws `notCached` unless `creating`: only
    /// who may write creates. Throws `damaged` for what is none, and `laterVersion`.
    init(path: String, blockSize: Int, creating: Bool) throws(CacheError) {
        if creating { try CacheFolder.createFile(path) }
        let connection = try Self.connection(path)
        // With a write-ahead log, other processes read while this one writes. A loss of power may cost the last blocks,
        // and never brings rows for blocks that are not there.
        try connection.statement("PRAGMA journal_mode = WAL").run()
        try connection.execute("PRAGMA synchronous = NORMAL")
        if try connection.integer("SELECT count(*) FROM sqlite_schema") == 0 {
            guard creating else { throw CacheError(.notCached, "\(path) is empty") }
            try connection.execute("BEGIN IMMEDIATE; \(Self.schema) COMMIT")
        }
        try self.init(connection, path, blockSize)
        if creating, try Self.blockSize(connection) == nil { try set("block-size", "\(self.blockSize)") }
    }

    /// Opens the index where nothing can be written. Throws `notPermitted` where it cannot be read either, `damaged` and
    /// `laterVersion`.
    init(readOnly path: String, blockSize: Int) throws(CacheError) {
        do throws(CacheError) {
            // As long as another process writes, there are the files that a reader needs.
            try self.init(Self.connection(path, .readOnly), path, blockSize)
        } catch {
            // Without its log, what is there would be of several times.
            guard error.code == .notPermitted, CacheFolder.size(path + "-wal") == 0 else { throw error }
            try self.init(Self.connection(path, .immutable), path, blockSize)
        }
    }

    /// In bytes: more than two URLs that a manifest has room for.
    static let largestRow: Int32 = 40 << 20

    private static func connection(
        _ path: String, _ access: SQLiteConnection<CacheError>.Access = .readWrite,
        busyTimeout: Duration = .seconds(5)
    ) throws(CacheError) -> SQLiteConnection<CacheError> {
        try SQLiteConnection(
            path: path, access: access, fileSystem: nil, busyTimeout: busyTimeout, largestRow: largestRow)
    }

    private init(
        _ connection: SQLiteConnection<CacheError>, _ path: String, _ blockSize: Int
    ) throws(CacheError) {
        let (id, version) = (
            try connection.integer("PRAGMA application_id"), try connection.integer("PRAGMA user_version")
        )
        guard id == Self.applicationID else { throw CacheError(.damaged, "\(path) is no index of a cache") }
        guard version <= Self.version else {
            throw CacheError(
                .laterVersion, "\(path) is of version \(version), and this is \(Self.version): use the later program")
        }
        guard try Self.hasTablesAlone(connection) else { throw CacheError(.damaged, "\(path) has more than tables") }
        self.connection = connection
        self.blockSize = try Self.blockSize(connection).flatMap(Self.usable) ?? blockSize
    }

    private static func blockSize(_ connection: SQLiteConnection<CacheError>) throws(CacheError) -> Int? {
        let statement = try connection.statement("SELECT value FROM item WHERE name = 'block-size'")
        defer { statement.reset() }
        return try statement.step() ? Int(statement.text(0)) : nil
    }

    /// What is left of a damaged index, to be read as far as that goes. Nil for what is none.
    init?(remainsOf path: String) {
        guard let connection = try? Self.connection(path, busyTimeout: .zero),
            (try? connection.integer("PRAGMA application_id")) == Int64(Self.applicationID),
            (try? Self.hasTablesAlone(connection)) == true
        else { return nil }
        self.connection = connection
        blockSize = 0
    }

    /// A view in the place of a table could give rows without an end, and a trigger could change what is written.
    private static func hasTablesAlone(_ connection: SQLiteConnection<CacheError>) throws(CacheError) -> Bool {
        try connection.integer("SELECT count(*) FROM sqlite_schema WHERE sql NOT LIKE 'CREATE TABLE %'") == 0
    }

    /// Nil for a size that no index has.
    static func usable(_ blockSize: Int) -> Int? { (1 << 10...1 << 24).contains(blockSize) ? blockSize : nil }

    func close() { connection.close() }

    /// Changes with each change that another connection makes.
    func version() throws(CacheError) -> Int64 { try connection.integer("PRAGMA data_version") }

    /// Reads all of the database. Throws `damaged` where it is not whole.
    func check() throws(CacheError) {
        let statement = try connection.statement("PRAGMA quick_check(1)")
        defer { statement.reset() }
        guard try statement.step(), statement.text(0) == "ok" else {
            throw CacheError(.damaged, "the index: \(statement.text(0))")
        }
    }

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

    /// Everything but the digests.
    func contents() throws(CacheError) -> IndexContents {
        var (values, resources) = ([String: String](), [CachedResource]())
        try self.values { values[$0] = $1 }
        try self.resources { resources.append($0) }
        let (pieces, blocks) = (try pieces(), try blocks())
        // What was changed on disk must not overflow.
        let largest = CachedResource.largestSize
        let lastBlock = largest / UInt64(blockSize)
        guard resources.allSatisfy(\.isPossible),
            pieces.allSatisfy({ $0.offset <= largest && $0.length ?? 0 <= largest }),
            blocks.values.allSatisfy({ $0.allSatisfy { $0 <= lastBlock } })
        else {
            throw CacheError(.damaged, "the index of the item has a number, a size or a place that no resource has")
        }
        return IndexContents(
            record: ItemRecord(values: values), resources: resources, pieces: pieces, blocks: blocks,
            keys: try texts("content_key", "url", "sealed"),
            refusals: try texts("server_key", "uri", "refusal").mapValues { String(decoding: $0, as: UTF8.self) })
    }

    // MARK: The item

    func set(_ name: String, _ value: String) throws(CacheError) {
        let statement = try connection.statement("INSERT OR REPLACE INTO item VALUES (CAST(? AS TEXT), ?)")
        try statement.bind(1, Array(name.utf8))
        try statement.bind(2, Array(value.utf8))
        try statement.run()
    }

    func values(_ take: (String, String) -> Void) throws(CacheError) {
        let statement = try connection.statement("SELECT name, value FROM item")
        while try statement.step() { take(statement.text(0), statement.text(1)) }
    }

    // MARK: Resources

    func resources(_ take: (CachedResource) -> Void) throws(CacheError) {
        let statement = try connection.statement("SELECT number, url, answering, size, validator, type FROM resource")
        while try statement.step() {
            take(
                CachedResource(
                    number: statement.integer(0), url: statement.text(1), answeringURL: statement.text(2),
                    size: statement.optionalInteger(3).flatMap { UInt64(exactly: $0) }, validator: statement.text(4),
                    contentType: statement.text(5)))
        }
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

    /// The digests of all blocks.
    func digests(_ take: (Int64, UInt64, [UInt8]) -> Void) throws(CacheError) {
        let statement = try connection.statement("SELECT resource, number, digest FROM block")
        while try statement.step() {
            if let number = UInt64(exactly: statement.integer(1)) {
                take(statement.integer(0), number, statement.bytes(2))
            }
        }
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

    // MARK: Keys

    /// What is known of each key.
    private func texts(_ table: String, _ name: String, _ value: String) throws(CacheError) -> [String: [UInt8]] {
        // Indices of content without such keys have no such table.
        guard try connection.integer("SELECT count(*) FROM sqlite_schema WHERE name = '\(table)'") > 0 else {
            return [:]
        }
        let statement = try connection.statement("SELECT \(name), \(value) FROM \(table)")
        var found: [String: [UInt8]] = [:]
        while try statement.step() { found[statement.text(0)] = statement.bytes(1) }
        return found
    }

    func write(key sealed: [UInt8], from url: String) throws(CacheError) {
        try connection.execute(Self.keySchema)
        let statement = try connection.statement("INSERT OR REPLACE INTO content_key VALUES (?, ?)")
        try statement.bind(1, Array(url.utf8))
        try statement.bind(2, sealed)
        try statement.run()
    }

    /// `refusal` is empty for a key that was stored.
    func write(serverKey uri: String, refusal: String) throws(CacheError) {
        try connection.execute(Self.refusalSchema)
        let statement = try connection.statement("INSERT OR REPLACE INTO server_key VALUES (?, ?)")
        try statement.bind(1, Array(uri.utf8))
        try statement.bind(2, Array(refusal.utf8))
        try statement.run()
    }

    func removeKey(from url: String) throws(CacheError) {
        try connection.execute(Self.keySchema)
        let statement = try connection.statement("DELETE FROM content_key WHERE url = ?")
        try statement.bind(1, Array(url.utf8))
        try statement.run()
    }

    func removeServerKey(_ uri: String) throws(CacheError) {
        try connection.execute(Self.refusalSchema)
        let statement = try connection.statement("DELETE FROM server_key WHERE uri = ?")
        try statement.bind(1, Array(uri.utf8))
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

/// What an index says of an item. A value.
struct IndexContents {
    /// Nil where it says nothing yet.
    var record: ItemRecord?
    var resources: [CachedResource]
    var pieces: [CachedPiece]
    /// Those that are on disk, by resource.
    var blocks: [Int64: Set<UInt64>]
    /// Sealed, by URL; empty where the key is not kept.
    var keys: [String: [UInt8]]
    /// Of key servers, by URI: why the key is not stored, or nothing where it was.
    var refusals: [String: String]
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

/// Puts the damaged index of an item aside, and makes a new one of what can still be read of it.
///
/// Blocks are taken over with their digests, so that each is still compared with its own when it is read; what has no digest
/// any more is fetched again. How the content is put together is found out anew. Runs on the thread of the cache, for a
/// process that may write to the item.
struct IndexRecovery {
    let index: ItemIndex
    /// What happened, for people.
    let warning: CacheError

    /// `record` counts where the index does not tell its own. Throws where the files cannot be moved or made.
    init(folder: String, record: ItemRecord?, blockSize: Int, cause: CacheError) throws(CacheError) {
        let path = folder + "/index.db"
        var number = 1
        while CacheFolder.exists("\(folder)/index.damaged-\(number).db") { number += 1 }
        let aside = "\(folder)/index.damaged-\(number).db"
        for suffix in ["", "-wal", "-shm"] where CacheFolder.exists(path + suffix) {
            guard rename(path + suffix, aside + suffix) == 0 else { throw CacheError(system: errno, path + suffix) }
        }
        let found = Remains(of: aside)
        let size = found.values["block-size"].flatMap { Int($0) }.flatMap(ItemIndex.usable) ?? blockSize
        let index = try ItemIndex(path: path, blockSize: size, creating: true)
        var known = found.record(in: folder) ?? record
        // All pieces, or none: what is missing in the middle would never be fetched.
        known?.isPlanned = false
        known?.isComplete = false
        var kept = 0
        try index.transaction { () throws(CacheError) in
            for (name, value) in known?.values ?? [:] { try index.set(name, value) }
            var numbers: [Int64: UInt64] = [:]
            for resource in found.resources
            where resource.isPossible && !resource.url.isEmpty {
                try index.write(resource)
                let bytes = min(resource.size ?? 0, Self.size("\(folder)/\(resource.number).data"))
                numbers[resource.number] =
                    resource.size == bytes
                    ? (bytes + UInt64(size) - 1) / UInt64(size)
                    : bytes / UInt64(size)
            }
            for block in found.blocks where block.number < numbers[block.resource] ?? 0 && block.digest.count == 32 {
                try index.write(block.resource, block.number, digest: block.digest)
                kept += 1
            }
        }
        try CacheFolder.synchronize(folder)
        self.index = index
        warning = CacheError(
            .damaged,
            "\(cause.reason); the index was set aside as \(aside), \(kept) blocks of the item were kept, and the rest is "
                + "fetched again")
    }

    /// What the index in `folder` says the item is, where that much can be read. Changes nothing.
    static func record(in folder: String) -> ItemRecord? { Remains(of: folder + "/index.db").record(in: folder) }

    private static func size(_ path: String) -> UInt64 {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(clamping: status.st_size) : 0
    }

    /// As much as can be read of each table.
    private struct Remains {
        var values: [String: String] = [:]
        var resources: [CachedResource] = []
        var blocks: [(resource: Int64, number: UInt64, digest: [UInt8])] = []

        init(of path: String) {
            guard let index = ItemIndex(remainsOf: path) else { return }
            defer { index.close() }
            try? index.values { values[$0] = $1 }
            try? index.resources { resources.append($0) }
            try? index.digests { blocks.append(($0, $1, $2)) }
        }

        /// Nil where that of another item is told.
        func record(in folder: String) -> ItemRecord? {
            ItemRecord(values: values).flatMap { ItemFolder.isPlace(folder, of: $0.url) ? $0 : nil }
        }
    }
}
