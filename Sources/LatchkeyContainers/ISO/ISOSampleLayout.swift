// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Where the samples of one track lie, in the track's order, clear ones too, and how each is encrypted: what a table of
/// encrypted samples is made from.
struct ISOSampleLayout {
    struct Sample {
        var offset: UInt64
        var size: UInt32
        /// Index into the encryptions; nil for a clear sample.
        var encryption: UInt16?
    }

    /// The most samples of one box.
    let limit: Int
    let place: String
    private(set) var samples: [Sample] = []
    /// The first sample of each chunk or track run.
    private(set) var runs: [Int] = []
    private(set) var encryptions: [ISOEncryption]
    private(set) var protectedCount = 0

    private let entries: [ISOEncryption?]
    private let trackGroups: [ISOEncryption]
    private let ownGroups: [ISOEncryption]
    private var cursor: ISOSampleGroups.Cursor
    private var known: [UInt64: UInt16?] = [:]
    private var last: (key: UInt64, encryption: UInt16?)?

    /// - Parameters:
    ///   - entries: what the sample entries of the track say; nil for a clear one. None at all: nothing is encrypted.
    ///   - groups: those beside the samples. Of a fragment, index 0x10001 and on are its own, others the track's.
    ///   - encryptions: those that samples of other tracks have; the indices go on from there.
    init(
        entries: [ISOEncryption?], groups: ISOSampleGroups, trackGroups: [ISOEncryption],
        encryptions: [ISOEncryption], limit: Int, place: String
    ) {
        self.entries = entries
        self.trackGroups = trackGroups
        ownGroups = groups.descriptions
        cursor = ISOSampleGroups.Cursor(groups)
        self.encryptions = encryptions
        self.limit = limit
        self.place = place
    }

    mutating func startRun() { runs.append(samples.count) }

    /// Adds the next sample. `entry` counts from 1, as `sample_description_index` does.
    mutating func append(offset: UInt64, size: UInt32, entry: UInt32) throws(FormatError) {
        guard samples.count < limit else { throw .tooLarge("\(place): more than \(limit) samples") }
        guard offset <= UInt64(Int64.max) - UInt64(size) else { throw .malformed("\(place): a sample at \(offset)") }
        let encryption = try encryption(entry: entry, group: cursor.next())
        if encryption != nil { protectedCount += 1 }
        samples.append(Sample(offset: offset, size: size, encryption: encryption))
    }

    private mutating func encryption(entry: UInt32, group: UInt32) throws(FormatError) -> UInt16? {
        let key = UInt64(entry) << 32 | UInt64(group)
        if let last, last.key == key { return last.encryption }
        if let index = known[key] {
            last = (key, index)
            return index
        }
        guard !entries.isEmpty else { return nil }
        guard entry >= 1, entry <= entries.count else { throw .malformed("\(place): no sample entry \(entry)") }
        var found = entries[Int(entry) - 1]
        if let scheme = found?.scheme, group > 0 {
            let isOwn = group > 0x10000
            let groups = isOwn ? ownGroups : trackGroups
            let index = Int(group) - (isOwn ? 0x10001 : 1)
            guard index < groups.count else { throw .malformed("\(place): no sample group \(group)") }
            let partial = found?.encryptsPartialBlocks ?? false
            let (media, codec) = (found?.media ?? .video, found?.codec)
            found = groups[index]
            found?.scheme = scheme
            found?.encryptsPartialBlocks = partial
            found?.media = media
            found?.codec = codec
        }
        var index: UInt16?
        if let found, found.isProtected {
            index = UInt16(exactly: encryptions.count)
            guard index != nil else { throw .tooLarge("\(place): more than \(UInt16.max) kinds of encryption") }
            encryptions.append(found)
        }
        known[key] = index
        last = (key, index)
        return index
    }
}
