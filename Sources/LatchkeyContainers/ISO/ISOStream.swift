// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Protected ISO media that comes in order, on its way to clear media of the same size.
///
/// The caller brings bytes of any size, then takes steps until there is nothing more to do, and takes the output:
///
/// ```
/// try stream.append(bytes)
/// while true {
///     switch try stream.next() {
///     case .sample(let key):
///         … make sure that the key is there …
///         try stream.withSample { plan, bytes in … decrypt the bytes in place … }
///     case .needsMovie(let place): … seek, or `try stream.holdMedia()` …
///     case .goBack(let place): … seek …
///     case .nothing: return
///     }
/// }
/// ```
///
/// A sample whose key is missing may wait: more bytes can be appended meanwhile, and what is in front of it taken.
/// Encrypted samples never get out, not even in part. Held are one sample or one `moov` or `moof` box, what is
/// appended, media in front of its `moov` box up to 10 MiB where the caller cannot seek, and at most 32 MiB about the
/// fragments whose media comes next. A value for one owner at a time; bytes that cannot be read throw, and never trap.
public struct ISOStream: Sendable {
    /// What `next` found.
    public enum Step: Hashable, Sendable {
        /// More bytes are needed.
        case nothing
        /// The next sample is there, encrypted with this key.
        case sample(ISOKeyUse)
        /// The media is in front of the `moov` box that tells of it: `jump(to:)` this place and go on from there, or
        /// `holdMedia()`. What was ready before can be taken first.
        case needsMovie(from: UInt64)
        /// The `moov` box is known now: `jump(to:)` the media.
        case goBack(to: UInt64)
    }

    enum State: Sendable {
        /// A box starts at the cursor.
        case header
        case passing(until: UInt64)
        /// A `moov` or `moof` box, which is read when it is there as a whole. `until`: what it needs besides.
        case whole(ISORegion, until: UInt64)
        case media(ISORegion)
    }

    /// What a box at the top of a file may be.
    static let typesAtTop: Set<String> = [
        "ftyp", "styp", "moov", "moof", "mfra", "sidx", "ssix", "emsg", "prft", "free", "skip", "uuid", "meta",
    ]
    /// A group of fragments in front of their media has no more: in number, and in bytes of what is known of them.
    static let fragmentLimit = 256
    static let fragmentBudget = 32 << 20
    /// The most media that is held, in bytes: as much as GStreamer's demuxer holds of clear media.
    static let heldLimit: UInt64 = 10 << 20

