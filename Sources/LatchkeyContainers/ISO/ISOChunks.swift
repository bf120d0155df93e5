// SPDX-License-Identifier: MPL-2.0

/// The sample tables of a track that is not fragmented: `stsz` or `stz2`, `stsc`, `stco` or `co64`
/// (ISO/IEC 14496-12, 8.7.3 to 8.7.5).
struct ISOChunks {
    private var commonSize: UInt32 = 0
    private var sampleCount: UInt32 = 0
    /// Bits of a size in `sizes`.
    private var sizeBits = 32
    private var sizes = ISORows.none
    /// `UInt32 first_chunk, UInt32 samples_per_chunk, UInt32 sample_description_index` each.
    private var toChunks = ISORows.none
    private var offsets = ISORows.none
    private var hasLongOffsets = false

    init(_ boxes: [ISOBox], in bytes: [UInt8]) throws(FormatError) {
        for box in boxes {
            guard ["stsz", "stz2", "stsc", "stco", "co64"].contains(box.type) else { continue }
            var (reader, _, _) = try box.fullReader(bytes)
            switch box.type {
            case "stsz":
                commonSize = try reader.readUInt32()
                sampleCount = try reader.readUInt32()
                if commonSize == 0 { sizes = try ISORows(&reader, count: sampleCount, stride: 4) }
            case "stz2":
                try reader.skip(3)
                sizeBits = Int(try reader.readUInt8())
                sampleCount = try reader.readUInt32()
                switch sizeBits {
                case 4: sizes = try ISORows(&reader, count: sampleCount / 2 + sampleCount % 2, stride: 1)
                case 8, 16: sizes = try ISORows(&reader, count: sampleCount, stride: sizeBits / 8)
                default: throw .malformed("\(reader.place): sizes of \(sizeBits) bits")
                }
            case "stsc": toChunks = try ISORows(&reader, count: try reader.readUInt32(), stride: 12)
            default:
                hasLongOffsets = box.type == "co64"
                offsets = try ISORows(&reader, count: try reader.readUInt32(), stride: hasLongOffsets ? 8 : 4)
            }
        }
    }

    /// Adds the samples to `layout`, each chunk a run.
    func place(into layout: inout ISOSampleLayout) throws(FormatError) {
        guard sampleCount > 0, offsets.count > 0, toChunks.count > 0 else { return }
        var sample = 0
        var row = 0
        for chunk in 0..<offsets.count {
            guard sample < Int(sampleCount) else { return }
            // Chunks count from 1.
            while row + 1 < toChunks.count, Int(toChunks.uint32(row + 1)) <= chunk + 1 { row += 1 }
            layout.startRun()
            var position = hasLongOffsets ? offsets.uint64(chunk) : UInt64(offsets.uint32(chunk))
            let entry = toChunks.uint32(row, 8)
            let last = min(Int(sampleCount), sample + Int(toChunks.uint32(row, 4)))
            while sample < last {
                let size = size(of: sample)
                try layout.append(offset: position, size: size, entry: entry)
                position += UInt64(size)
                sample += 1
            }
        }
    }

    private func size(of sample: Int) -> UInt32 {
        guard commonSize == 0 else { return commonSize }
        return switch sizeBits {
        case 4: UInt32(sample % 2 == 0 ? sizes.uint8(sample / 2) >> 4 : sizes.uint8(sample / 2) & 15)
        case 8: UInt32(sizes.uint8(sample))
        case 16: UInt32(sizes.uint16(sample))
        default: sizes.uint32(sample)
        }
    }
}
