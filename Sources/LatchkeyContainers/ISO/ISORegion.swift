// SPDX-License-Identifier: MPL-2.0

/// A box at the top of a file whose place is known.
struct ISORegion: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case movie
        case fragment
        case media
        /// One box that is none of these, or several in a row.
        case other
    }

    var kind: Kind
    var start: UInt64
    /// Behind the last byte; the largest number for a box that goes to the end of the file.
    var end: UInt64
    /// In bytes: 8 or 16.
    var headerSize: Int
    /// Where the fragments start that say what this box holds: those in front of it, back to the media before them.
    var group: UInt64?

    static func kind(of type: String) -> Kind {
        switch type {
        case "moov": .movie
        case "moof": .fragment
        case "mdat": .media
        default: .other
        }
    }

    /// What an index of a file leads to.
    static let typesOfIndexedBoxes: Set<String> = ["moof", "sidx", "styp", "mfra"]
}

/// The known boxes at the top of a file, in its order, with gaps for parts that were not read.
struct ISORegions: Sendable {
    static let limit = 1 << 19

    private var regions: [ISORegion] = []

    subscript(_ index: Int) -> ISORegion { regions[index] }
    var count: Int { regions.count }

    /// The last region that starts at `position` or in front of it.
    func lastIndex(startingUpTo position: UInt64) -> Int? {
        var low = 0
        var high = regions.count
        while low < high {
            let middle = (low + high) / 2
            if regions[middle].start <= position { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? low - 1 : nil
    }

    func index(containing position: UInt64) -> Int? {
        guard let index = lastIndex(startingUpTo: position), regions[index].end > position else { return nil }
        return index
    }

    /// Adds a box that starts where none is known.
    mutating func insert(_ header: ISOBoxHeader, at start: UInt64) throws(FormatError) {
        let end = try header.end(from: start)
        let kind = ISORegion.kind(of: header.type)
        let before = lastIndex(startingUpTo: start)
        let place = (before ?? -1) + 1
        if place < regions.count, end > regions[place].start {
            throw .malformed("box “\(header.type)” at \(start): its size goes past the next box")
        }
        var region = ISORegion(kind: kind, start: start, end: end, headerSize: header.headerSize)
        if let before, regions[before].end == start {
            let previous = regions[before]
            // A fragment behind media starts a new group; one behind a fragment belongs to the same.
            region.group = previous.group
            if kind == .fragment, previous.kind == .media || previous.group == nil { region.group = start }
            if kind == .other, previous.kind == .other {
                regions[before].end = end
                return
            }
            if kind == .fragment, previous.kind == .other, before > 0, regions[before - 1].end == previous.start,
                regions[before - 1].kind == .media
            {
                region.group = start
            }
        } else if kind == .fragment {
            region.group = start
        }
        guard regions.count < Self.limit else { throw .tooLarge("a file of more than \(Self.limit) boxes") }
        regions.insert(region, at: place)
    }
}

/// A box that gets another type, so that a demuxer takes the file for clear. Nothing moves.
struct ISOPatch: Hashable, Sendable {
    /// Of the four characters, in the file.
    var offset: UInt64
    var type: [UInt8]

    /// The type of a box that readers step over (ISO/IEC 14496-12, 8.1.2).
    static let free = Array("free".utf8)
}

/// The types to change in a part of a file, found by their place.
struct ISOPatches: Sendable {
    private var patches: [ISOPatch] = []

    var count: Int { patches.count }

    /// In the order of the file.
    init(_ patches: [ISOPatch] = []) { self.patches = patches.sorted { $0.offset < $1.offset } }

    /// Changes the bytes of a file that start at `position`.
    func apply(to bytes: UnsafeMutableRawBufferPointer, at position: UInt64) {
        let (end, overflow) = position.addingReportingOverflow(UInt64(bytes.count))
        guard !overflow else { return }
        var index = firstIndex(from: position >= 3 ? position - 3 : 0)
        while index < patches.count, patches[index].offset < end {
            let patch = patches[index]
            for (step, byte) in patch.type.enumerated() {
                let place = patch.offset + UInt64(step)
                // SAFETY: `end` is behind the last byte, so that the difference is below `bytes.count`.
                if place >= position, place < end { bytes[Int(place - position)] = byte }
            }
            index += 1
        }
    }

    private func firstIndex(from offset: UInt64) -> Int {
        var low = 0
        var high = patches.count
        while low < high {
            let middle = (low + high) / 2
            if patches[middle].offset < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