    let defaults: ISOEncryption?
    var state = State.header
    var queue = ISOByteQueue()
    /// What is in front of this in the file may go on.
    var cursor: UInt64 = 0
    var regions = ISORegions()
    var movie: ISOMovie?
    var fragments: [ISOFragment] = []
    /// The first sample that is not done, for each of `fragments`.
    var nextSamples: [Int] = []
    var nextOfMovie = 0
    /// Media came behind the last fragment: another one starts a new group.
    var hasMedia = false
    var newProtections: [ISOProtection] = []
    var isFragmented = false
    /// Whether this is a presentation, of which segments come in a row: noise in place of one is an error then. In a file, what is
    /// no box may stand behind the last fragment, and is passed on.
    public var isOfSegments = false
    /// Where the media is whose `moov` box is looked for.
    var interrupted: UInt64?
    /// The bytes at the cursor were jumped to, and nothing tells yet that a box starts there.
    var isUnverified = false
    var current: (fragment: Int, sample: ISOSampleTable.Sample)?
    var plan = SamplePlan(scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0))

    /// - Parameter defaults: how fragments of a file without `moov` are encrypted, as those of Smooth Streaming.
    public init(defaults: ISOEncryption? = nil) {
        self.defaults = defaults
        if let defaults { movie = ISOMovie(defaults: defaults) }
    }

    /// Takes the next bytes of the file, any number. They are copied; the buffer stays the caller's.
    public mutating func append(_ bytes: UnsafeRawBufferPointer) { queue.append(bytes) }

    /// How many bytes can go on now, from `outputOffset` on.
    public var outputSize: Int {
        // What is behind media without `moov` was only looked at.
        let end = min(cursor, interrupted ?? cursor)
        return end > queue.start ? Int(end - queue.start) : 0
    }

    /// Where the first of them stands in the file.
    public var outputOffset: UInt64 { queue.start }

    /// Where the sample that `next` announced last begins in the file.
    public var sampleOffset: UInt64? { current?.sample.offset }

    /// Everything that was appended and not taken yet, in bytes, ready or not.
    public var heldSize: Int { queue.count }

    /// Moves the first bytes of the output into `target`, which is not larger than `outputSize`.
    public mutating func takeOutput(into target: UnsafeMutableRawBufferPointer) { queue.take(into: target) }

    /// The protection systems that were found since the last call.
    public mutating func takeProtections() -> [ISOProtection] {
        defer { newProtections.removeAll() }
        return newProtections
    }

    /// Goes on at another place of the same file: the next bytes are those at `position`. What was not taken is
    /// forgotten.
    ///
    /// Throws `unsupported` for a place in the middle of a sample or of a box that has to be read as a whole.
    public mutating func jump(to position: UInt64) throws(FormatError) {
        queue.restart(at: position)
        cursor = position
        if movie != nil { interrupted = nil }
        current = nil
        fragments.removeAll()
        nextSamples.removeAll()
        nextOfMovie = movie?.table.firstIndex(endingAfter: position) ?? 0
        state = .header
        isUnverified = regions.index(containing: position) == nil
        guard let index = regions.index(containing: position), regions[index].start < position else { return }
        let region = regions[index]
        switch region.kind {
        case .other: state = .passing(until: region.end)
        case .media:
            if let samples = movie?.table.samples, nextOfMovie < samples.count, samples[nextOfMovie].offset < position {
                throw Self.startsWithinSample(position)
            }
            state = .media(region)
        case .movie, .fragment:
            throw .unsupported("a start at \(position), in the middle of a box that has to be read as a whole")
        }
    }

    /// Goes on at another place of the media that the last fragments tell of, in front or behind: demuxers that show key
    /// frames alone leave out what is between these. What was not taken is forgotten. False, and nothing changed, if no
    /// fragment is known.
    ///
    /// Throws `unsupported` for a place in the middle of an encrypted sample.
    public mutating func skip(to position: UInt64) throws(FormatError) -> Bool {
        guard !fragments.isEmpty, position <= UInt64(Int64.max) else { return false }
        queue.restart(at: position)
        cursor = position
        current = nil
        hasMedia = true
        isUnverified = false
        // The header of the box may have been left out, too.
        state = .media(ISORegion(kind: .media, start: position, end: .max, headerSize: 0))
        for (index, fragment) in fragments.enumerated() {
            nextSamples[index] = fragment.table.firstIndex(endingAfter: position)
        }
        if let (_, sample) = nextSample(), sample.offset < position { throw Self.startsWithinSample(position) }
        return true
    }

    private static func startsWithinSample(_ position: UInt64) -> FormatError {
        .unsupported("a start at \(position), in the middle of an encrypted sample")
    }

    /// Whether `bytes`, which come next, begin a segment although a box of the fragment in front of it is not complete. So that
    /// was cut short, as the byte range of a key frame is. `jump(to:)` its place then: what was not taken is of no use.
    public func isCutShort(by bytes: UnsafeRawBufferPointer) -> Bool {
        let end: UInt64
        switch state {
        case .header: return false
        case .passing(let until): end = until
        case .whole(let region, _): end = region.end
        case .media(let region): end = region.end
        }
        return isFragmented && queue.end < end && Self.startsSegment(bytes)
    }

    /// The first bytes that were appended and not taken yet, at most `limit`.
    public func heldBytes(_ limit: Int) -> [UInt8] { Array(queue.bytes(from: queue.start).prefix(max(limit, 0))) }

    /// What to do next. Throws as the boxes are read, and `otherFormat` where what comes first is not ISO media; nothing
    /// goes on from there then.
    public mutating func next() throws(FormatError) -> Step {
        while true {
            switch state {
            case .header:
                if let movie, let place = interrupted {
                    guard queue.start <= place else { return .goBack(to: place) }
                    // The media was held.
                    cursor = place
                    nextOfMovie = movie.table.firstIndex(endingAfter: place)
                    interrupted = nil
                }
                guard try readHeader() else { return .nothing }
            case .passing(let end):
                cursor = min(end, queue.end)
                guard cursor == end else { return .nothing }
                state = .header
            case .whole(let region, let until):
                guard queue.end >= until else { return .nothing }
                try readBox(region)
            case .media(let region) where movie == nil:
                if interrupted == nil { interrupted = region.start }
                return .needsMovie(from: region.end)
            case .media(let region):
                guard let step = try proceed(in: region) else { continue }
                return step
            }
        }
    }

    /// After `needsMovie`, if the caller cannot jump: the media stays here until its `moov` box has come. Throws
    /// `unsupported` for more than is held.
    public mutating func holdMedia() throws(FormatError) {
        guard case .media(let region) = state, movie == nil else { return }
        guard region.end - min(queue.start, region.end) <= Self.heldLimit else { throw Self.mediaFirst }
        state = .passing(until: region.end)
    }

    /// What is wrong where the caller cannot jump.
    public static let mediaFirst = FormatError.unsupported(
        "the media is in front of the box “moov”; above \(heldLimit >> 20) MiB, this needs a source that can be read "
            + "anywhere, such as a file")
    private static let noMovie = FormatError.malformed("no box “moov” tells of the media")

    /// The end of the stream. Throws `otherFormat` where less than one box came, `truncated` within a box that the
    /// samples need; an encrypted sample that is cut off is left out.
    public mutating func end() throws(FormatError) {
        switch state {
        case .header:
            guard interrupted == nil else { throw Self.noMovie }
            guard cursor > 0 || queue.count == 0 else { throw ISORecognition.noBox }
            cursor = queue.end
        case .whole(let region, _):
            // Read before; a player that seeks may stop anywhere.
            guard region.kind != .movie || movie == nil || defaults != nil else { return }
            let name = region.kind == .movie ? "moov" : "moof"
            if queue.end >= region.end { try read(region) { _ in nil } }
            throw .truncated("box “\(name)” at \(region.start): the stream ends within its bytes")
        case .media where movie == nil: throw Self.mediaFirst
        case .passing, .media:
            guard interrupted == nil else { throw Self.noMovie }
        }
    }
}

