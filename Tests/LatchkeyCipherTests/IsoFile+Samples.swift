// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

extension IsoFile {
    /// Samples of the tables in `stbl`.
    func progressiveSamples(of track: IsoTrack) throws -> [Sample] {
        guard let chunks = try chunkOffsets(track), !chunks.isEmpty, let toChunk = try box(["stsc"], in: track.table),
            let sizeBox = try box(["stsz"], in: track.table)
        else { return [] }
        var reader = IsoReader(bytes, sizeBox.body)
        try reader.skip(4)
        let size = try reader.int(4)
        let sizes = try (0..<(try reader.int(4))).map { _ in size > 0 ? size : try reader.int(4) }
        reader = IsoReader(bytes, toChunk.body)
        try reader.skip(4)
        let runs = try (0..<(try reader.int(4))).map { _ in
            (first: try reader.int(4), count: try reader.int(4), entry: try reader.int(4))
        }
        var ranges: [(range: Range<Int>, entry: Int)] = []
        for (index, offset) in chunks.enumerated() {
            guard let run = runs.last(where: { $0.first <= index + 1 }) else { throw Unreadable(description: "stsc") }
            var position = offset
            for _ in 0..<run.count where ranges.count < sizes.count {
                let size = sizes[ranges.count]
                ranges.append((position..<position + size, run.entry))
                position += size
            }
        }
        return try protect(ranges, of: track, localGroups: [], in: [track.table, track.whole], base: 0)
    }

    private func chunkOffsets(_ track: IsoTrack) throws -> [Int]? {
        for (type, size) in [("stco", 4), ("co64", 8)] {
            guard let box = try box([type], in: track.table) else { continue }
            var reader = IsoReader(bytes, box.body)
            try reader.skip(4)
            return try (0..<(try reader.int(4))).map { _ in try reader.int(size) }
        }
        return nil
    }

    /// Samples of a `moof`, by the handler of their track.
    func fragmentSamples(_ fragment: Box, _ tracks: [IsoTrack]) throws -> [(handler: String, samples: [Sample])] {
        var found: [(handler: String, samples: [Sample])] = []
        var nextBase = fragment.start
        for part in try boxes(in: fragment.body) where part.type == "traf" {
            guard let header = try box(["tfhd"], in: part.body) else { throw Unreadable(description: "no tfhd") }
            var reader = IsoReader(bytes, header.body)
            let flags = try reader.versionAndFlags().flags
            let id = try reader.int(4)
            guard let track = tracks.first(where: { $0.id == id }) else { throw Unreadable(description: "track \(id)") }
            var base = flags & 0x20000 != 0 ? fragment.start : nextBase
            if flags & 0x1 != 0 { base = try reader.int(8) }
            let entry = flags & 0x2 != 0 ? try reader.int(4) : track.defaultEntry
            if flags & 0x8 != 0 { try reader.skip(4) }
            let size = flags & 0x10 != 0 ? try reader.int(4) : track.defaultSize
            let ranges = try runs(in: part.body, base: base, defaultSize: size, end: &nextBase)
            let samples = try protect(
                ranges.map { ($0, entry) }, of: track, localGroups: IsoTrack.groups(in: part.body, self),
                in: [part.body], base: base)
            found.append((track.handler, samples))
        }
        return found
    }

    private func runs(in range: Range<Int>, base: Int, defaultSize: Int, end: inout Int) throws -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var position = base
        for box in try boxes(in: range) where box.type == "trun" {
            var reader = IsoReader(bytes, box.body)
            let flags = try reader.versionAndFlags().flags
            let count = try reader.int(4)
            if flags & 0x1 != 0 { position = base + Int(Int32(truncatingIfNeeded: try reader.int(4))) }
            if flags & 0x4 != 0 { try reader.skip(4) }
            for _ in 0..<count {
                if flags & 0x100 != 0 { try reader.skip(4) }
                let size = flags & 0x200 != 0 ? try reader.int(4) : defaultSize
                if flags & 0x400 != 0 { try reader.skip(4) }
                if flags & 0x800 != 0 { try reader.skip(4) }
                ranges.append(position..<position + size)
                position += size
            }
        }
        end = position
        return ranges
    }

    /// Joins samples with what the boxes in `containers` say of their encryption.
    private func protect(
        _ ranges: [(range: Range<Int>, entry: Int)], of track: IsoTrack, localGroups: [IsoEncryption],
        in containers: [Range<Int>], base: Int
    ) throws -> [Sample] {
        let groups = try IsoTrack.groupIndices(in: containers[0], count: ranges.count, self)
        var auxiliary = try IsoAuxiliaryInformation(containers, base: base, count: ranges.count, in: self)
        return try ranges.enumerated().map { index, sample in
            guard sample.range.lowerBound >= 0, sample.range.upperBound <= bytes.count,
                track.entries.indices.contains(sample.entry - 1)
            else { throw Unreadable(description: "sample \(index)") }
            let entry = track.entries[sample.entry - 1]
            var encryption = entry.encryption
            if groups[index] > 0x10000 {
                encryption = localGroups[groups[index] - 0x10001]
            } else if groups[index] > 0 {
                encryption = track.groups[groups[index] - 1]
            }
            guard let scheme = entry.scheme, let encryption, encryption.isProtected else {
                try auxiliary.skip(index)
                return Sample(range: sample.range)
            }
            let (vector, subsamples) = try auxiliary.read(index, encryption)
            guard let vector = vector ?? encryption.constantVector else {
                throw Unreadable(description: "no IV for sample \(index)")
            }
            let plan = SamplePlan(
                scheme: scheme, initializationVector: vector, pattern: encryption.pattern, subsamples: subsamples)
            return Sample(range: sample.range, protection: (encryption.kid, plan))
        }
    }
}
