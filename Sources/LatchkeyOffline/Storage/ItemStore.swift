// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyStorage

/// What is on disk of one item: a folder with the index and a file for each resource.
///
/// A block counts from the moment when its bytes are on disk and its digest is in the index; what is read is compared
/// with the digest each time, and a block that was altered or cut off is forgotten. So nothing is claimed that is not
/// there, wherever the process or the power ends. Of several processes that have the item open, one writes: the first
/// that has something to store, as long as it has the item open; the others read. Runs on the thread of the cache.
actor ItemStore {
    /// What an item is opened for.
    enum Purpose {
        /// To tell what is there.
        case looking
        /// What is missing is stored if no other process stores.
        case playing
        /// It is made if it is not there. Throws `inUse` if another process writes.
        case downloading
    }

    /// What there is at one moment.
    struct Snapshot: Sendable {
        var record: ItemRecord
        var cachedDuration: Duration
        var cachedSize: UInt64
        var isWhole: Bool
        /// The URLs of keys that no playback without the network has.
        var missingKeys: [String]
        /// Why keys of key servers are not stored, by URI.
        var keyRefusals: [String: String]
        var warning: CacheError?
    }

    nonisolated let folder: String
    private let executor: StorageExecutor
    private let files: BlockFiles
    let keySeal: KeySeal?
    private var use: CacheFolder.Lock?
    private(set) var writer: CacheFolder.Lock?
    /// Why nothing can be stored; nil: it can.
    let readOnlyReason: CacheError?
    /// Nil where nothing is read from the disk, or stored: the item is closed, or cannot be opened.
    private(set) var index: ItemIndex?
    /// Of the index, when it was read.
    private var version: Int64 = 0
    nonisolated let blockSize: Int

    private(set) var record: ItemRecord
    var tables: ItemTables
    private var progress = LinearProgress()
    private var open: [Int64: any BlockFile] = [:]
    /// Pieces and record say more than the index, because another process writes to it.
    private var isPlanUnstored = false
    /// The URLs of keys that are missing; nil: to be found.
    var missing: [String]?
    /// That the index was damaged, and what has become of it.
    private(set) var warning: CacheError?

    /// The most resources whose files are kept open.
    private static let openLimit = 16

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// What an item has open.
    private struct Files {
        var index: ItemIndex
        var contents: IndexContents
        var use: CacheFolder.Lock?
        var writer: CacheFolder.Lock?
        var warning: CacheError?
        var readOnlyReason: CacheError?
    }

    /// Opens the item in `folder`; `record` is what it is where the index does not tell. Throws `notCached` where there is
    /// nothing. An index that is damaged is put aside, unless for `looking`. What cannot be written is opened all the same,
    /// unless for `downloading`. Reads the disk: on the thread of the cache.
    init(
        folder: String, _ record: ItemRecord?, for purpose: Purpose, blockSize: Int, executor: StorageExecutor,
        files: BlockFiles, keySeal: KeySeal
    ) throws(CacheError) {
        let isDownloading = purpose == .downloading
        guard isDownloading || CacheFolder.exists(folder + "/index.db") else {
            throw CacheError(.notCached, "there is nothing in \(folder)")
        }
        try CacheFolder.check(folder)
        let opened: Files
        do throws(CacheError) {
            opened = try Self.open(folder, record, for: purpose, blockSize)
        } catch {
            guard error.code == .notPermitted, !isDownloading else { throw error }
            opened = try Self.openReadOnly(folder, blockSize, error)
        }
        let (index, contents) = (opened.index, opened.contents)
        guard let known = contents.record ?? (isDownloading ? record : nil) else {
            throw CacheError(.notCached, "\(folder) has no content")
        }
        if contents.record == nil {
            try index.transaction { () throws(CacheError) in
                for (name, value) in known.values { try index.set(name, value) }
            }
            try CacheFolder.synchronize(folder)
        }
        (self.folder, self.executor, self.files, self.keySeal) = (folder, executor, files, keySeal)
        (use, writer, warning) = (opened.use, opened.writer, opened.warning)
        readOnlyReason = opened.readOnlyReason
        (self.index, self.blockSize, self.record) = (index, index.blockSize, known)
        version = try index.version()
        tables = ItemTables(blockSize: index.blockSize)
        tables.take(contents)
    }

    private static func open(
        _ folder: String, _ record: ItemRecord?, for purpose: Purpose, _ blockSize: Int
    ) throws(CacheError) -> Files {
        let isDownloading = purpose == .downloading
        if isDownloading { try CacheFolder.create(folder) }
        let use = try CacheFolder.Lock(folder, for: .use)
        var writer = isDownloading ? try CacheFolder.Lock(folder, for: .writing) : nil
        do throws(CacheError) {
            let index = try ItemIndex(path: folder + "/index.db", blockSize: blockSize, creating: isDownloading)
            return Files(index: index, contents: try contents(of: index, in: folder), use: use, writer: writer)
        } catch {
            guard error.code == .damaged, purpose != .looking else { throw error }
            if writer == nil { writer = try CacheFolder.Lock(folder, for: .writing) }
            let recovery = try IndexRecovery(folder: folder, record: record, blockSize: blockSize, cause: error)
            return Files(
                index: recovery.index, contents: try recovery.index.contents(), use: use, writer: writer,
                warning: recovery.warning)
        }
    }

    private static func openReadOnly(
        _ folder: String, _ blockSize: Int, _ reason: CacheError
    ) throws(CacheError) -> Files {
        // If no process could make the file of the lock, none removes the folder either.
        let use = CacheFolder.exists(folder + "/lock") ? try CacheFolder.Lock(readOnly: folder) : nil
        let index = try ItemIndex(readOnly: folder + "/index.db", blockSize: blockSize)
        return Files(
            index: index, contents: try contents(of: index, in: folder), use: use,
            readOnlyReason: CacheError(
                .notPermitted, "nothing more is stored of what plays: the cache cannot be written: \(reason.reason)"))
    }

    /// Throws `damaged` for the index of another item, such as a copy: its bytes are not those of this item's URLs.
    private static func contents(of index: ItemIndex, in folder: String) throws(CacheError) -> IndexContents {
        let contents = try index.contents()
        if let url = contents.record?.url, !ItemFolder.isPlace(folder, of: url) {
            throw CacheError(.damaged, "the index in \(folder) is of another item: \(CacheError.printable(url))")
        }
        return contents
    }

    /// An item of which nothing is on disk, and nothing will be.
    init(unstored record: ItemRecord, blockSize: Int, executor: StorageExecutor, files: BlockFiles) {
        (folder, self.record, self.blockSize) = ("", record, blockSize)
        (self.executor, self.files, keySeal, readOnlyReason) = (executor, files, nil, nil)
        tables = ItemTables(blockSize: blockSize)
    }

    // MARK: Several processes

    /// Throws `inUse` if another process writes, and `notPermitted` if no process can.
    func becomeWriter() throws(CacheError) {
        guard let index, writer == nil else { return }
        if let readOnlyReason { throw readOnlyReason }
        writer = try CacheFolder.Lock(folder, for: .writing)
        do throws(CacheError) {
            // The previous writer may have left something.
            if try index.version() != version { try reload(index) }
            try storePlan(index)
        } catch {
            // What is not stored yet stays to be stored, and others may write meanwhile.
            writer = nil
            throw error
        }
    }

    /// Stores what was found out while another process wrote.
    private func storePlan(_ index: ItemIndex) throws(CacheError) {
        guard isPlanUnstored else { return }
        try addResources(pieces.compactMap { tables.url(of: $0) })
        try index.transaction { () throws(CacheError) in
            try index.replacePieces(pieces)
            for (name, value) in record.values { try index.set(name, value) }
            for url in tables.unkeptKeys { try index.write(key: [], from: url) }
            for (uri, refusal) in tables.refusals { try index.write(serverKey: uri, refusal: refusal) }
        }
        isPlanUnstored = false
    }

    /// Takes over what another process has stored meanwhile.
    func follow() {
        guard let index, writer == nil, let now = try? index.version(), now != version else { return }
        try? reload(index)
    }

    private func reload(_ index: ItemIndex) throws(CacheError) {
        version = try index.version()
        let contents = try Self.contents(of: index, in: folder)
        if !contents.pieces.isEmpty { isPlanUnstored = false }
        if !isPlanUnstored { record = contents.record ?? record }
        tables.take(contents, keepingPlan: isPlanUnstored)
        (progress, missing) = (LinearProgress(), nil)
    }

    /// Puts a damaged index aside, and goes on with what can be read of it.
    func mend(_ cause: CacheError) throws(CacheError) {
        guard index != nil else { return }
        if let readOnlyReason { throw readOnlyReason }
        if writer == nil { writer = try CacheFolder.Lock(folder, for: .writing) }
        index?.close()
        (index, open, tables, isPlanUnstored) = (nil, [:], ItemTables(blockSize: blockSize), false)
        let recovery = try IndexRecovery(folder: folder, record: record, blockSize: blockSize, cause: cause)
        (index, warning) = (recovery.index, recovery.warning)
        try reload(recovery.index)
    }

    // MARK: What there is

    /// Nil where nothing is on disk any more.
    func snapshot() -> Snapshot? {
        guard index != nil else { return nil }
        return Snapshot(
            record: record, cachedDuration: cachedDuration(), cachedSize: cachedSize, isWhole: firstGap() == nil,
            missingKeys: missingKeys(), keyRefusals: tables.refusals.filter { !$0.value.isEmpty }, warning: warning)
    }

    func update(_ change: @Sendable (inout ItemRecord) -> Void) throws(CacheError) {
        var new = record
        change(&new)
        guard new != record else { return }
        if let index, writer != nil {
            try index.transaction { () throws(CacheError) in
                for (name, value) in new.values { try index.set(name, value) }
            }
        } else {
            isPlanUnstored = true
        }
        record = new
    }

    /// How much plays from the start without the network.
    func cachedDuration() -> Duration {
        progress.advance(through: pieces) { isPresent($0) }
    }

    /// The resource with this URL; nil for what is no part of the item, as far as that is known.
    func known(_ url: String) -> CachedResource? { tables.known(url) }

    /// The URL of a piece's resource.
    func url(of piece: CachedPiece) -> String? { tables.url(of: piece) }

    /// The resource with this URL, which becomes part of the item where it is none.
    func resource(_ url: String) -> CachedResource { tables.resource(url) }

    /// Makes resources part of the item, all at once.
    func addResources(_ wanted: [String]) throws(CacheError) {
        guard let index, writer != nil else { return wanted.forEach { _ = tables.resource($0) } }
        // What cannot be written does not count as known to the index.
        var numbered = tables
        let added = numbered.number(wanted)
        guard !added.isEmpty else { return }
        try index.transaction { () throws(CacheError) in
            for resource in added { try index.write(resource) }
        }
        tables = numbered
    }

    func setPieces(_ new: [CachedPiece]) throws(CacheError) {
        guard new != pieces else { return }
        if let index, writer != nil {
            try index.transaction { () throws(CacheError) in try index.replacePieces(new) }
        } else {
            isPlanUnstored = true
        }
        tables.setPieces(new)
        progress = LinearProgress()
    }

    func add(_ piece: CachedPiece) throws(CacheError) {
        if let index, writer != nil { try index.write(piece, pieces.count) } else { isPlanUnstored = true }
        tables.add(piece)
    }

    /// In the order of their times.
    var pieces: [CachedPiece] { tables.pieces }

    /// On disk, in bytes.
    var cachedSize: UInt64 { tables.cachedSize }

    func isPresent(_ piece: CachedPiece) -> Bool { tables.isPresent(piece) }

    /// Whether the bytes are on disk. A resource whose size is not known has none.
    func isPresent(_ offset: UInt64, _ length: UInt64?, of resource: CachedResource) -> Bool {
        tables.isPresent(offset, length, of: resource)
    }

    /// The first block from `first` on that is missing before `end`, with those behind it that are missing too, at most
    /// `limit`.
    func missing(_ url: String, from first: UInt64, to end: UInt64, limit: UInt64) -> Range<UInt64>? {
        tables.missing(tables.resource(url).number, from: first, to: end, limit: limit)
    }

    /// The first block that is missing; nil where nothing is. Of an item that is not planned to its end, the first behind
    /// what is there.
    func firstGap() -> (url: String, block: UInt64)? { tables.firstGap(of: record) }

    /// Of a file: the end of the last fragment that is there without a gap from the start on.
    func edgeOffset() -> UInt64 {
        let end = tables.presentEnd(of: record.url)
        return pieces.compactMap(\.endOffset).filter { $0 <= end }.max() ?? end
    }

    // MARK: Bytes

    /// A block; nil where it is not on disk, or is not any more what was stored.
    func read(_ block: UInt64, of resource: CachedResource) throws(CacheError) -> [UInt8]? {
        guard let index, let resource = known(resource.url), tables.has(block, of: resource) else {
            return nil
        }
        // What the disk cannot read any more is as good as altered.
        let bytes = try? file(resource.number).read(tables.size(of: block, in: resource), at: block * UInt64(blockSize))
        if let bytes, let digest = try index.digest(resource.number, block), digest == (try BlockDigest.of(bytes[...]))
        {
            return bytes
        }
        try? becomeWriter()
        if writer != nil { try index.remove(resource.number, block) }
        tables.remove(block, of: resource)
        progress = LinearProgress()
        return nil
    }

    /// Stores whole blocks from `first` on; the last may be shorter at the end of the resource. `resource` tells the size
    /// and the validator, which are stored with them. Throws `inUse` where another process writes.
    func write(_ bytes: [UInt8], from first: UInt64, of resource: CachedResource) throws(CacheError) {
        guard index != nil else { return learn(resource) }
        try becomeWriter()
        guard let index else { return }
        let resource = tables.numbered(resource)
        let file = try file(resource.number)
        try file.write(bytes[...], at: first * UInt64(blockSize))
        try file.synchronize()
        var blocks: [(number: UInt64, digest: [UInt8])] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let number = first + UInt64(blocks.count)
            let count = tables.size(of: number, in: resource)
            guard count > 0, rest.count >= count else { break }
            blocks.append((number, try BlockDigest.of(rest.prefix(count))))
            rest = rest.dropFirst(count)
        }
        try index.transaction { () throws(CacheError) in
            if known(resource.url) != resource { try index.write(resource) }
            for block in blocks { try index.write(resource.number, block.number, digest: block.digest) }
        }
        tables.replace(with: resource)
        for block in blocks { tables.add(block.number, of: resource) }
    }

    /// What an answer told of a resource, for those who play it, where nothing can be stored.
    func learn(_ resource: CachedResource) {
        var resource = resource
        resource.number = tables.resource(resource.url).number
        tables.replace(with: resource)
    }

    /// Takes the size of a resource without bytes, or nothing new.
    func write(_ resource: CachedResource) throws(CacheError) {
        guard index != nil else { return learn(resource) }
        try becomeWriter()
        let resource = tables.numbered(resource)
        guard known(resource.url) != resource else { return }
        try index?.write(resource)
        tables.replace(with: resource)
    }

    /// Reads everything, and forgets what is not any more what was stored. Returns how many blocks that were. Throws
    /// `damaged` where the index is.
    func verify() async throws(CacheError) -> Int {
        try index?.check()
        var bad = 0
        for resource in tables.resources.values {
            for block in tables.blocks(of: resource) {
                if Task.isCancelled { return bad }
                if try read(block, of: resource) == nil { bad += 1 }
                // Others want the thread too.
                await Task.yield()
            }
        }
        return bad
    }

    // MARK: The end

    /// Closes the files and the locks. Nothing is stored any more; later reads find nothing.
    func close() {
        index?.close()
        (index, open) = (nil, [:])
        tables.clear()
        (writer, use) = (nil, nil)
        (progress, missing) = (LinearProgress(), nil)
    }

    private func file(_ number: Int64) throws(CacheError) -> any BlockFile {
        if let file = open[number] { return file }
        if open.count >= Self.openLimit { open = [:] }
        let file = try files.open("\(folder)/\(number).data")
        open[number] = file
        return file
    }
}

