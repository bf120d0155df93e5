// SPDX-License-Identifier: MPL-2.0

import Storage

/// What is on disk of one item: a folder with the index and a file for each resource.
///
/// A block counts from the moment when its bytes are on disk and its digest is in the index; what is read is compared
/// with the digest each time, and a block that was altered or cut off is forgotten. So nothing is claimed that is not
/// there, wherever the process or the power ends. Runs on the thread of the cache.
actor ItemStore {
    nonisolated let folder: String
    private let executor: StorageExecutor
    private let files: BlockFiles
    private var lock: CacheFolder.Lock?
    private let index: ItemIndex
    nonisolated let blockSize: Int

    private(set) var record: ItemRecord
    private(set) var resources: [String: CachedResource] = [:]
    private(set) var pieces: [CachedPiece] = []
    private var urls: [Int64: String] = [:]
    private var present: [Int64: Set<UInt64>] = [:]
    /// On disk, in bytes.
    private(set) var cachedSize: UInt64 = 0
    private var progress = LinearProgress()
    private var open: [Int64: any BlockFile] = [:]
    private var isRemoved = false

    /// The most resources whose files are kept open.
    private static let openLimit = 16

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Opens the item in `folder`. Where there is none, makes it from `new`, or throws `notCached` where that is nil.
    /// Reads the disk: on the thread of the cache.
    init(
        folder: String, new: ItemRecord?, blockSize: Int, executor: StorageExecutor, files: BlockFiles
    ) throws(CacheError) {
        self.folder = folder
        self.executor = executor
        self.files = files
        let isNew = !CacheFolder.exists(folder + "/index.db")
        if isNew {
            guard new != nil else { throw CacheError(.notCached, "there is nothing in \(folder)") }
            try CacheFolder.create(folder)
        }
        lock = try CacheFolder.Lock(folder, isExclusive: false)
        index = try ItemIndex(path: folder + "/index.db", blockSize: blockSize)
        let blockSize = index.blockSize
        self.blockSize = blockSize
        let values = try index.values()
        if let known = ItemRecord(values: values) {
            record = known
        } else {
            guard let new else { throw CacheError(.notCached, "\(folder) has no content") }
            record = new
            let index = index
            try index.transaction { () throws(CacheError) in
                for (name, value) in new.values { try index.set(name, value) }
            }
            try CacheFolder.synchronize(folder)
        }
        for resource in try index.resources() {
            resources[resource.url] = resource
            urls[resource.number] = resource.url
        }
        pieces = try index.pieces()
        present = try index.blocks()
        for resource in resources.values {
            for block in present[resource.number] ?? [] {
                cachedSize += UInt64(Self.size(of: block, in: resource, blockSize))
            }
        }
    }

    // MARK: What there is

    func update(_ change: @Sendable (inout ItemRecord) -> Void) throws(CacheError) {
        var new = record
        change(&new)
        guard new != record, !isRemoved else { return }
        try index.transaction { () throws(CacheError) in
            for (name, value) in new.values { try index.set(name, value) }
        }
        record = new
    }

    /// How much plays from the start without the network.
    func cachedDuration() -> Duration {
        progress.advance(through: pieces) { isPresent($0) }
    }

    /// The resource with this URL, which gets a place where it has none.
    func resource(_ url: String) throws(CacheError) -> CachedResource {
        if let known = resources[url] { return known }
        let number = (urls.keys.max() ?? 0) + 1
        let new = CachedResource(
            number: number, url: url, answeringURL: url, size: nil, validator: "", contentType: "")
        // Who plays needs no place on the disk; whoever stores writes it again with the size.
        if !isRemoved { try? index.write(new) }
        resources[url] = new
        urls[number] = url
        return new
    }

    /// Gives resources their places, all at once.
    func addResources(_ wanted: [String]) throws(CacheError) {
        var next = (urls.keys.max() ?? 0) + 1
        var added: [CachedResource] = []
        var seen: Set<String> = []
        for url in wanted where resources[url] == nil && seen.insert(url).inserted {
            added.append(
                CachedResource(number: next, url: url, answeringURL: url, size: nil, validator: "", contentType: ""))
            next += 1
        }
        guard !added.isEmpty else { return }
        if !isRemoved {
            try index.transaction { () throws(CacheError) in
                for resource in added { try index.write(resource) }
            }
        }
        for resource in added {
            resources[resource.url] = resource
            urls[resource.number] = resource.url
        }
    }

    func setPieces(_ new: [CachedPiece]) throws(CacheError) {
        guard new != pieces else { return }
        if !isRemoved {
            try index.transaction { () throws(CacheError) in try index.replacePieces(new) }
        }
        pieces = new
        progress = LinearProgress()
    }

    func add(_ piece: CachedPiece) throws(CacheError) {
        if !isRemoved { try index.write(piece, pieces.count) }
        pieces.append(piece)
    }

    func isPresent(_ piece: CachedPiece) -> Bool {
        guard let url = urls[piece.resource], let resource = resources[url] else { return false }
        return isPresent(piece.offset, piece.length, of: resource)
    }

    /// Whether the bytes are on disk. A resource whose size is not known has none.
    func isPresent(_ offset: UInt64, _ length: UInt64?, of resource: CachedResource) -> Bool {
        guard let size = resource.size else { return false }
        let end = length.map { min(size, offset.addingReportingOverflow($0).partialValue) } ?? size
        guard offset < end else { return true }
        let blocks = present[resource.number] ?? []
        return (offset / UInt64(blockSize)...(end - 1) / UInt64(blockSize)).allSatisfy(blocks.contains)
    }

    /// The end of what is on disk without a gap from `offset` on; `offset` where nothing is.
    func presentEnd(from offset: UInt64, of url: String) -> UInt64 {
        guard let resource = resources[url], let size = resource.size else { return offset }
        let blocks = present[resource.number] ?? []
        var block = offset / UInt64(blockSize)
        while block * UInt64(blockSize) < size, blocks.contains(block) { block += 1 }
        return max(offset, min(size, block * UInt64(blockSize)))
    }

    /// The first block from `first` on that is missing before `end`, with those behind it that are missing too, at most
    /// `limit`.
    func missing(_ resource: Int64, from first: UInt64, to end: UInt64, limit: UInt64) -> Range<UInt64>? {
        let blocks = present[resource] ?? []
        guard first < end, let start = (first..<end).first(where: { !blocks.contains($0) }) else { return nil }
        var stop = start + 1
        while stop < end, stop - start < limit, !blocks.contains(stop) { stop += 1 }
        return start..<stop
    }

    /// The first block that is missing; nil where nothing is. Of an item that is not planned to its end, the first behind
    /// what is there.
    func firstGap() -> (url: String, block: UInt64)? {
        if record.isPlanned {
            guard let piece = pieces.first(where: { !isPresent($0) }), let url = urls[piece.resource],
                let resource = resources[url]
            else { return nil }
            let first = piece.offset / UInt64(blockSize)
            let end = piece.length.map { piece.offset + $0 } ?? resource.size ?? .max
            return (
                url,
                missing(resource.number, from: first, to: max(end / UInt64(blockSize) + 1, first + 1), limit: 1)?
                    .lowerBound ?? first
            )
        }
        return (record.url, presentEnd(from: 0, of: record.url) / UInt64(blockSize))
    }

    /// Of a file: the end of the last fragment that is there without a gap from the start on.
    func edgeOffset() -> UInt64 {
        let end = presentEnd(from: 0, of: record.url)
        return pieces.compactMap { piece in piece.length.map { piece.offset + $0 } }.filter { $0 <= end }.max() ?? end
    }

    // MARK: Bytes

    /// A block; nil where it is not on disk, or is not any more what was stored.
    func read(_ block: UInt64, of resource: CachedResource) throws(CacheError) -> [UInt8]? {
        guard !isRemoved, present[resource.number]?.contains(block) == true else { return nil }
        // What the disk cannot read any more is as good as altered.
        let bytes = try? file(resource.number).read(size(of: block, in: resource), at: block * UInt64(blockSize))
        if let bytes, let digest = try index.digest(resource.number, block), digest == (try BlockDigest.of(bytes[...]))
        {
            return bytes
        }
        try index.remove(resource.number, block)
        present[resource.number]?.remove(block)
        cachedSize -= min(cachedSize, UInt64(size(of: block, in: resource)))
        progress = LinearProgress()
        return nil
    }

    /// Stores whole blocks from `first` on; the last may be shorter at the end of the resource. `resource` tells the size
    /// and the validator, which are stored with them.
    func write(_ bytes: [UInt8], from first: UInt64, of resource: CachedResource) throws(CacheError) {
        guard !isRemoved else { return learn(resource) }
        let file = try file(resource.number)
        try file.write(bytes[...], at: first * UInt64(blockSize))
        try file.synchronize()
        var blocks: [(number: UInt64, digest: [UInt8])] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let number = first + UInt64(blocks.count)
            let count = size(of: number, in: resource)
            guard count > 0, rest.count >= count else { break }
            blocks.append((number, try BlockDigest.of(rest.prefix(count))))
            rest = rest.dropFirst(count)
        }
        try index.transaction { () throws(CacheError) in
            if resources[resource.url] != resource { try index.write(resource) }
            for block in blocks { try index.write(resource.number, block.number, digest: block.digest) }
        }
        resources[resource.url] = resource
        for block in blocks where present[resource.number, default: []].insert(block.number).inserted {
            cachedSize += UInt64(size(of: block.number, in: resource))
        }
    }

    /// What an answer told of a resource, for those who play it, where nothing can be stored.
    func learn(_ resource: CachedResource) { resources[resource.url] = resource }

    /// Takes the size of a resource without bytes, or nothing new.
    func write(_ resource: CachedResource) throws(CacheError) {
        guard resources[resource.url] != resource else { return }
        if !isRemoved { try index.write(resource) }
        resources[resource.url] = resource
    }

    /// Reads everything, and forgets what is not any more what was stored. Returns how many blocks that were.
    func verify() async throws(CacheError) -> Int {
        var bad = 0
        for resource in resources.values {
            for block in (present[resource.number] ?? []).sorted() {
                if Task.isCancelled { return bad }
                if try read(block, of: resource) == nil { bad += 1 }
                // Others want the thread too.
                await Task.yield()
            }
        }
        return bad
    }

    // MARK: The end

    /// Nothing is stored any more; whoever still reads finds nothing.
    func forget() {
        isRemoved = true
        (open, present, pieces, cachedSize) = ([:], [:], [], 0)
        lock = nil
        progress = LinearProgress()
        index.close()
    }

    private func size(of block: UInt64, in resource: CachedResource) -> Int {
        Self.size(of: block, in: resource, blockSize)
    }

    private static func size(of block: UInt64, in resource: CachedResource, _ blockSize: Int) -> Int {
        let start = block * UInt64(blockSize)
        guard let size = resource.size, start < size else { return 0 }
        return Int(min(UInt64(blockSize), size - start))
    }

    private func file(_ number: Int64) throws(CacheError) -> any BlockFile {
        if let file = open[number] { return file }
        if open.count >= Self.openLimit { open = [:] }
        let file = try files.open("\(folder)/\(number).data")
        open[number] = file
        return file
    }
}