/// The boxes at the top of the file, one after the other.
extension ISOStream {
    private mutating func readHeader() throws(FormatError) -> Bool {
        if cursor == 0 { try ISORecognition.checkStart(queue.bytes(from: 0)) }
        guard let header = try ISOBoxHeader(queue.bytes(from: cursor), at: cursor) else { return false }
        let region = ISORegion(
            kind: ISORegion.kind(of: header.type), start: cursor, end: try header.end(from: cursor),
            headerSize: header.headerSize)
        guard !isUnverified || Self.typesAtTop.contains(header.type) else {
            throw .malformed("a start at \(cursor), where no box starts")
        }
        let type = queue.bytes(from: cursor + 4).prefix(4)
        guard !isFragmented || !isOfSegments || type.allSatisfy({ 0x20..<0x7F ~= $0 }) else {
            throw .malformed("no box starts at \(cursor)")
        }
        isUnverified = false
        // Fragments may go on without end, and reading never starts in the middle of one.
        if region.kind == .fragment { isFragmented = true }
        if !isFragmented, regions.index(containing: cursor) == nil { try regions.insert(header, at: cursor) }
        switch region.kind {
        case .other:
            try checkNoSample(within: region)
            state = .passing(until: region.end)
        case .media:
            hasMedia = true
            hideMedia(region)
            state = .media(region)
        case .movie, .fragment:
            let isMovie = region.kind == .movie
            let limit = isMovie ? ISOMovie.maximumSize : ISOFragment.maximumSize
            guard region.end - region.start <= limit else {
                throw .tooLarge("box “\(header.type)” at \(region.start): \(limit) bytes are read at most")
            }
            try checkNoSample(within: region)
            state = .whole(region, until: region.end)
        }
        return true
    }

