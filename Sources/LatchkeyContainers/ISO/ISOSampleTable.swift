// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The encrypted samples of a `moov` or `moof` box, in the order of the file.
///
/// Kept small: 16 bytes a sample, and subsample maps stay in the bytes of the box until a plan is asked for.
struct ISOSampleTable: Sendable {
    struct Sample: Sendable {
        /// No sample ends behind this place in a file: 128 TiB.
        static let largestEnd: UInt64 = 1 << 47

        /// The offset in the upper 47 bits, whether there are subsamples in the next one, and the encryption.
        private let packed: UInt64
        let size: UInt32
        /// Where the IV and the subsample map start in `auxiliary`; the largest number for a sample without.
        let auxiliary: UInt32

        /// - Parameters:
        ///   - offset: in the file; at most `largestEnd`, less the size.
        ///   - encryption: index into `encryptions`.
        init(offset: UInt64, size: UInt32, auxiliary: UInt32, encryption: UInt16, hasSubsamples: Bool) {
            let mark: UInt64 = hasSubsamples ? 1 << 16 : 0
            packed = offset << 17 | mark | UInt64(encryption)
            self.size = size
            self.auxiliary = auxiliary
        }

        var offset: UInt64 { packed >> 17 }
        var end: UInt64 { offset + UInt64(size) }
        var encryption: UInt16 { UInt16(truncatingIfNeeded: packed) }
        var hasSubsamples: Bool { packed & (1 << 16) != 0 }
    }

    static let noAuxiliary = UInt32.max

    private(set) var samples: [Sample] = []
    var encryptions: [ISOEncryption] = []
    /// The bytes of the box, and those of other places that it points to.
    var auxiliary: [UInt8] = []

    mutating func append(_ sample: Sample) { samples.append(sample) }
    mutating func reserve(_ count: Int) { samples.reserveCapacity(samples.count + count) }

    /// Puts the samples into the order of the file. Throws `malformed` where two share some of their bytes; one that
    /// two tracks have in common counts once.
    mutating func sort(place: String) throws(FormatError) {
        var isSorted = true
        for index in samples.indices.dropFirst() where samples[index].offset < samples[index - 1].end {
            isSorted = false
            break
        }
        guard !isSorted else { return }
        samples.sort { ($0.offset, $0.size) < ($1.offset, $1.size) }
        // In place: there may be millions.
        var kept = 0
        for index in samples.indices {
            let sample = samples[index]
            if kept > 0, sample.offset < samples[kept - 1].end {
                let last = samples[kept - 1]
                let isSame =
                    last.offset == sample.offset && last.size == sample.size
                    && encryptions[Int(last.encryption)] == encryptions[Int(sample.encryption)]
                guard isSame else {
                    throw .malformed("\(place): two encrypted samples share the bytes at \(sample.offset)")
                }
            } else {
                samples[kept] = sample
                kept += 1
            }
        }
        samples.removeLast(samples.count - kept)
    }

