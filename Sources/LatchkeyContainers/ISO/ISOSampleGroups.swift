// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The sample groups of the type `seig` in an `stbl` or `traf` box (ISO/IEC 14496-12, 8.9; ISO/IEC 23001-7, 6).
struct ISOSampleGroups: Sendable {
    private static let type = "seig"

    /// Whose scheme is that of the sample entry, which is not known here.
    private(set) var descriptions: [ISOEncryption] = []
    /// For samples that `sbgp` does not name; 0 for none.
    private(set) var defaultIndex: UInt32 = 0
    /// `UInt32 sample_count, UInt32 group_description_index` each.
    private(set) var runs = ISORows.none

    init() {}

    init(_ boxes: [ISOBox], in bytes: [UInt8]) throws(FormatError) {
        for box in boxes {
            switch box.type {
            case "sgpd" where descriptions.isEmpty: try readDescriptions(box, in: bytes)
            case "sbgp" where runs.count == 0: try readRuns(box, in: bytes)
            default: break
            }
        }
    }

    /// Whether an `sgpd` or `sbgp` box is about encryption.
    static func isAboutEncryption(_ box: ISOBox, in bytes: [UInt8]) -> Bool {
        guard var (reader, _, _) = try? box.fullReader(bytes) else { return false }
        return (try? reader.readFourCC()) == type
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