/// The keys that an item needs in playback without the network.
extension ItemStore {
    /// Keeps a key, sealed; nil: it is needed and cannot be kept.
    func keep(_ key: [UInt8]?, from url: String) throws(CacheError) {
        guard let index, let keySeal else { return }
        try becomeWriter()
        let sealed = try key.map { key throws(CacheError) in try keySeal.seal(key, from: url) } ?? []
        try index.write(key: sealed, from: url)
        tables.keys[url] = sealed
        missing = nil
    }

    /// Takes note of the keys that the content needs: at URLs, and those that key servers give, by URI. Keys that were never
    /// kept, or never asked for to be stored, count as missing.
    func needKeys(_ urls: [String], ofServers uris: [String]) throws(CacheError) {
        let new = urls.filter { tables.keys[$0] == nil }
        let newURIs = uris.filter { tables.refusals[$0] == nil }
        guard !new.isEmpty || !newURIs.isEmpty else { return }
        if let index, writer != nil {
            try index.transaction { () throws(CacheError) in
                for url in new { try index.write(key: [], from: url) }
                for uri in newURIs { try index.write(serverKey: uri, refusal: Self.unasked) }
            }
        } else {
            isPlanUnstored = true
        }
        for url in new { tables.keys[url] = [] }
        for uri in newURIs { tables.refusals[uri] = Self.unasked }
        missing = nil
    }

