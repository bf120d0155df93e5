// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Where the IVs and subsample maps of a track's samples may stand: `saiz` with `saio` (ISO/IEC 14496-12, 8.7.8 and
/// 8.7.9), `senc` (ISO/IEC 23001-7, 7.2) and PIFF's box.
///
/// Producers disagree about what offsets are counted from, and leave boxes out, empty or broken. So each reading is
/// tried, and the first one taken that fits every sample: IVs and maps end where they should, and each map adds up to
/// the size of its sample. IVs without maps fit at any place: then, a `senc` or PIFF box that has just one for each
/// sample goes in front of `saio`. With a constant IV, the number in a box without any map does not count: such samples
/// are encrypted as a whole. For sound with a constant IV, no box is needed, and none that does not fit counts.
struct ISOAuxiliaryInformation {
    /// The most bytes that are read from outside of the box.
    static let externalLimit = 16 << 20
    /// The most `senc` and PIFF boxes of one track that are read: each is tried with all samples.
    private static let listLimit = 16
    private static let piffName = "PIFF's sample encryption box"

    struct Sizes {
        var common: UInt8
        var rows: ISORows
        var count: Int

        /// Samples behind the last size have no information (ISO/IEC 14496-12, 8.7.8.3).
        func size(of sample: Int) -> UInt8 { sample >= count ? 0 : common > 0 ? common : rows.uint8(sample) }
    }

    struct List {
        var name: String
        /// Of the first entry, in the bytes of the box.
        var start: Int
        var end: Int
        var count: Int
        var hasSubsamples: Bool
        /// Its flags say that it has none.
        var lacksFlag = false
    }

    enum Candidate {
        /// Offsets are counted from here.
        case sized(from: UInt64)
        /// `forAll`: clear samples have an entry too.
        case list(List, forAll: Bool)
    }

    var sizes: Sizes?
    private var offsets: ISORows?
    private var hasLongOffsets = false
    private var lists: [List] = []

    /// Why one of the boxes cannot be read.
    private(set) var problem: FormatError?
    /// The name of a box behind the lists that are read.
    private var excess: String?

    /// What a PIFF box says in place of the sample entry.
    private(set) var override: ISOEncryption?

    /// Reads the boxes that are about encryption among `boxes`.
    init(_ boxes: [ISOBox], in bytes: [UInt8]) throws(FormatError) {
        for box in boxes {
            let isPIFF = box.isExtended(ISOExtendedType.sampleEncryption, in: bytes)
            if box.type == "senc" || isPIFF { try readOverride(box, skipping: isPIFF ? 16 : 0, in: bytes) }
            do throws(FormatError) {
                switch box.type {
                case "saiz" where sizes == nil && Self.isAboutEncryption(box, in: bytes):
                    try readSizes(box, in: bytes)
                case "saio" where offsets == nil && Self.isAboutEncryption(box, in: bytes):
                    try readOffsets(box, in: bytes)
                case "senc": try readList(box, skipping: 0, in: bytes)
                case "uuid" where isPIFF: try readList(box, skipping: 16, in: bytes)
                default: break
                }
            } catch {
                // It may not be needed.
                if problem == nil { problem = error }
            }
        }
    }

    /// Whether a `saiz` or `saio` box names common encryption or nothing.
    static func isAboutEncryption(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        guard let (start, _, flags) = try? box.fullReader(bytes) else { return false }
        guard flags & 1 != 0 else { return true }
        var reader = start
        guard let type = try? reader.readFourCC() else { return false }
        return type == "...." || type == "piff" || ProtectionScheme(rawValue: type) != nil
    }

    /// The name of a box that has IVs or maps of samples, which are encrypted then; nil where none has.
    var filledBox: String? {
        guard override?.isProtected != false else { return nil }
        // A clear sample's entry has no IV, and at most the number of its subsamples: 0.
        if let list = lists.first(where: {
            $0.count > 0 && $0.end - $0.start > ($0.hasSubsamples ? 2 * $0.count : 0)
        }) {
            return list.name
        }
        return areSizesEmpty ? excess : "box “saiz”"
    }

    /// Whether it can be read without a `senc` box, of which GStreamer's demuxer knows nothing.
    var isReadWithoutList: Bool {
        sizes != nil && (offsets?.count ?? 0) > 0 || lists.contains { $0.name == Self.piffName && $0.count > 0 }
    }

