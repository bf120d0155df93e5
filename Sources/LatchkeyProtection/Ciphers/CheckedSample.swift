// SPDX-License-Identifier: MPL-2.0

import Glibc

/// A sample whose subsample map covers it exactly. All pointer arithmetic of the module rests on this check.
struct CheckedSample {
    // SAFETY: the subsamples' ranges add up to the size of source and target, which outlive the value; source and
    // target are equal or apart.
    let subsamples: UnsafeBufferPointer<Subsample>
    let source: UnsafeRawPointer
    let target: UnsafeMutableRawPointer
    let size: Int

    /// Whether the clear bytes must be copied.
    let isApart: Bool

    /// Nil for a sample without bytes.
    @inline(__always)
    init?(
        _ subsamples: UnsafeBufferPointer<Subsample>, from source: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(DecryptionError) {
        let size = source.count
        guard target.count == size else { throw .sizeMismatch(source: size, target: target.count) }
        try Self.check(subsamples, coverAll: size)
        guard let from = source.baseAddress, let to = target.baseAddress, size > 0 else { return nil }
        isApart = UnsafeRawPointer(to) != from
        guard !isApart || abs(from - UnsafeRawPointer(to)) >= size else { throw .buffersOverlap(size: size) }
        self.subsamples = subsamples
        self.source = from
        self.target = to
        self.size = size
    }

    @inline(__always)
    static func check(_ subsamples: UnsafeBufferPointer<Subsample>, coverAll size: Int) throws(DecryptionError) {
        var covered = 0
        for (index, subsample) in subsamples.enumerated() {
            // Two UInt32 and a sum of at most `size`: no Int overflows here.
            covered += Int(subsample.clear) + Int(subsample.protected)
            guard covered <= size else { throw .subsamplesExceedSample(index: index, size: size) }
        }
        guard covered == size else { throw .subsamplesDoNotCoverSample(covered: covered, size: size) }
    }

    /// Copies the whole sample, where the target is another buffer.
    @inline(__always)
    func copyAll() {
        if isApart { copy(from: 0, count: size) }
    }

    @inline(__always)
    func copy(from offset: Int, count: Int) {
        // SAFETY: inside the sample; the buffers are apart where this is called.
        memcpy(target + offset, source + offset, count)
    }
}
