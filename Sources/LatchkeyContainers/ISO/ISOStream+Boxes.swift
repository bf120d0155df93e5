// SPDX-License-Identifier: MPL-2.0

/// The boxes at the top of the file, one after the other.
extension ISOStream {
    mutating func readHeader() throws(FormatError) -> Bool {
        if cursor == 0 { try ISORecognition.checkStart(queue.bytes(from: 0)) }
        guard let header = try ISOBoxHeader(queue.bytes(from: cursor), at: cursor) else { return false }
        let region = ISORegion(
            kind: ISORegion.kind(of: header.type), start: cursor, end: try header.end(from: cursor),
            headerSize: header.headerSize)
        guard !isUnverified || Self.typesAtTop.contains(header.type) else {
            throw .malformed("a start at \(cursor), where no box starts")
        }
        isUnverified = false
        // Fragments go on for ever, and nobody starts in the middle of one.
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
    mutating func readBox(_ region: ISORegion) throws(FormatError) {
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
            try add(found, at: region.start)
        }
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