    private mutating func readSizes(_ box: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        var (reader, _, flags) = try box.fullReader(bytes)
        if flags & 1 != 0 { try reader.skip(8) }
        let common = try reader.readUInt8()
        let count = try reader.readUInt32()
        // Without sizes and without a list of them, the samples have no information here.
        guard count > 0 else { return }
        sizes = Sizes(
            common: common, rows: try ISORows(&reader, count: common > 0 ? 0 : count, stride: 1), count: Int(count))
    }

    private mutating func readOffsets(_ box: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        var (reader, version, flags) = try box.fullReader(bytes)
        if flags & 1 != 0 { try reader.skip(8) }
        hasLongOffsets = version > 0
        let count = try reader.readUInt32()
        offsets = try ISORows(&reader, count: count, stride: hasLongOffsets ? 8 : 4)
    }

    private mutating func readOverride(_ box: ISOBox, skipping: Int, in bytes: [UInt8]) throws(FormatError) {
        var reader = box.reader(bytes)
        guard (try? reader.skip(skipping + 1)) != nil, let flags = try? reader.readUInt24(), flags & 1 != 0 else {
            return
        }
        override = try ISOEncryption(piff: &reader)
    }

    private mutating func readList(_ box: ISOBox, skipping: Int, in bytes: [UInt8]) throws(FormatError) {
        var reader = box.reader(bytes)
        try reader.skip(skipping)
        let version = try reader.readUInt8()
        // Version 1 is for several keys in one sample (edition of 2023).
        guard version == 0 else { throw .unsupported("\(reader.place): version \(version)") }
        let flags = try reader.readUInt24()
        // The override.
        if flags & 1 != 0 { try reader.skip(20) }
        let count = try reader.readUInt32()
        let name = box.type == "uuid" ? Self.piffName : "box “senc”"
        guard lists.count < Self.listLimit else {
            excess = excess ?? name
            return
        }
        lists.append(
            List(
                name: name,
                start: box.body.lowerBound + reader.offset, end: box.body.upperBound, count: Int(count),
                hasSubsamples: flags & 2 != 0))
    }

    /// Where a list starts that has samples of earlier fragments in front of those of `layout`, and how many bytes those
    /// are. ffmpeg 8.1 and 9.0 write such lists for sound: `senc` and `saiz` go on from fragment to fragment.
    private func earlierSamples(_ layout: ISOSampleLayout) -> (start: Int, size: Int)? {
        guard let sizes, let list = lists.first, !list.hasSubsamples, list.count == sizes.count, sizes.common > 0,
            list.count > layout.samples.count, list.count * Int(sizes.common) == list.end - list.start
        else { return nil }
        return (list.start, (list.count - layout.samples.count) * Int(sizes.common))
    }

    // MARK: Joining

    /// How well a reading fits.
    enum Fit {
        case exact
        /// The entries can be read, but not all maps fit their samples.
        case readable
        case broken(FormatError)
    }

    /// Adds the encrypted samples of `layout` to `table`, whose `auxiliary` starts with the bytes of the box.
    ///
    /// - Parameters:
    ///   - box: where those bytes stand in the file.
    ///   - bases: what offsets may be counted from, the likeliest first.
    ///   - needsSubsamples: pictures without any of the boxes lost their subsamples.
    ///   - external: bytes of the file from outside the box; nil where they cannot be had.
    /// - Throws: `tooLarge` for too many lists, `malformed` and `truncated` where a sample has no IV or no reading can be
    ///   made sense of, `malformed` where the boxes have something of encrypted samples and all samples are clear by their
    ///   sample entries.
    func join(
        _ layout: ISOSampleLayout, into table: inout ISOSampleTable, box: Range<UInt64>, bases: [UInt64],
        needsSubsamples: Bool = false, external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) {
        table.encryptions = layout.encryptions
        guard layout.protectedCount > 0 else {
            guard layout.hasClearEntry, let box = filledBox else { return }
            throw ISOSampleLayout.undeclared(box, layout.place)
        }
        let isWholeSound = Self.all(layout) { $0.media == .audio && $0.constantInitializationVector != nil }
        if let excess, !isWholeSound {
            throw FormatError.tooLarge("\(excess): more than \(Self.listLimit) lists of IVs").within(layout.place)
        }
        // What need not be there is not waited for.
        func reach(_ range: Range<UInt64>) -> ArraySlice<UInt8>? { isWholeSound ? nil : external(range) }
        var readable: (candidate: Candidate, starts: [Int])?
        var firstError: FormatError?
        for candidate in candidates(for: layout, bases: bases, in: table.auxiliary) {
            do throws(FormatError) {
                let starts = try starts(
                    of: candidate, layout, in: &table.auxiliary, box: box, external: reach)
                switch walk(candidate, layout, table.auxiliary, starts, visit: { _, _, _ in }) {
                case .exact: return add(candidate, layout, to: &table, starts)
                case .readable: if readable == nil { readable = (candidate, starts) }
                case .broken(let error): throw error
                }
            } catch {
                if firstError == nil { firstError = error }
            }
        }
        if !isWholeSound {
            // A box of another version may fit by chance.
            if let problem, problem.isSameKind(as: .unsupported("")) { throw problem.within(layout.place) }
            if let (candidate, starts) = readable { return add(candidate, layout, to: &table, starts) }
            if let firstError { throw firstError.within(layout.place) }
        }
        try addWithout(layout, to: &table, needsSubsamples: needsSubsamples)
    }