    /// A demuxer that gets bytes in order takes media without a fragment for the end of the stream.
    private mutating func hideMedia(_ region: ISORegion) {
        guard !fragments.isEmpty, fragments.allSatisfy(\.isHidden) else { return }
        queue.withBytes(in: region.start + 4..<region.start + 8) { $0.copyBytes(from: ISOPatch.free) }
    }

    private func checkNoSample(within region: ISORegion) throws(FormatError) {
        guard let (_, sample) = nextSample(), sample.offset < region.end else { return }
        try sample.check(liesIn: region)
    }

    /// Reads a box that is there. Where it points to bytes behind it that are not, waits for them.
    private mutating func readBox(_ region: ISORegion) throws(FormatError) {
        var missing: UInt64?
        do throws(FormatError) {
            try read(region) { range in
                if range.lowerBound >= region.end { missing = max(missing ?? 0, range.upperBound) }
                return nil
            }
        } catch {
            let limit = region.end + UInt64(ISOAuxiliaryInformation.externalLimit)
            guard let missing, missing <= limit, missing > queue.end else { throw error }
            state = .whole(region, until: missing)
            return
        }
        cursor = region.end
        state = .header
    }

    mutating func read(
        _ region: ISORegion, missing: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) {
        guard let bytes = queue.bytes(in: region.start..<region.end) else { return }
        let queue = queue
        func external(_ range: Range<UInt64>) -> ArraySlice<UInt8>? { queue.bytes(in: range) ?? missing(range) }
        let patches: ISOPatches
        if region.kind == .movie {
            let found = try ISOMovie(Array(bytes), at: region.start, external: external)
            patches = found.patches
            // Another one comes with another quality of the same stream.
            newProtections += found.protections
            nextOfMovie = found.table.firstIndex(endingAfter: region.end)
            movie = found
            fragments.removeAll()
            nextSamples.removeAll()
        } else {
            guard let movie else {
                throw .malformed("box “moof” at \(region.start): no box “moov” tells of its tracks")
            }
            let found = try ISOFragment(Array(bytes), at: region.start, of: movie, external: external)
            patches = found.patches
            self.movie?.note(found)
            try add(found, at: region.start)
        }
        // What is looked at in front of the media comes again.
        guard interrupted == nil else { return }
        self.queue.withBytes(in: region.start..<region.end) { patches.apply(to: $0, at: region.start) }
    }

    private mutating func add(_ fragment: ISOFragment, at offset: UInt64) throws(FormatError) {
        if hasMedia {
            if let (index, sample) = nextSample(), index >= 0 {
                throw .malformed("the encrypted sample at \(sample.offset) is not in front of the next fragment")
            }
            fragments.removeAll(keepingCapacity: true)
            nextSamples.removeAll(keepingCapacity: true)
            hasMedia = false
        }
        let cost = fragments.reduce(fragment.cost) { $0 + $1.cost }
        guard fragments.count < Self.fragmentLimit, cost <= Self.fragmentBudget else {
            throw .tooLarge(
                "box “moof” at \(offset): more than \(Self.fragmentLimit) fragments, or \(Self.fragmentBudget >> 20) "
                    + "MiB of sample tables, in front of their media")
        }
        newProtections += fragment.protections
        fragments.append(fragment)
        nextSamples.append(0)
    }
}

/// The encrypted samples of the media that the boxes tell of.
extension ISOStream {
    /// The first sample that is not done, and whose it is; -1 for the movie.
    private func nextSample() -> (fragment: Int, sample: ISOSampleTable.Sample)? {
        var found: (fragment: Int, sample: ISOSampleTable.Sample)?
        if let movie, nextOfMovie < movie.table.samples.count { found = (-1, movie.table.samples[nextOfMovie]) }
        for (index, next) in nextSamples.enumerated() where next < fragments[index].table.samples.count {
            let sample = fragments[index].table.samples[next]
            if found.map({ sample.offset < $0.sample.offset }) ?? true { found = (index, sample) }
        }
        return found
    }

