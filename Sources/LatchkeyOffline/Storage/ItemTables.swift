// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyManifests

/// What is known of an item: its resources, of which parts it is made, and which blocks are on disk. A value.
struct ItemTables: Sendable {
    let blockSize: Int
    /// By the normalized URL. A number below 0: the index does not know it yet.
    private(set) var resources: [String: CachedResource] = [:]
    /// In the order of their times.
    private(set) var pieces: [CachedPiece] = []
    /// The pieces before this one are on disk. Set back if that may not be so any more.
    private var presentPieces = 0
    /// How many pieces `firstGap` has looked at, in all calls together: what it costs.
    private(set) var looks = 0
    /// Sealed, by URL; empty where the key is not kept.
    var keys: [String: [UInt8]] = [:]
    /// Keys of key servers, by URI: why one is not stored, or nothing where it was.
    var refusals: [String: String] = [:]
    private var urls: [Int64: String] = [:]
    /// Of the numbers, or beyond.
    private var lowest: Int64 = 0
    private var highest: Int64 = 0
    private var present: [Int64: BlockSet] = [:]
    /// On disk, in bytes.
    private(set) var cachedSize: UInt64 = 0

    init(blockSize: Int) { self.blockSize = blockSize }

    /// All that the index says. Resources that it does not know stay; so do the pieces, and the keys that are needed, of a
    /// plan that it does not have yet.
    mutating func take(_ contents: IndexContents, keepingPlan: Bool = false) {
        let unknown = resources.values.filter { $0.number < 0 }
        (resources, urls, cachedSize) = ([:], [:], 0)
        present = contents.blocks.mapValues { BlockSet($0) }
        (highest, presentPieces) = (0, 0)
        for resource in contents.resources { add(resource) }
        keys = keepingPlan ? contents.keys.merging(keys) { known, _ in known } : contents.keys
        refusals = keepingPlan ? contents.refusals.merging(refusals) { known, _ in known } : contents.refusals
        if !keepingPlan { pieces = contents.pieces }
        var numbers: [Int64: Int64] = [:]
        for resource in unknown { put(known(resource.url) ?? resource, insteadOf: resource.number, &numbers) }
        renumber(numbers)
        for resource in resources.values {
            for block in present[resource.number]?.numbers ?? [] { cachedSize += UInt64(size(of: block, in: resource)) }
        }
    }

    /// Nothing is on disk any more.
    mutating func clear() {
        (present, cachedSize, keys, refusals) = ([:], 0, [:], [:])
        setPieces([])
    }

    /// Those that are needed and cannot be kept, or are not kept yet.
    var unkeptKeys: [String] { keys.compactMap { $0.value.isEmpty ? $0.key : nil } }

    // MARK: Pieces

    /// In the place of those that were known.
    mutating func setPieces(_ new: [CachedPiece]) { (pieces, presentPieces) = (new, 0) }

    /// Behind the others.
    mutating func add(_ piece: CachedPiece) { pieces.append(piece) }

    // MARK: Resources

    func known(_ url: String) -> CachedResource? { resources[URIReference.normalized(url)] }

    func url(of piece: CachedPiece) -> String? { urls[piece.resource] }

    /// The resource with this URL, which is added where it is not known.
    mutating func resource(_ url: String) -> CachedResource {
        if let known = known(url) { return known }
        let new = CachedResource(number: lowest - 1, url: url)
        add(new)
        return new
    }

    /// With the number that the index has for it, or the next one.
    func numbered(_ resource: CachedResource) -> CachedResource {
        var numbered = resource
        numbered.number = known(resource.url)?.number ?? -1
        if numbered.number < 0 { numbered.number = highest + 1 }
        return numbered
    }

    /// Gives all of these that the index does not know the numbers that it will have for them. Returns those, each once.
    mutating func number(_ wanted: [String]) -> [CachedResource] {
        var added: [CachedResource] = []
        var numbers: [Int64: Int64] = [:]
        for url in wanted {
            let old = resource(url)
            guard old.number < 0 else { continue }
            let new = numbered(old)
            put(new, insteadOf: old.number, &numbers)
            added.append(new)
        }
        renumber(numbers)
        return added
    }

    /// In the place of the resource with this URL, whose number may be another.
    mutating func replace(with resource: CachedResource) {
        var numbers: [Int64: Int64] = [:]
        put(resource, insteadOf: known(resource.url)?.number ?? resource.number, &numbers)
        renumber(numbers)
    }

    /// `numbers` gets the new number by the old one, where they differ: the pieces do not have it yet.
    private mutating func put(_ resource: CachedResource, insteadOf old: Int64, _ numbers: inout [Int64: Int64]) {
        if old != resource.number {
            urls[old] = nil
            numbers[old] = resource.number
        }
        add(resource)
    }

    /// Goes through the pieces once, whatever the number of resources: a presentation may have hundreds of thousands of both.
    private mutating func renumber(_ numbers: [Int64: Int64]) {
        guard !numbers.isEmpty else { return }
        presentPieces = 0
        for place in pieces.indices {
            if let number = numbers[pieces[place].resource] { pieces[place].resource = number }
        }
    }

