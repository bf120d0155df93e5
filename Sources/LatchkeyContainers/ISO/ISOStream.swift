// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

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
///     case .needsMovie(let place), .goBack(let place): … seek, or give up …
///     case .nothing: return
///     }
/// }
/// ```
///
/// A sample whose key is missing may wait: more bytes can be appended meanwhile, and what is in front of it taken.
/// Encrypted samples never get out, not even in part. Held are one sample or one `moov` or `moof` box, what is
/// appended, and at most 32 MiB about the fragments whose media comes next. A value for one owner at a time; bytes that
/// cannot be read throw, and never trap.
public struct ISOStream: Sendable {
    /// What `next` found.
    public enum Step: Hashable, Sendable {
        /// More bytes are needed.
        case nothing
        /// The next sample is there, encrypted with this key.
        case sample(ISOKeyUse)
        /// The media is in front of the `moov` box that tells of it: `jump(to:)` this place and go on from there, or
        /// give up. What was ready before can be taken first.
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
                throw .unsupported("a start at \(position), in the middle of an encrypted sample")
            }
            state = .media(region)
        case .movie, .fragment:
            throw .unsupported("a start at \(position), in the middle of a box that has to be read as a whole")
        }
    }

    /// The first bytes that were appended and not taken yet, at most `limit`.
    public func heldBytes(_ limit: Int) -> [UInt8] { Array(queue.bytes(from: queue.start).prefix(max(limit, 0))) }

    /// What to do next. Throws as the boxes are read, and `otherFormat` where what comes first is not ISO media; nothing
    /// goes on from there then.
    public mutating func next() throws(FormatError) -> Step {
        while true {
            switch state {
            case .header:
                if movie != nil, let interrupted { return .goBack(to: interrupted) }
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

    /// What is wrong where the caller cannot jump.
    public static let mediaFirst = FormatError.unsupported(
        "the media is in front of the box “moov”, which needs a source that can be read anywhere, such as a file")

    /// The end of the stream. Throws `otherFormat` where less than one box came, `truncated` within a box that the
    /// samples need; an encrypted sample that is cut off is left out.
    public mutating func end() throws(FormatError) {
        switch state {
        case .header:
            guard interrupted == nil else { throw .malformed("no box “moov” tells of the media") }
            guard cursor > 0 || queue.count == 0 else { throw ISORecognition.noBox }
            cursor = queue.end
        case .whole(let region, _):
            // Read before; a player that seeks may stop anywhere.
            guard region.kind != .movie || movie == nil || defaults != nil else { return }
            let name = region.kind == .movie ? "moov" : "moof"
            if queue.end >= region.end { try read(region) { _ in nil } }
            throw .truncated("box “\(name)” at \(region.start): the stream ends within its bytes")
        case .media where movie == nil: throw Self.mediaFirst
        case .passing, .media: return
        }
    }
}