    // MARK: Boxes that say nothing

    /// Whether it holds for the encryption of every sample.
    private static func all(_ layout: ISOSampleLayout, _ holds: (ISOEncryption) -> Bool) -> Bool {
        layout.samples.allSatisfy { $0.encryption.map { holds(layout.encryptions[Int($0)]) } ?? true }
    }

    /// Whether the sizes have room for the number of subsamples at most, which is 0 then.
    private var areSizesEmpty: Bool {
        guard let sizes else { return true }
        return (0..<(sizes.common > 0 ? 1 : sizes.count)).allSatisfy { sizes.size(of: $0) <= 2 }
    }

    /// Whether the list has no map, for samples without IVs. `isSound`: then those that are cut off count as none.
    private static func isEmpty(_ list: List, isSound: Bool, in storage: [UInt8]) -> Bool {
        guard list.hasSubsamples else { return true }
        var position = list.start
        for _ in 0..<list.count {
            guard position + 1 < list.end else { return isSound }
            guard let map = map(in: storage, at: position, until: list.end), map.count == 0 else { return false }
            position = map.end
        }
        return true
    }

    /// Samples without any information: all bytes are encrypted, with the constant IV.
    private func addWithout(
        _ layout: ISOSampleLayout, to table: inout ISOSampleTable, needsSubsamples: Bool
    ) throws(FormatError) {
        table.reserve(layout.protectedCount)
        let areLost = needsSubsamples && sizes == nil && lists.allSatisfy { $0.count == 0 }
        // A list that is long enough tells that there are no maps.
        let isTold = problem == nil && areSizesEmpty && !areLost || lists.contains { $0.count >= layout.protectedCount }
        for sample in layout.samples {
            guard let encryption = sample.encryption else { continue }
            guard table.encryptions[Int(encryption)].constantInitializationVector != nil else {
                let boxes =
                    sizes == nil ? "box “senc” or “saiz”" : offsets == nil ? "box “saio” or “senc”" : "box “saiz”"
                throw problem?.within(layout.place)
                    ?? .malformed(
                        "\(layout.place): the encrypted sample at \(sample.offset) has no IV: no \(boxes) has one")
            }
            // There may be maps. Only sound is encrypted as a whole all the same.
            guard isTold || sample.size == 0 || table.encryptions[Int(encryption)].media == .audio else {
                throw problem?.within(layout.place)
                    ?? .malformed(
                        "\(layout.place): the encrypted sample at \(sample.offset) has no subsamples: "
                            + (areLost
                                ? "no box “senc” or “saiz” has them, and an earlier fragment had some"
                                : "no box “saio” or “senc” leads to those that box “saiz” has the sizes of"))
            }
            guard sample.size > 0 else { continue }
            table.append(
                ISOSampleTable.Sample(
                    offset: sample.offset, size: sample.size, auxiliary: ISOSampleTable.noAuxiliary,
                    encryption: encryption, hasSubsamples: false))
        }
    }

    private func add(
        _ candidate: Candidate, _ layout: ISOSampleLayout, to table: inout ISOSampleTable, _ starts: [Int]
    ) {
        table.reserve(layout.protectedCount)
        let auxiliary = table.auxiliary
        _ = walk(candidate, layout, auxiliary, starts) { sample, position, hasSubsamples in
            guard let encryption = sample.encryption, sample.size > 0 else { return }
            table.append(
                ISOSampleTable.Sample(
                    offset: sample.offset, size: sample.size,
                    auxiliary: position.flatMap { UInt32(exactly: $0) } ?? ISOSampleTable.noAuxiliary,
                    encryption: encryption, hasSubsamples: hasSubsamples))
        }
    }

