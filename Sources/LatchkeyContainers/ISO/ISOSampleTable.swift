// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

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

    /// Which key a sample needs.
    func key(of sample: Sample) -> ISOKeyUse {
        let encryption = encryptions[Int(sample.encryption)]
        return ISOKeyUse(keyID: encryption.keyID, media: encryption.media, codec: encryption.codec)
    }

    /// Writes how to decrypt a sample into `plan`, whose memory is used again.
    func fill(_ plan: inout SamplePlan, for sample: Sample) throws(FormatError) {
        let encryption = encryptions[Int(sample.encryption)]
        plan.scheme = encryption.scheme
        plan.pattern = encryption.pattern
        plan.subsamples.removeAll(keepingCapacity: true)
        plan.initializationVector = encryption.constantInitializationVector ?? InitializationVector(high: 0, low: 0)
        if sample.auxiliary != Self.noAuxiliary {
            let isComplete = auxiliary.withUnsafeBytes { bytes in
                Self.read(bytes.dropFirst(Int(sample.auxiliary)), encryption, sample.hasSubsamples, into: &plan)
            }
            guard isComplete else { throw .truncated("IV and subsamples of the sample at \(sample.offset)") }
        }
        if plan.subsamples.isEmpty, encryption.encryptsPartialBlocks, plan.scheme == .cens {
            plan.subsamples.append(Subsample(clear: 0, protected: sample.size))
        }
    }

    /// Reads an IV and a subsample map. False where they are not all there.
    private static func read(
        _ entry: Slice<UnsafeRawBufferPointer>, _ encryption: ISOEncryption, _ hasSubsamples: Bool,
        into plan: inout SamplePlan
    ) -> Bool {
        let bytes = UnsafeRawBufferPointer(rebasing: entry)
        let vectorSize = encryption.initializationVectorSize
        guard bytes.count >= vectorSize else { return false }
        // SAFETY: what is loaded ends in front of `vectorSize`, then in front of what is checked.
        switch vectorSize {
        case 0: break
        case 8, 16:
            let high = bytes.loadUnaligned(as: UInt64.self)
            let low = vectorSize == 16 ? bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self) : 0
            plan.initializationVector = InitializationVector(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
        default: return false
        }
        guard hasSubsamples else { return true }
        guard bytes.count >= vectorSize + 2 else { return false }
        let count = UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: vectorSize, as: UInt16.self))
        return plan.setSubsamples(
            count: Int(count), table: UnsafeRawBufferPointer(rebasing: bytes[(vectorSize + 2)...]))
    }
}