    /// Forgets what the content does not name any more: all but the keys at these URLs, and those that key servers give.
    func forgetKeys(otherThan urls: Set<String>, ofServers uris: Set<String>) throws(CacheError) {
        let (old, oldURIs) = (
            tables.keys.keys.filter { !urls.contains($0) },
            tables.refusals.keys.filter { !uris.contains($0) && $0 != Self.license }
        )
        guard let index, !old.isEmpty || !oldURIs.isEmpty else { return }
        try becomeWriter()
        try index.transaction { () throws(CacheError) in
            for url in old { try index.removeKey(from: url) }
            for uri in oldURIs { try index.removeServerKey(uri) }
        }
        for url in old { tables.keys[url] = nil }
        for uri in oldURIs { tables.refusals[uri] = nil }
        missing = nil
    }

    /// Forgets what has become of a key that playback does without.
    func forget(serverKey uri: String) throws(CacheError) {
        guard let index, tables.refusals[uri] != nil else { return }
        try becomeWriter()
        try index.removeServerKey(uri)
        tables.refusals[uri] = nil
    }

    /// Stands among the key URIs for what the content's license says of all of its keys; no URI is empty.
    static let license = ""

    private static let unasked = "no download has asked for it"

    /// What has become of a key that a key server gives: stored, or why not.
    func note(serverKey uri: String, refusal: String?) throws(CacheError) {
        guard let index, tables.refusals[uri] != refusal ?? "" else { return }
        try becomeWriter()
        try index.write(serverKey: uri, refusal: refusal ?? "")
        tables.refusals[uri] = refusal ?? ""
    }