    private func candidates(for layout: ISOSampleLayout, bases: [UInt64], in storage: [UInt8]) -> [Candidate] {
        var candidates: [Candidate] = []
        let isConstant = Self.all(layout) { $0.initializationVectorSize == 0 }
        let isSound = Self.all(layout) { $0.media == .audio }
        let sized = sizes != nil && (offsets?.count ?? 0) > 0 && !(isConstant && areSizesEmpty)
        if sized, areSizesOfVectors(layout) {
            for list in lists where Self.isWhole(list, layout) {
                candidates.append(.list(list, forAll: list.count == layout.samples.count))
            }
        }
        if sized, let base = bases.first { candidates.append(.sized(from: base)) }
        for list in lists.flatMap({ readings(of: $0, layout, in: storage) })
        where !(isConstant && Self.isEmpty(list, isSound: isSound, in: storage)) {
            let isForAll = list.count >= layout.samples.count || list.count != layout.protectedCount
            candidates.append(.list(list, forAll: isForAll))
            if isForAll, list.count == layout.protectedCount { candidates.append(.list(list, forAll: false)) }
        }
        if sized {
            for (index, base) in bases.enumerated().dropFirst() where bases.firstIndex(of: base) == index {
                candidates.append(.sized(from: base))
            }
        }
        return candidates
    }

    /// Whether the sizes have room for the IVs of encrypted samples alone. IVs may be any bytes, so that those at any place fit.
    private func areSizesOfVectors(_ layout: ISOSampleLayout) -> Bool {
        guard let sizes, Self.areClear(layout.samples.dropFirst(sizes.count)) else { return false }
        return layout.samples.indices.allSatisfy { index in
            guard let encryption = layout.samples[index].encryption else { return true }
            return Int(sizes.size(of: index)) == layout.encryptions[Int(encryption)].initializationVectorSize
        }
    }

    private static func areClear(_ samples: ArraySlice<ISOSampleLayout.Sample>) -> Bool {
        samples.allSatisfy { $0.encryption == nil }
    }

    /// Whether the list is made of the IVs of the encrypted samples, and has as many entries as it should.
    private static func isWhole(_ list: List, _ layout: ISOSampleLayout) -> Bool {
        guard !list.hasSubsamples, list.count == layout.samples.count || list.count == layout.protectedCount else {
            return false
        }
        let size = layout.samples.reduce(0) { sum, sample in
            sum + (sample.encryption.map { layout.encryptions[Int($0)].initializationVectorSize } ?? 0)
        }
        return size > 0 && size == list.end - list.start || sizeForAll(list, layout) != nil
    }

    /// Of an IV, in bytes, if the list is made of IVs of this size, for clear samples too. These should have none.
    private static func sizeForAll(_ list: List, _ layout: ISOSampleLayout) -> Int? {
        guard !list.hasSubsamples, list.count == layout.samples.count,
            let first = layout.samples.lazy.compactMap(\.encryption).first
        else { return nil }
        let size = layout.encryptions[Int(first)].initializationVectorSize
        guard size > 0, list.count * size == list.end - list.start else { return nil }
        return all(layout) { $0.initializationVectorSize == size } ? size : nil
    }

    /// What stands behind the last entry of a list and is none: few bytes, or zeros.
    private static func isPadding(_ range: Range<Int>, in storage: [UInt8]) -> Bool {
        range.count < 8 || storage[range].allSatisfy { $0 == 0 }
    }

    /// The list, and in front of it the same with maps, if the flag that says so may be missing: there are more bytes than those
    /// of IVs. It counts only if all maps fit.
    private func readings(of list: List, _ layout: ISOSampleLayout, in storage: [UInt8]) -> [List] {
        let vectorSizes = layout.encryptions.map(\.initializationVectorSize)
        guard !list.hasSubsamples, list.count * (vectorSizes.max() ?? 0) < list.end - list.start,
            let first = layout.samples.first?.encryption,
            let map = Self.map(in: storage, at: list.start + vectorSizes[Int(first)], until: list.end), map.count > 0
        else { return [list] }
        var other = list
        other.hasSubsamples = true
        other.lacksFlag = true
        return [other, list]
    }