    /// Nil where the media is at its end.
    mutating func proceed(in region: ISORegion) throws(FormatError) -> Step? {
        guard let (fragment, sample) = current ?? nextSample(), sample.offset < region.end else {
            cursor = min(region.end, queue.end)
            guard cursor == region.end else { return .nothing }
            state = .header
            return nil
        }
        try sample.check(liesIn: region)
        guard sample.offset >= cursor else {
            throw .malformed("the encrypted sample at \(sample.offset) shares bytes with the one before it")
        }
        cursor = min(sample.offset, queue.end)
        guard queue.end >= sample.end else { return .nothing }
        current = (fragment, sample)
        if fragment < 0 {
            try movie?.table.fill(&plan, for: sample)
            return .sample(movie?.table.key(of: sample) ?? ISOKeyUse(keyID: nil, media: .video))
        }
        try fragments[fragment].table.fill(&plan, for: sample)
        return .sample(fragments[fragment].table.key(of: sample))
    }

    /// Lends the sample that `next` announced last: its bytes, and how to decrypt them. When `body` throws, the sample
    /// stays.
    public mutating func withSample<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard let (fragment, sample) = current else { return }
        let plan = plan
        try queue.withBytes(in: sample.offset..<sample.end) { bytes throws(Failure) in try body(plan, bytes) }
        current = nil
        cursor = sample.end
        if fragment < 0 { nextOfMovie += 1 } else { nextSamples[fragment] += 1 }
    }
}

/// Bytes of a file in order, from a place that moves forward: those in front of it have gone on.
struct ISOByteQueue: Sendable {
    private var bytes: [UInt8] = []
    private var head = 0
    /// Where the first byte stands in the file.
    private(set) var start: UInt64 = 0

    var count: Int { bytes.count - head }
    /// Behind the last byte.
    var end: UInt64 { start &+ UInt64(count) }

    /// Forgets everything; the next byte is that at `position`.
    mutating func restart(at position: UInt64) {
        bytes.removeAll(keepingCapacity: true)
        head = 0
        start = position
    }

    mutating func append(_ added: UnsafeRawBufferPointer) {
        // Moved where that frees at least half, so that the moves together stay linear.
        if head > 0, head * 2 >= bytes.count {
            bytes.removeFirst(head)
            head = 0
        }
        bytes.append(contentsOf: added)
    }

    /// The bytes from `position` on, which is not in front of `start`.
    func bytes(from position: UInt64) -> ArraySlice<UInt8> {
        guard position >= start, position < end else { return [] }
        return bytes[(head + Int(position - start))...]
    }

    /// The bytes of a range; nil where not all are there.
    func bytes(in range: Range<UInt64>) -> ArraySlice<UInt8>? {
        guard range.lowerBound >= start, range.upperBound <= end else { return nil }
        let first = head + Int(range.lowerBound - start)
        return bytes[first..<first + Int(range.upperBound - range.lowerBound)]
    }

    /// Lends bytes that are all there.
    mutating func withBytes<Failure: Error>(
        in range: Range<UInt64>, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard range.lowerBound >= start, range.upperBound <= end else { return }
        let first = head + Int(range.lowerBound - start)
        let last = first + Int(range.upperBound - range.lowerBound)
        // SAFETY: the range was compared with what is held; the queue cannot change while it is lent.
        try bytes.withUnsafeMutableBufferPointer { bytes throws(Failure) in
            try body(UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: bytes[first..<last])))
        }
    }

    /// Moves the first bytes into `target`, which is not larger than `count`.
    mutating func take(into target: UnsafeMutableRawBufferPointer) {
        let size = min(target.count, count)
        // SAFETY: `size` is at most what either side has, and the two do not overlap.
        bytes.withUnsafeBytes { bytes in
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[head..<head + size]))
        }
        head += size
        start &+= UInt64(size)
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.count <= 1 << 20)
            head = 0
        }
    }
}