    /// The first sample that ends behind `offset`.
    func firstIndex(endingAfter offset: UInt64) -> Int {
        var low = 0
        var high = samples.count
        while low < high {
            let middle = (low + high) / 2
            if samples[middle].end <= offset { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Which key a sample needs.
    func key(of sample: Sample) -> ISOKeyUse {
        let encryption = encryptions[Int(sample.encryption)]
        return ISOKeyUse(
            keyID: encryption.keyID, trackKeyID: encryption.trackKeyID, media: encryption.media,
            codec: encryption.codec)
    }

    /// Writes how to decrypt a sample into `plan`, whose memory is used again.
    func fill(_ plan: inout SamplePlan, for sample: Sample) throws(FormatError) {
        let encryption = encryptions[Int(sample.encryption)]
        plan.scheme = encryption.scheme
        plan.pattern = encryption.pattern
        plan.subsamples.removeAll(keepingCapacity: true)
        plan.initializationVector = encryption.constantInitializationVector ?? InitializationVector(high: 0, low: 0)
        if sample.auxiliary != Self.noAuxiliary {
            let isComplete = auxiliary.withUnsafeBytes { bytes in
                Self.read(bytes.dropFirst(Int(sample.auxiliary)), encryption, sample.hasSubsamples, into: &plan)
            }
            guard isComplete else { throw .truncated("IV and subsamples of the sample at \(sample.offset)") }
        }
        if plan.subsamples.isEmpty, encryption.encryptsPartialBlocks, plan.scheme == .cens {
            plan.subsamples.append(Subsample(clear: 0, protected: sample.size))
        }
    }

    /// Reads an IV and a subsample map. False where they are not all there.
    private static func read(
        _ entry: Slice<UnsafeRawBufferPointer>, _ encryption: ISOEncryption, _ hasSubsamples: Bool,
        into plan: inout SamplePlan
    ) -> Bool {
        let bytes = UnsafeRawBufferPointer(rebasing: entry)
        let vectorSize = encryption.initializationVectorSize
        guard bytes.count >= vectorSize else { return false }
        // SAFETY: what is loaded ends in front of `vectorSize`, then in front of what is checked.
        switch vectorSize {
        case 0: break
        case 8, 16:
            let high = bytes.loadUnaligned(as: UInt64.self)
            let low = vectorSize == 16 ? bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self) : 0
            plan.initializationVector = InitializationVector(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
        default: return false
        }
        guard hasSubsamples else { return true }
        guard bytes.count >= vectorSize + 2 else { return false }
        let count = UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: vectorSize, as: UInt16.self))
        return plan.setSubsamples(
            count: Int(count), table: UnsafeRawBufferPointer(rebasing: bytes[(vectorSize + 2)...]))
    }
}

/// The sample groups of the type `seig` in an `stbl` or `traf` box (ISO/IEC 14496-12, 8.9; ISO/IEC 23001-7, 6).
struct ISOSampleGroups: Sendable {
    private static let type = "seig"

    /// Whose scheme is that of the sample entry, which is not known here.
    private(set) var descriptions: [ISOEncryption] = []
    /// Of samples that `sbgp` does not name; 0 for none.
    private(set) var defaultIndex: UInt32 = 0
    /// `UInt32 sample_count, UInt32 group_description_index` each.
    private(set) var runs = ISORows.none

    init() {}

    /// `track`: if the boxes are those of a fragment, the groups of its track.
    init(_ boxes: [ISOBox], in bytes: [UInt8], of track: ISOSampleGroups? = nil) throws(FormatError) {
        for box in boxes {
            switch box.type {
            case "sgpd" where descriptions.isEmpty: try readDescriptions(box, in: bytes)
            case "sbgp" where runs.count == 0: try readRuns(box, in: bytes)
            case "csgp" where Self.isAboutEncryption(box, in: bytes):
                throw .unsupported("box “csgp”, which has the sample groups of encryption in a compact form")
            default: break
            }
        }
        // The default of a fragment is one of its own descriptions, that of the track holds for all its fragments (8.9.3).
        if let track { defaultIndex = defaultIndex > 0 ? defaultIndex | 0x10000 : track.defaultIndex }
    }

    /// Whether an `sgpd`, `sbgp` or `csgp` box is about encryption.
    static func isAboutEncryption(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        guard var (reader, _, _) = try? box.fullReader(bytes) else { return false }
        return (try? reader.readFourCC()) == type
    }

    /// The place of a fragment's group among the `ownCount` ones of the fragment; nil for one of its track, which has `trackCount`.
    ///
    /// The fragment's count from 0x10001 (ISO/IEC 14496-12, 8.9.4). Some writers count from 1: that is understood for those which
    /// the track does not have.
    static func ownIndex(_ index: UInt32, ownCount: Int, trackCount: Int) -> Int? {
        if index > 0x10000 { return Int(index) - 0x10001 }
        return Int(index) > trackCount && Int(index) <= ownCount ? Int(index) - 1 : nil
    }

