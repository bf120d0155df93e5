// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

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
        var isExact = true
        for sample in layout.samples {
            let encryption = sample.encryption.map { layout.encryptions[Int($0)] }
            guard forAll || encryption != nil else { continue }
            let start = position
            position += encryption?.initializationVectorSize ?? 0
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
                    isExact = false
                }
            }
            guard let encryption else { continue }
            let isEmpty = encryption.initializationVectorSize == 0 && count == 0
            visit(sample, isEmpty ? nil : start, count > 0)
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