    /// The URLs of keys that cannot be used here: those that are not kept, and those that were sealed elsewhere.
    func missingKeys() -> [String] {
        if let missing { return missing }
        let found = tables.keys.filter { url, sealed in keySeal?.opens(sealed, from: url) != true }.keys.sorted()
        missing = found
        return found
    }

    /// Those that can be read here, by URL, sealed as they are on disk.
    func keptKeys() -> [String: [UInt8]] {
        tables.keys.filter { url, sealed in keySeal?.opens(sealed, from: url) == true }
    }

    /// One that `keptKeys` gave, to be wiped by the caller. Nil if the device's secret has changed since.
    func opened(_ sealed: [UInt8], from url: String) -> [UInt8]? { keySeal?.open(sealed, from: url) }
}

/// How far a presentation is cached without a gap from its start: the least of its tracks. A value; each call goes on
/// from the last, so that a long presentation costs no more than a short one.
struct LinearProgress: Sendable {
    private struct Track {
        /// Where its pieces are among all.
        var places: [Int] = []
        /// So many of these were passed: they are there, or do not count.
        var passed = 0
        var end = Duration.zero
    }

    private var tracks: [Int64: Track] = [:]
    /// So many pieces have their place in a track.
    private var placed = 0
    /// How many pieces were looked at, in all calls together: what it costs.
    private(set) var looks = 0