    /// Whether samples of a fragment are in one of its own groups that is encrypted; nil where none is in a group of its own.
    /// `trackCount`: how many groups its track has; nil: its own may not count from 1.
    func encryptsFragment(trackCount: Int?) -> Bool? {
        var result: Bool?
        for row in -1..<runs.count {
            let index = row < 0 ? defaultIndex : runs.uint32(row, 0) > 0 ? runs.uint32(row, 4) : 0
            guard
                let own = Self.ownIndex(index, ownCount: descriptions.count, trackCount: trackCount ?? .max),
                descriptions.indices.contains(own)
            else { continue }
            result = result ?? false || descriptions[own].isProtected
        }
        return result
    }

    private mutating func readDescriptions(_ box: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        var (reader, version, _) = try box.fullReader(bytes)
        guard try reader.readFourCC() == Self.type else { return }
        let size = version >= 1 ? try reader.readUInt32() : 0
        if version >= 2 { defaultIndex = try reader.readUInt32() }
        let count = try reader.readUInt32()
        guard count <= 0x10000 else { throw .tooLarge("\(reader.place): \(count) sample groups") }
        for _ in 0..<count {
            if version >= 1 {
                let size = size > 0 ? size : try reader.readUInt32()
                guard let size = Int(exactly: size) else { throw .malformed(reader.place) }
                var entry = try reader.readStructure(size, "seig entry")
                descriptions.append(try ISOEncryption(seig: &entry, scheme: .cenc))
            } else {
                descriptions.append(try ISOEncryption(seig: &reader, scheme: .cenc))
            }
        }
    }

    private mutating func readRuns(_ box: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        var (reader, version, _) = try box.fullReader(bytes)
        guard try reader.readFourCC() == Self.type else { return }
        if version >= 1 { try reader.skip(4) }
        let count = try reader.readUInt32()
        runs = try ISORows(&reader, count: count, stride: 8)
    }

    /// Goes through the samples in order.
    struct Cursor {
        private let groups: ISOSampleGroups
        private var row = 0
        private var left: UInt32 = 0
        private var index: UInt32 = 0

        init(_ groups: ISOSampleGroups) { self.groups = groups }

        /// The index of the next sample's group description; 0 for none. Counts that go past the last sample do no
        /// harm.
        mutating func next() -> UInt32 {
            while left == 0 {
                guard row < groups.runs.count else { return groups.defaultIndex }
                left = groups.runs.uint32(row, 0)
                index = groups.runs.uint32(row, 4)
                row += 1
            }
            left -= 1
            return index
        }
    }
}

/// Where the samples of one track lie, in the track's order, clear ones too, and how each is encrypted: what a table of
/// encrypted samples is made from.
struct ISOSampleLayout {
    struct Sample {
        var offset: UInt64
        var size: UInt32
        /// Index into the encryptions; nil for a clear sample.
        var encryption: UInt16?
    }

    /// The most samples of the track: what other tracks leave of those of the box.
    private let limit: Int
    private let total: Int
    let place: String
    private(set) var samples: [Sample] = []
    /// The first sample of each chunk or track run.
    private(set) var runs: [Int] = []
    private(set) var encryptions: [ISOEncryption]
    private(set) var protectedCount = 0
    /// Whether there are samples that are clear by their sample entry alone, and not by a group.
    private(set) var hasClearEntry = false

    private let entries: [ISOEncryption?]
    private let trackGroups: [ISOEncryption]
    private let ownGroups: [ISOEncryption]
    private var cursor: ISOSampleGroups.Cursor
    private var known: [UInt64: Verdict] = [:]
    private var last: (key: UInt64, verdict: Verdict)?

    private enum Verdict {
        /// Index into the encryptions.
        case encrypted(UInt16)
        case clear(byGroup: Bool)
    }

    /// - Parameters:
    ///   - entries: what the sample entries of the track say; nil for a clear one. None at all: nothing is encrypted.
    ///   - groups: those beside the samples. `ISOSampleGroups.ownIndex` tells which of a fragment's are its own.
    ///   - encryptions: those that samples of other tracks have; the indices go on from there.
    ///   - limit: the most samples of the track, out of `total` of all tracks.
    init(
        entries: [ISOEncryption?], groups: ISOSampleGroups, trackGroups: [ISOEncryption],
        encryptions: [ISOEncryption], limit: Int, total: Int, place: String
    ) {
        self.entries = entries
        self.trackGroups = trackGroups
        ownGroups = groups.descriptions
        cursor = ISOSampleGroups.Cursor(groups)
        self.encryptions = encryptions
        self.limit = limit
        self.total = total
        self.place = place
    }