    private mutating func add(_ resource: CachedResource) {
        let name = URIReference.normalized(resource.url)
        if let size = resources[name]?.size, size != resource.size { presentPieces = 0 }
        resources[name] = resource
        urls[resource.number] = resource.url
        (lowest, highest) = (min(lowest, resource.number), max(highest, resource.number))
    }

    // MARK: Blocks

    func has(_ block: UInt64, of resource: CachedResource) -> Bool { present[resource.number]?.contains(block) == true }

    /// Those that are on disk, in order.
    func blocks(of resource: CachedResource) -> [UInt64] { (present[resource.number]?.numbers ?? []).sorted() }

    mutating func add(_ block: UInt64, of resource: CachedResource) {
        if present[resource.number, default: BlockSet()].insert(block) {
            cachedSize += UInt64(size(of: block, in: resource))
        }
    }

    mutating func remove(_ block: UInt64, of resource: CachedResource) {
        if present[resource.number]?.remove(block) == true {
            presentPieces = 0
            cachedSize -= min(cachedSize, UInt64(size(of: block, in: resource)))
        }
    }

    /// In bytes; the last block of a resource may be shorter.
    func size(of block: UInt64, in resource: CachedResource) -> Int {
        let (start, overflow) = block.multipliedReportingOverflow(by: UInt64(blockSize))
        guard let size = resource.size, !overflow, start < size else { return 0 }
        return Int(min(UInt64(blockSize), size - start))
    }

    // MARK: What is there

    func isPresent(_ piece: CachedPiece) -> Bool {
        guard let url = urls[piece.resource], let resource = known(url) else { return false }
        return isPresent(piece.offset, piece.length, of: resource)
    }

    /// Whether the bytes are on disk. A resource whose size is not known has none.
    func isPresent(_ offset: UInt64, _ length: UInt64?, of resource: CachedResource) -> Bool {
        guard let size = resource.size else { return false }
        guard offset < size else { return true }
        let end = length.map { offset + min($0, size - offset) } ?? size
        guard offset < end else { return true }
        let blocks = present[resource.number] ?? BlockSet()
        let last = (end - 1) / UInt64(blockSize)
        let first = max(offset / UInt64(blockSize), blocks.firstMissing)
        return first > last || (first...last).allSatisfy { blocks.contains($0) }
    }

    /// The end of what is on disk without a gap from the start on.
    func presentEnd(of url: String) -> UInt64 {
        guard let resource = known(url), let size = resource.size else { return 0 }
        let count = present[resource.number]?.firstMissing ?? 0
        let (end, overflow) = count.multipliedReportingOverflow(by: UInt64(blockSize))
        return overflow ? size : min(size, end)
    }

    /// The first block from `first` on that is missing before `end`, with those behind it that are missing too, at most
    /// `limit`.
    func missing(_ resource: Int64, from first: UInt64, to end: UInt64, limit: UInt64) -> Range<UInt64>? {
        let blocks = present[resource] ?? BlockSet()
        let first = max(first, blocks.firstMissing)
        guard first < end, let start = (first..<end).first(where: { !blocks.contains($0) }) else { return nil }
        var stop = start + 1
        while stop < end, stop - start < limit, !blocks.contains(stop) { stop += 1 }
        return start..<stop
    }

    /// The first block that is missing; nil where nothing is. Of an item that is not planned to its end, the first behind
    /// what is there. Each call goes on from the last: it is asked for with each block that comes.
    mutating func firstGap(of record: ItemRecord) -> (url: String, block: UInt64)? {
        if record.isPlanned {
            while presentPieces < pieces.count {
                looks += 1
                guard isPresent(pieces[presentPieces]) else { break }
                presentPieces += 1
            }
            guard presentPieces < pieces.count else { return nil }
            let piece = pieces[presentPieces]
            guard let url = urls[piece.resource], let resource = known(url) else { return nil }
            let first = piece.offset / UInt64(blockSize)
            let end = piece.endOffset ?? resource.size ?? .max
            return (
                url,
                missing(resource.number, from: first, to: max(end / UInt64(blockSize) + 1, first + 1), limit: 1)?
                    .lowerBound ?? first
            )
        }
        return (record.url, presentEnd(of: record.url) / UInt64(blockSize))
    }
}

/// The blocks of one resource that are on disk. A value.
struct BlockSet: Sendable {
    private(set) var numbers: Set<UInt64>
    /// All before this one are there. It is kept, so that a large file costs no more than a small one.
    private(set) var firstMissing: UInt64 = 0

    init(_ numbers: Set<UInt64> = []) {
        self.numbers = numbers
        goOn()
    }

    func contains(_ number: UInt64) -> Bool { numbers.contains(number) }

    /// False if it was there.
    mutating func insert(_ number: UInt64) -> Bool {
        guard numbers.insert(number).inserted else { return false }
        goOn()
        return true
    }

    /// False if it was not there.
    mutating func remove(_ number: UInt64) -> Bool {
        guard numbers.remove(number) != nil else { return false }
        firstMissing = min(firstMissing, number)
        return true
    }

    private mutating func goOn() {
        while numbers.contains(firstMissing) { firstMissing += 1 }
    }
}
