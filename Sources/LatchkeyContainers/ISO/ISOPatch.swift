// SPDX-License-Identifier: MPL-2.0

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
