// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Protected ISO media that can be read anywhere, on its way to clear media of the same size: what a range of the file
/// has to go through.
///
/// ```
/// try file.prepare(range) { offset, count in … bytes of the file … }
/// for key in file.keys { … make sure that the key is there … }
/// var bytes = … the file's bytes in file.extent …
/// try file.decrypt(&bytes) { plan, key, sample in … decrypt the sample in place … }
/// ```
///
/// The bytes of `range` within those of `extent` are then clear, and the boxes about protection have other types. What
/// is known of a file stays below 256 MiB whatever its boxes claim. A value for one owner at a time; nothing traps.
public struct ISORandomAccess: Sendable {
    /// Bytes of the file: fewer than wanted at its end, nil where they cannot be read.
    public typealias Read = (_ offset: UInt64, _ count: Int) -> [UInt8]?

    /// The largest sample, in bytes.
    public static let maximumSampleSize = 64 << 20
    /// The fragments that are remembered, in bytes of what is known of them.
    private static let fragmentBudget = 32 << 20
    private static let fragmentLimit = 1024

    private struct Selection {
        /// Index into `fragments`; -1 for the movie.
        var fragment: Int
        var sample: ISOSampleTable.Sample
    }

    private let defaults: ISOEncryption?
    private var regions = ISORegions()
    private var movie: ISOMovie?
    private var hasLookedForMovie = false
    private var fragments: [(offset: UInt64, value: ISOFragment)] = []
    private var fragmentPlaces: [UInt64: Int] = [:]
    private var newProtections: [ISOProtection] = []
    /// Whose protection systems were told.
    private var toldFragments: Set<UInt64> = []
    private var selected: [Selection] = []
    private var patching: [Int] = []
    private var plan = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))

    /// The range of the last `prepare`, with the whole of the encrypted samples that it cuts.
    public private(set) var extent: Range<UInt64> = 0..<0
    /// The keys that extent needs, each once.
    public private(set) var keys: [ISOKeyUse] = []

    /// Whether the `moov` box was read, and says so.
    public var isProtected: Bool { movie.map { $0.patches.count > 0 } ?? false }

    /// Whether anything in that extent is to be changed.
    public private(set) var changesExtent = false

    /// - Parameter defaults: how fragments of a file without `moov` are encrypted, as those of Smooth Streaming.
    public init(defaults: ISOEncryption? = nil) { self.defaults = defaults }

    /// Finds out what protects the bytes of `range`.
    ///
    /// Throws `malformed`, `truncated`, `unsupported` or `tooLarge` with the place, or `otherFormat`; the range must not be
    /// shown then.
    public mutating func prepare(_ range: Range<UInt64>, read: Read) throws(FormatError) {
        selected.removeAll(keepingCapacity: true)
        patching.removeAll(keepingCapacity: true)
        keys.removeAll(keepingCapacity: true)
        changesExtent = false
        extent = range
        try lookForMovie(read)
        trimFragments()
        var position = range.lowerBound
        while position < range.upperBound, let index = try region(containing: position, read) {
            let region = regions[index]
            try prepare(region, within: position..<range.upperBound, read)
            position = region.end
        }
        try settle()
        if !selected.isEmpty || !patching.isEmpty { changesExtent = true }
    }

    /// The protection systems that were found since the last call.
    public mutating func takeProtections() -> [ISOProtection] {
        defer { newProtections.removeAll() }
        return newProtections
    }

    /// Decrypts the samples in `bytes`, which are those of the file at `extent`, or fewer at its end, and changes the
    /// boxes about protection. Returns how many bytes from the start can go on: an encrypted sample whose end is
    /// missing cannot. Throws what `body` throws; a failure of the formats comes back as a value.
    public mutating func decrypt<Failure: Error>(
        _ bytes: UnsafeMutableRawBufferPointer,
        _ body: (SamplePlan, ISOKeyUse, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) -> Result<Int, FormatError> {
        movie?.patches.apply(to: bytes, at: extent.lowerBound)
        for index in patching { fragments[index].value.patches.apply(to: bytes, at: extent.lowerBound) }
        let end = extent.lowerBound + UInt64(bytes.count)
        for selection in selected {
            let sample = selection.sample
            guard sample.end <= end else {
                return .success(Int(clamping: max(sample.offset, extent.lowerBound) - extent.lowerBound))
            }
            let start = Int(sample.offset - extent.lowerBound)
            do throws(FormatError) {
                if selection.fragment < 0 {
                    try movie?.table.fill(&plan, for: sample)
                } else {
                    try fragments[selection.fragment].value.table.fill(&plan, for: sample)
                }
            } catch {
                return .failure(error)
            }
            // SAFETY: the sample ends in front of `end`, and `extent` starts in front of it.
            let part = UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + Int(sample.size)])
            try body(plan, key(of: selection), part)
        }
        return .success(bytes.count)
    }

    private func key(of selection: Selection) -> ISOKeyUse {
        guard selection.fragment < 0 else { return fragments[selection.fragment].value.table.key(of: selection.sample) }
        return movie?.table.key(of: selection.sample) ?? ISOKeyUse(keyID: nil, media: .video)
    }

    // MARK: What is asked for

    private mutating func prepare(
        _ region: ISORegion, within range: Range<UInt64>, _ read: Read
    ) throws(FormatError) {
        let wanted = max(region.start, range.lowerBound)..<min(region.end, range.upperBound)
        switch region.kind {
        case .fragment:
            patching.append(try fragment(at: region, read))
        case .media:
            for index in try group(of: region, read) {
                try select(from: fragments[index].value.table, fragment: index, wanted, in: region)
            }
        case .movie: changesExtent = true
        case .other: break
        }
        if let movie { try select(from: movie.table, fragment: -1, wanted, in: region) }
    }

    private mutating func select(
        from table: ISOSampleTable, fragment: Int, _ wanted: Range<UInt64>, in region: ISORegion
    ) throws(FormatError) {
        var index = table.firstIndex(endingAfter: wanted.lowerBound)
        while index < table.samples.count, table.samples[index].offset < wanted.upperBound {
            let sample = table.samples[index]
            try sample.check(liesIn: region)
            selected.append(Selection(fragment: fragment, sample: sample))
            index += 1
        }
    }

    /// Puts what was selected into order, and sums it up.
    private mutating func settle() throws(FormatError) {
        guard let first = selected.first else { return }
        if selected.count > 1 { selected.sort { $0.sample.offset < $1.sample.offset } }
        var lower = min(extent.lowerBound, first.sample.offset)
        var upper = extent.upperBound
        var end: UInt64 = 0
        for selection in selected {
            guard selection.sample.offset >= end else {
                throw .malformed("two encrypted samples share the bytes at \(selection.sample.offset)")
            }
            end = selection.sample.end
            lower = min(lower, selection.sample.offset)
            upper = max(upper, end)
            let key = key(of: selection)
            if keys.last != key, !keys.contains(key) { keys.append(key) }
        }
        extent = lower..<upper
    }

    // MARK: What is known

    private mutating func lookForMovie(_ read: Read) throws(FormatError) {
        guard !hasLookedForMovie else { return }
        var position: UInt64 = 0
        while movie == nil {
            guard let index = try region(startingAt: position, read) else { break }
            let region = regions[index]
            if region.kind == .fragment, defaults != nil { break }
            position = region.end
        }
        if movie == nil, let defaults { movie = ISOMovie(defaults: defaults) }
        hasLookedForMovie = true
    }

    /// Nil behind the end of the file, and for a search for an index.
    private mutating func region(containing position: UInt64, _ read: Read) throws(FormatError) -> Int? {
        if let index = regions.index(containing: position) { return index }
        if let before = regions.lastIndex(startingUpTo: position), regions[before].end < position,
            // What is there may be the inside of a box, and read as a broken header.
            let header = try? header(at: position, read), ISORegion.typesOfIndexedBoxes.contains(header.type)
        {
            // The caller knows from an index that a box starts here; the boxes between need not be read.
            return try add(header, at: position, read)
        }
        if let index = try regionOfIndex(endingBehind: position, read) { return index }
        if try isSearchForIndex(at: position, read) { return nil }
        var next = regions.lastIndex(startingUpTo: position).map { regions[$0].end } ?? 0
        while next <= position {
            guard let index = try region(startingAt: next, read) else { return nil }
            if regions[index].end > position { return index }
            next = regions[index].end
        }
        return regions.index(containing: position)
    }

    /// A search for the index of a file reads the box `mfro` at its end, which says how large the index is that it
    /// ends. The boxes in front of that need not be read: far away, each may cost a request.
    private mutating func regionOfIndex(endingBehind position: UInt64, _ read: Read) throws(FormatError) -> Int? {
        guard let bytes = read(position, Self.indexEndSize), bytes.count == Self.indexEndSize,
            let last = try? ISOBoxHeader(bytes[...], at: position), last.type == "mfro",
            let end = try? last.end(from: position), end == position + UInt64(Self.indexEndSize)
        else { return nil }
        let size = bytes[12...].reduce(0) { $0 << 8 | UInt64($1) }
        guard size <= end, regions.index(containing: end - size) == nil,
            let index = try header(at: end - size, read), index.type == "mfra",
            let indexEnd = try? index.end(from: end - size), indexEnd == end
        else { return nil }
        return try add(index, at: end - size, read)
    }

    /// Whether these are the last bytes of a file without an index, which were looked at to find one: nothing known
    /// leads there. They go on as they are.
    private mutating func isSearchForIndex(at position: UInt64, _ read: Read) throws(FormatError) -> Bool {
        guard extent.lowerBound == position, extent.count == Self.indexEndSize,
            let bytes = read(position, Self.indexEndSize + 1), bytes.count == Self.indexEndSize
        else { return false }
        // The media of the last fragment that is known may reach there.
        var next = regions.lastIndex(startingUpTo: position).map { regions[$0].end } ?? 0
        while next <= position, let index = try region(startingAt: next, read) {
            if regions[index].end > position { return false }
            if regions[index].kind == .media { return true }
            next = regions[index].end
        }
        return false
    }

    /// Of a box `mfro` (ISO/IEC 14496-12, 8.8.11), in bytes.
    private static let indexEndSize = 16

    private mutating func region(startingAt position: UInt64, _ read: Read) throws(FormatError) -> Int? {
        if let index = regions.index(containing: position) { return index }
        guard position < .max, let header = try header(at: position, read) else { return nil }
        return try add(header, at: position, read)
    }

    private func header(at position: UInt64, _ read: Read) throws(FormatError) -> ISOBoxHeader? {
        guard let bytes = read(position, ISOBoxHeader.maximumSize) else { return nil }
        if position == 0 {
            // Fewer are there only where the file ends.
            guard bytes.isEmpty || bytes.count >= 8 else { throw ISORecognition.noBox }
            try ISORecognition.checkStart(bytes[...])
        }
        return try ISOBoxHeader(bytes[...], at: position)
    }

    private mutating func add(_ header: ISOBoxHeader, at position: UInt64, _ read: Read) throws(FormatError) -> Int? {
        try regions.insert(header, at: position)
        guard let index = regions.index(containing: position) else { return nil }
        if regions[index].kind == .movie, movie == nil {
            let bytes = try box(regions[index], limit: ISOMovie.maximumSize, read)
            let found = try ISOMovie(bytes, at: position) { Self.external($0, read) }
            newProtections += found.protections
            movie = found
        }
        return index
    }

    private func box(_ region: ISORegion, limit: UInt64, _ read: Read) throws(FormatError) -> [UInt8] {
        let name = region.kind == .movie ? "moov" : "moof"
        let size = region.end - region.start
        guard size <= limit else {
            throw .tooLarge("box “\(name)” at \(region.start) of \(size) bytes; \(limit) are read")
        }
        guard let bytes = read(region.start, Int(size)), bytes.count == Int(size) else {
            throw .truncated("box “\(name)” at \(region.start): the file ends within its \(size) bytes")
        }
        return bytes
    }

    private static func external(_ range: Range<UInt64>, _ read: Read) -> ArraySlice<UInt8>? {
        guard let count = Int(exactly: range.upperBound - range.lowerBound) else { return nil }
        return read(range.lowerBound, count)?[...]
    }

    // MARK: Fragments

    /// The fragments that say what is in `region`.
    private mutating func group(of region: ISORegion, _ read: Read) throws(FormatError) -> [Int] {
        guard let start = region.group, var index = regions.index(containing: start) else { return [] }
        var members: [Int] = []
        while index < regions.count, regions[index].kind != .media {
            if regions[index].kind == .fragment { members.append(try fragment(at: regions[index], read)) }
            guard index + 1 < regions.count, regions[index].end == regions[index + 1].start else { break }
            index += 1
        }
        return members
    }

    private mutating func fragment(at region: ISORegion, _ read: Read) throws(FormatError) -> Int {
        if let index = fragmentPlaces[region.start] { return index }
        guard let movie else { throw .malformed("box “moof” at \(region.start): no box “moov” tells of its tracks") }
        let bytes = try box(region, limit: ISOFragment.maximumSize, read)
        let fragment = try ISOFragment(bytes, at: region.start, of: movie) { Self.external($0, read) }
        self.movie?.note(fragment)
        guard fragments.count < Self.fragmentLimit * 2, fragmentCost + fragment.cost <= Self.fragmentBudget * 2 else {
            throw .tooLarge("box “moof” at \(region.start): too many fragments for one range of the file")
        }
        if toldFragments.insert(region.start).inserted { newProtections += fragment.protections }
        fragmentPlaces[region.start] = fragments.count
        fragments.append((region.start, fragment))
        fragmentCost += fragment.cost
        return fragments.count - 1
    }

    private var fragmentCost = 0

    /// Forgets the older half. Only between ranges: places in `fragments` change.
    private mutating func trimFragments() {
        guard fragments.count >= Self.fragmentLimit || fragmentCost >= Self.fragmentBudget else { return }
        fragments.removeFirst((fragments.count + 1) / 2)
        fragmentPlaces.removeAll(keepingCapacity: true)
        fragmentCost = 0
        for (index, fragment) in fragments.enumerated() {
            fragmentPlaces[fragment.offset] = index
            fragmentCost += fragment.value.cost
        }
    }
}

extension ISOFragment {
    /// In bytes of memory, nearly.
    var cost: Int {
        table.samples.capacity * MemoryLayout<ISOSampleTable.Sample>.stride + table.auxiliary.count
            + patches.count * MemoryLayout<ISOPatch>.stride + 1024
    }
}

extension ISOSampleTable.Sample {
    /// Throws `malformed` where the sample is not within the media of `region`, `tooLarge` above the limit.
    func check(liesIn region: ISORegion) throws(FormatError) {
        guard region.kind == .media, offset >= region.start + UInt64(region.headerSize), end <= region.end else {
            throw .malformed("the encrypted sample at \(offset) is not within a box “mdat”")
        }
        guard size <= ISORandomAccess.maximumSampleSize else {
            throw .tooLarge("the encrypted sample at \(offset) has \(size) bytes")
        }
    }
}