    private var excess: FormatError {
        .tooLarge("\(place): with it, the tracks have more than \(total) samples")
    }

    /// Throws `tooLarge` if there may not be so many more samples.
    func check(_ count: Int) throws(FormatError) {
        guard count <= limit - samples.count else { throw excess }
    }

    /// Makes room for so many more. Throws as `check` does.
    mutating func reserve(_ count: Int) throws(FormatError) {
        try check(count)
        samples.reserveCapacity(samples.count + count)
    }

    mutating func startRun() { runs.append(samples.count) }

    /// Adds the next sample. `entry` counts from 1, as `sample_description_index` does.
    mutating func append(offset: UInt64, size: UInt32, entry: UInt32) throws(FormatError) {
        guard samples.count < limit else { throw excess }
        guard offset < ISOSampleTable.Sample.largestEnd - UInt64(size) else {
            throw .malformed("\(place): a sample at \(offset)")
        }
        var encryption: UInt16?
        switch try verdict(entry: entry, group: cursor.next()) {
        case .encrypted(let index):
            encryption = index
            protectedCount += 1
        case .clear(let byGroup):
            if !byGroup, size > 0 { hasClearEntry = true }
        }
        samples.append(Sample(offset: offset, size: size, encryption: encryption))
    }

    private mutating func verdict(entry: UInt32, group: UInt32) throws(FormatError) -> Verdict {
        let key = UInt64(entry) << 32 | UInt64(group)
        if let last, last.key == key { return last.verdict }
        var verdict = known[key]
        if verdict == nil { verdict = try newVerdict(entry: entry, group: group) }
        let found = verdict ?? .clear(byGroup: false)
        known[key] = found
        last = (key, found)
        return found
    }

    private mutating func newVerdict(entry: UInt32, group: UInt32) throws(FormatError) -> Verdict {
        guard entries.isEmpty || entry >= 1 && entry <= entries.count else {
            throw .malformed("\(place): no sample entry \(entry)")
        }
        let own = entries.isEmpty ? nil : entries[Int(entry) - 1]
        // Beside a sample entry that says nothing of encryption, groups of the track mean nothing.
        let trackCount = own == nil ? Int.max : trackGroups.count
        let ownIndex = ISOSampleGroups.ownIndex(group, ownCount: ownGroups.count, trackCount: trackCount)
        guard group > 0, own != nil || ownIndex != nil else {
            guard let own, own.isProtected else { return .clear(byGroup: false) }
            return .encrypted(try add(own))
        }
        let groups = ownIndex == nil ? trackGroups : ownGroups
        let index = ownIndex ?? Int(group) - 1
        guard index < groups.count else {
            guard own != nil else { return .clear(byGroup: false) }
            throw .malformed("\(place): no sample group \(group)")
        }
        var found = groups[index]
        guard found.isProtected else { return .clear(byGroup: true) }
        guard let own else { throw Self.undeclared("box “sgpd”", place) }
        found.scheme = own.scheme
        found.encryptsPartialBlocks = own.encryptsPartialBlocks
        found.media = own.media
        found.codec = own.codec
        found.trackKeyID = own.keyID == found.keyID ? nil : own.keyID
        return .encrypted(try add(found))
    }

    private mutating func add(_ encryption: ISOEncryption) throws(FormatError) -> UInt16 {
        guard let index = UInt16(exactly: encryptions.count) else {
            throw .tooLarge("\(place): more than \(UInt16.max) kinds of encryption")
        }
        encryptions.append(encryption)
        return index
    }

    /// What is wrong if a box has something of encrypted samples, and their sample entry says that they are clear.
    static func undeclared(_ box: String, _ place: String) -> FormatError {
        .malformed("\(place): \(box) says that samples are encrypted, and their sample entry says that they are clear")
    }
}