    /// A place among the IVs of a list that is none of an IV: what is there would be taken for one.
    private func isBesideIV(_ position: Int, _ layout: ISOSampleLayout) -> Bool {
        let vectorSizes = layout.encryptions.map(\.initializationVectorSize)
        guard let size = vectorSizes.first, size > 0, vectorSizes.allSatisfy({ $0 == size }) else { return false }
        return lists.contains { list in
            !list.hasSubsamples && list.count * size == list.end - list.start
                && (list.start - size + 1..<list.end).contains(position) && (position - list.start) % size != 0
        }
    }

    /// Where the information of each run starts in `storage`, to which bytes from outside the box are added.
    private func starts(
        of candidate: Candidate, _ layout: ISOSampleLayout, in storage: inout [UInt8], box: Range<UInt64>,
        external: (Range<UInt64>) -> ArraySlice<UInt8>?
    ) throws(FormatError) -> [Int] {
        guard case .sized(let base) = candidate, let sizes, let offsets else { return [] }
        guard Self.areClear(layout.samples.dropFirst(sizes.count)) else {
            throw .malformed("box “saiz” has \(sizes.count) of \(layout.samples.count) samples")
        }
        guard offsets.count == 1 || offsets.count >= layout.runs.count else {
            throw .malformed("box “saio” has \(offsets.count) offsets for \(layout.runs.count) runs")
        }
        var starts: [Int] = []
        let isSingle = offsets.count == 1
        let boxSize = box.upperBound - box.lowerBound
        for run in 0..<(isSingle ? 1 : layout.runs.count) {
            let last = isSingle || run + 1 == layout.runs.count ? layout.samples.count : layout.runs[run + 1]
            let size = (isSingle ? 0 : layout.runs[run])..<last
            let needed = size.reduce(0) { $0 + Int(sizes.size(of: $1)) }
            let offset = hasLongOffsets ? offsets.uint64(run) : UInt64(offsets.uint32(run))
            let (position, overflow) = base.addingReportingOverflow(offset)
            let (end, isTooFar) = position.addingReportingOverflow(UInt64(needed))
            guard !overflow, !isTooFar else { throw .malformed("box “saio”: an offset of \(offset)") }
            if box.contains(position), isBesideIV(Int(position - box.lowerBound), layout) {
                throw .malformed("box “saio”: an offset of \(offset), where box “senc” has no IV")
            }
            if position >= box.lowerBound, end <= box.upperBound {
                starts.append(Int(position - box.lowerBound))
                continue
            }
            guard storage.count - Int(boxSize) + needed <= Self.externalLimit else {
                throw .tooLarge("box “saio”: more than \(Self.externalLimit) bytes outside of the box")
            }
            guard let bytes = external(position..<end), bytes.count == needed else {
                throw .truncated("box “saio”: \(needed) bytes at \(position), which cannot be read here")
            }
            starts.append(storage.count)
            storage += bytes
        }
        return starts
    }
}

extension ISOAuxiliaryInformation {
    /// Goes through the samples in order with the place of each one's IV and map; nil for a sample without.
    func walk(
        _ candidate: Candidate, _ layout: ISOSampleLayout, _ storage: [UInt8], _ starts: [Int],
        visit: (ISOSampleLayout.Sample, Int?, _ hasSubsamples: Bool) -> Void
    ) -> Fit {
        switch candidate {
        case .sized: walkSized(layout, storage, starts, visit)
        case .list(let list, let forAll): walkList(list, forAll: forAll, layout, storage, visit)
        }
    }