    /// `pieces` are in the order of their times within each track, and only grow. If they are fewer than before, all begins anew.
    mutating func advance(through pieces: [CachedPiece], isPresent: (CachedPiece) -> Bool) -> Duration {
        if pieces.count < placed { self = LinearProgress() }
        while placed < pieces.count {
            tracks[pieces[placed].track, default: Track()].places.append(placed)
            placed += 1
        }
        for (number, known) in tracks {
            var track = known
            while track.passed < track.places.count {
                let piece = pieces[track.places[track.passed]]
                looks += 1
                if piece.end > track.end || piece.duration == .zero {
                    guard isPresent(piece) else { break }
                    track.end = max(track.end, piece.end)
                }
                track.passed += 1
            }
            tracks[number] = track
        }
        return tracks.values.map(\.end).min() ?? .zero
    }
}

/// Keeps keys of content on disk sealed with the secret of this device: the files alone are of no use. Used from the thread
/// of the cache alone.
struct KeySeal: Sendable {
    /// In bytes, of a key of AES-128.
    static let keySize = ContentKey.size

    private let secret: any DeviceSecret

    init(_ secret: any DeviceSecret) { self.secret = secret }

    /// `url` is where the key came from: it opens for the same alone. Throws `notPermitted` where the secret cannot be used.
    func seal(_ key: [UInt8], from url: String) throws(CacheError) -> [UInt8] {
        do throws(LicenseStoreError) {
            return try seal(creating: true).seal(key, authenticating: Array(url.utf8))
        } catch {
            throw CacheError(.notPermitted, "keys cannot be kept: \(error)")
        }
    }

    /// Whether `open` gives it. No copy of it is left behind.
    func opens(_ sealed: [UInt8], from url: String) -> Bool {
        guard var key = open(sealed, from: url) else { return false }
        wipe(&key)
        return true
    }

    /// The key, to be wiped by the caller. Nil where it was sealed on another device, or altered.
    func open(_ sealed: [UInt8], from url: String) -> [UInt8]? {
        let opened = try? seal(creating: false).open(sealed, authenticating: Array(url.utf8))
        return opened.flatMap { $0.count == Self.keySize ? $0 : nil }
    }

    private func seal(creating: Bool) throws(LicenseStoreError) -> Seal {
        try Seal(key: try secret.key(for: "cached keys 1", creating: creating))
    }
}
