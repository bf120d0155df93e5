// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// The encrypted samples of a `moov` or `moof` box, in the order of the file.
///
/// Kept small: 24 bytes a sample, and subsample maps stay in the bytes of the box until a plan is asked for.
struct ISOSampleTable: Sendable {
    struct Sample: Sendable {
        /// In the file.
        var offset: UInt64
        var size: UInt32
        /// Where the IV and the subsample map start in `auxiliary`; the largest number for a sample without.
        var auxiliary: UInt32
        /// Index into `encryptions`.
        var encryption: UInt16
        var hasSubsamples: Bool

        var end: UInt64 { offset &+ UInt64(size) }
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
        var kept: [Sample] = []
        kept.reserveCapacity(samples.count)
        for sample in samples {
            if let last = kept.last, sample.offset < last.end {
                let isSame =
                    last.offset == sample.offset && last.size == sample.size
                    && encryptions[Int(last.encryption)] == encryptions[Int(sample.encryption)]
                guard isSame else {
                    throw .malformed("\(place): two encrypted samples share the bytes at \(sample.offset)")
                }
            } else {
                kept.append(sample)
            }
        }
        samples = kept
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

    /// Whose key a sample needs.
    func keyID(of sample: Sample) -> KeyID? { encryptions[Int(sample.encryption)].keyID }

    /// Writes how to decrypt a sample into `plan`, whose memory is used again.
    func fill(_ plan: inout SamplePlan, for sample: Sample) throws(FormatError) {
        let encryption = encryptions[Int(sample.encryption)]
        plan.scheme = encryption.scheme
        plan.pattern = encryption.pattern
        plan.subsamples.removeAll(keepingCapacity: true)
        plan.initializationVector = encryption.constantInitializationVector ?? InitializationVector(high: 0, low: 0)
        if sample.auxiliary != Self.noAuxiliary {
            let start = Int(sample.auxiliary)
            guard start <= auxiliary.count else { throw .truncated("sample at \(sample.offset): its IV") }
            var reader = ByteReader(
                auxiliary[start...], structure: "IV and subsamples of the sample at \(sample.offset)")
            if encryption.initializationVectorSize > 0 {
                let bytes = try reader.readBytes(encryption.initializationVectorSize)
                guard let vector = InitializationVector(bytes) else { throw .malformed(reader.place) }
                plan.initializationVector = vector
            }
            if sample.hasSubsamples { try Self.readSubsamples(&reader, into: &plan) }
        }
        if plan.subsamples.isEmpty, encryption.encryptsPartialBlocks, plan.scheme == .cens {
            plan.subsamples.append(Subsample(clear: 0, protected: sample.size))
        }
    }

    private static func readSubsamples(_ reader: inout ByteReader, into plan: inout SamplePlan) throws(FormatError) {
        let count = Int(try reader.readUInt16())
        let entries = try reader.readBytes(count * 6)
        plan.subsamples.reserveCapacity(count)
        entries.withUnsafeBytes { entries in
            for entry in 0..<count {
                // SAFETY: `entries` has six bytes for each.
                let clear = entries.loadUnaligned(fromByteOffset: entry * 6, as: UInt16.self)
                let protected = entries.loadUnaligned(fromByteOffset: entry * 6 + 2, as: UInt32.self)
                plan.subsamples.append(
                    Subsample(clear: UInt32(UInt16(bigEndian: clear)), protected: UInt32(bigEndian: protected)))
            }
        }
    }
}