    private func walkSized(
        _ layout: ISOSampleLayout, _ storage: [UInt8], _ starts: [Int],
        _ visit: (ISOSampleLayout.Sample, Int?, Bool) -> Void
    ) -> Fit {
        guard let sizes, var position = starts.first else { return .broken(.malformed("box “saio”")) }
        if starts.count == 1, let earlier = earlierSamples(layout), earlier.start == position {
            position += earlier.size
        }
        var isExact = true
        var run = 1
        for (index, sample) in layout.samples.enumerated() {
            if starts.count > 1, run < starts.count, layout.runs[run] == index {
                // Runs without samples share their first sample with the next.
                while run < starts.count, layout.runs[run] == index {
                    position = starts[run]
                    run += 1
                }
            }
            let size = Int(sizes.size(of: index))
            defer { position += size }
            guard let encryption = sample.encryption.map({ layout.encryptions[Int($0)] }) else { continue }
            let vectorSize = encryption.initializationVectorSize
            guard size >= vectorSize, size > 0 || encryption.constantInitializationVector != nil else {
                return .broken(.malformed("box “saiz”: \(size) bytes for the sample at \(sample.offset)"))
            }
            guard size > vectorSize else {
                visit(sample, size > 0 ? position : nil, false)
                continue
            }
            guard let map = Self.map(in: storage, at: position + vectorSize, until: position + size),
                map.end == position + size
            else {
                return .broken(.malformed("box “saiz”: \(size) bytes for the sample at \(sample.offset)"))
            }
            if map.count > 0, map.sum != UInt64(sample.size) {
                guard sample.size > 0 else { return .broken(Self.mapOfEmptySample(sample)) }
                isExact = false
            }
            visit(sample, position, map.count > 0)
        }
        return isExact ? .exact : .readable
    }

    private func walkList(
        _ list: List, forAll: Bool, _ layout: ISOSampleLayout, _ storage: [UInt8],
        _ visit: (ISOSampleLayout.Sample, Int?, Bool) -> Void
    ) -> Fit {
        let wanted = forAll ? layout.samples.count : layout.protectedCount
        guard list.count >= wanted else {
            return .broken(.malformed("\(list.name) has \(list.count) of \(wanted) samples"))
        }
        var position = list.start
        if let earlier = earlierSamples(layout), earlier.start == position { position += earlier.size }
        let sizeOfClear = forAll ? Self.sizeForAll(list, layout) ?? 0 : 0
        var isExact = true
        for sample in layout.samples {
            let encryption = sample.encryption.map { layout.encryptions[Int($0)] }
            guard forAll || encryption != nil else { continue }
            let start = position
            position += encryption?.initializationVectorSize ?? sizeOfClear
            guard position <= list.end else {
                return .broken(.truncated("\(list.name) ends in front of the sample at \(sample.offset)"))
            }
            var count = 0
            if list.hasSubsamples {
                guard let map = Self.map(in: storage, at: position, until: list.end) else {
                    return .broken(.truncated("\(list.name) ends in front of the sample at \(sample.offset)"))
                }
                position = map.end
                count = map.count
                if encryption != nil, count > 0, map.sum != UInt64(sample.size) {
                    guard sample.size > 0 else { return .broken(Self.mapOfEmptySample(sample)) }
                    guard !list.lacksFlag else {
                        return .broken(.malformed("\(list.name): other subsamples than the sample at \(sample.offset)"))
                    }
                    isExact = false
                }
            }
            guard let encryption else { continue }
            let isEmpty = encryption.initializationVectorSize == 0 && count == 0
            visit(sample, isEmpty ? nil : start, count > 0)
        }
        // IVs that are longer than the sample entry says.
        guard list.count > wanted || Self.isPadding(position..<list.end, in: storage) else {
            return .broken(
                .malformed("\(list.name): \(list.end - position) bytes more than those of its \(wanted) samples"))
        }
        return isExact ? .exact : .readable
    }

    /// Sizes that were changed: whatever follows would be decrypted at the wrong place.
    private static func mapOfEmptySample(_ sample: ISOSampleLayout.Sample) -> FormatError {
        .malformed("the sample at \(sample.offset) has subsamples but no bytes")
    }

    /// Where a subsample map ends, and how many bytes of the sample it covers. Nil where it goes past `end`.
    private static func map(in storage: [UInt8], at start: Int, until end: Int) -> (end: Int, count: Int, sum: UInt64)?
    {
        guard start + 2 <= end, end <= storage.count else { return nil }
        let count = Int(storage[start]) << 8 | Int(storage[start + 1])
        let mapEnd = start + 2 + count * 6
        guard mapEnd <= end else { return nil }
        var sum: UInt64 = 0
        storage.withUnsafeBytes { storage in
            for entry in 0..<count {
                // SAFETY: the map ends inside the storage.
                let place = start + 2 + entry * 6
                sum += UInt64(UInt16(bigEndian: storage.loadUnaligned(fromByteOffset: place, as: UInt16.self)))
                sum += UInt64(UInt32(bigEndian: storage.loadUnaligned(fromByteOffset: place + 2, as: UInt32.self)))
            }
        }
        return (mapEnd, count, sum)
    }
}
