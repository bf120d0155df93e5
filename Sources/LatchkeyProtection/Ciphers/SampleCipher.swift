// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Decrypts samples of common encryption (ISO/IEC 23001-7) with one content key: `cenc`, `cens`, `cbc1` and `cbcs`.
///
/// Not thread-safe: one owner at a time. Two streams that share a key take a cipher each. After the first sample of a
/// scheme, no call allocates memory.
///
/// What a plan means where the scheme leaves room:
/// - A trailing partial block is decrypted with `cenc` only; elsewhere it is clear (9.6, 9.7). So a `cens` sample
///   without subsamples and without a pattern is decrypted up to its last whole block. Some producers, GPAC among them,
///   encrypt the partial block there too: a plan with one subsample over the whole sample and no pattern says so.
/// - `cbcs` without a pattern: all whole blocks. `cenc` and `cbc1` have no pattern; one in the plan is ignored.
/// - A pattern that only skips (`crypt` 0) leaves everything clear.
///
/// libgcrypt keeps its own copy of the key schedule, in locked memory that core dumps leave out, and wipes it when the cipher
/// goes.
public final class SampleCipher {
    private let key: ContentKey
    // One context for each mode, made when a sample first needs it: most keys are used with a single scheme.
    private var counter: CipherContext?
    private var chained: CipherContext?
    private var gathered: GatherBuffer?

    /// - Throws: `cipherUnavailable` where libgcrypt has no AES-128.
    public init(key: ContentKey) throws(DecryptionError) {
        self.key = key
        try CipherMode.checkAvailability()
    }

    deinit {
        counter?.release()
        chained?.release()
        gathered?.release()
    }

    /// Decrypts one sample in place.
    ///
    /// The subsample map is checked first: its sum must be exactly the size of `bytes`. Where it is not, nothing is
    /// touched. After `cipherFailure` the bytes are undefined. Throws `subsamplesExceedSample`,
    /// `subsamplesDoNotCoverSample`, `sampleTooLarge` or `cipherFailure`.
    public func decrypt(_ plan: SamplePlan, in bytes: UnsafeMutableRawBufferPointer) throws(DecryptionError) {
        try decrypt(plan, from: UnsafeRawBufferPointer(bytes), into: bytes)
    }

    /// Decrypts one sample into another buffer, in the same pass: clear ranges are copied, so that every byte of
    /// `target` is written.
    ///
    /// Both have the same size, and they are apart or the same buffer. Where that or the subsample map is wrong,
    /// nothing is touched. After `cipherFailure` the bytes of `target` are undefined. Throws `sizeMismatch` and
    /// `buffersOverlap` besides the errors of decrypting in place.
    public func decrypt(
        _ plan: SamplePlan, from source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
    ) throws(DecryptionError) {
        guard plan.subsamples.isEmpty else {
            return try plan.subsamples.withUnsafeBufferPointer { subsamples throws(DecryptionError) in
                try decrypt(plan, subsamples, from: source, into: target)
            }
        }
        guard let size = UInt32(exactly: source.count) else { throw .sampleTooLarge(size: source.count) }
        try withUnsafePointer(to: Subsample(clear: 0, protected: size)) { whole throws(DecryptionError) in
            // SAFETY: one element, alive in this closure.
            try decrypt(plan, UnsafeBufferPointer(start: whole, count: 1), from: source, into: target)
        }
    }

    private func decrypt(
        _ plan: SamplePlan, _ subsamples: UnsafeBufferPointer<Subsample>, from source: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(DecryptionError) {
        guard let sample = try CheckedSample(subsamples, from: source, into: target) else { return }
        let crypt = Int(plan.pattern.crypt)
        let skip = Int(plan.pattern.skip)
        switch plan.scheme {
        case .cenc:
            try sample.decryptRanges(
                counter: counterContext(), startingAt: plan.initializationVector, wholeBlocks: false)
        case .cbc1:
            try sample.decryptRanges(
                chained: chainedContext(), startingAt: plan.initializationVector, eachAnew: false)
        case .cens, .cbcs:
            guard skip > 0 else { return try decryptWithoutSkipping(plan, sample) }
            sample.copyAll()
            guard crypt > 0 else { return }
            let walk = PatternWalk(crypt: crypt, skip: skip, over: subsamples)
            if plan.scheme == .cens {
                try sample.decryptBlocks(
                    of: walk, counter: counterContext(), startingAt: plan.initializationVector,
                    gatheredIn: gatherBuffer())
            } else {
                try sample.decryptBlocks(
                    of: walk, chainedWith: chainedContext(), startingAt: plan.initializationVector,
                    gatheredIn: gatherBuffer())
            }
        }
    }

    /// `cens` and `cbcs` where all whole blocks of a range are encrypted.
    private func decryptWithoutSkipping(_ plan: SamplePlan, _ sample: CheckedSample) throws(DecryptionError) {
        if plan.scheme == .cbcs {
            try sample.decryptRanges(
                chained: chainedContext(), startingAt: plan.initializationVector, eachAnew: true)
        } else {
            try sample.decryptRanges(
                counter: counterContext(), startingAt: plan.initializationVector,
                wholeBlocks: plan.pattern.crypt > 0 || plan.subsamples.isEmpty)
        }
    }

    // Two functions and not one with an `inout`: that would be an access to check at run time for each sample.

    @inline(__always)
    private func counterContext() throws(DecryptionError) -> CipherContext {
        if let counter { return counter }
        let context = try CipherContext(.counter, key: key)
        counter = context
        return context
    }

    @inline(__always)
    private func chainedContext() throws(DecryptionError) -> CipherContext {
        if let chained { return chained }
        let context = try CipherContext(.chained, key: key)
        chained = context
        return context
    }

    @inline(__always)
    private func gatherBuffer() -> GatherBuffer {
        if let gathered { return gathered }
        let buffer = GatherBuffer()
        gathered = buffer
        return buffer
    }
}

/// Memory for encrypted blocks that lie apart, so that they are decrypted with one call. A plain value: its owner calls
/// `release` once. Not thread-safe.
struct GatherBuffer {
    /// In blocks. All parts together, and the lines of the sample that the blocks lie in, stay in the first-level cache;
    /// the call for 2 KiB is already lost in the noise.
    static let capacity = 128

    private static let size = capacity * 16

    // SAFETY: each has room for `capacity` blocks or numbers; there are no more ranges than blocks.
    let encrypted: UnsafeMutableRawPointer
    let clear: UnsafeMutableRawPointer
    /// Where each block lies in the sample.
    let offsets: UnsafeMutablePointer<Int>
    /// The blocks that are the first of their range.
    let rangeStarts: UnsafeMutablePointer<Int>

    init() {
        encrypted = .allocate(byteCount: Self.size, alignment: 64)
        clear = .allocate(byteCount: Self.size, alignment: 64)
        offsets = .allocate(capacity: Self.capacity)
        rangeStarts = .allocate(capacity: Self.capacity)
    }

    func release() {
        // It held clear media.
        explicit_bzero(clear, Self.size)
        encrypted.deallocate()
        clear.deallocate()
        offsets.deallocate()
        rangeStarts.deallocate()
    }
}
