// SPDX-License-Identifier: MPL-2.0

/// A protection scheme of ISO/IEC 23001-7, by its four-character code.
public enum ProtectionScheme: String, Sendable, CaseIterable {
    /// AES-CTR, whole subsample ranges.
    case cenc
    /// AES-CBC, whole blocks, chained through the sample.
    case cbc1
    /// AES-CTR with a block pattern.
    case cens
    /// AES-CBC with a block pattern; chaining starts anew in each subsample.
    case cbcs
}

/// How many 16-byte blocks are encrypted, then left clear, in turn (`crypt_byte_block`, `skip_byte_block`).
public struct BlockPattern: Hashable, Sendable {
    /// Encrypted blocks of 16 bytes in a row; 0 with `skip` 0: all of them.
    public var crypt: UInt8
    /// Clear blocks of 16 bytes behind them.
    public var skip: UInt8

    /// Takes any numbers; ISO/IEC 23001-7 has 4 bits for each.
    public init(crypt: UInt8, skip: UInt8) {
        self.crypt = crypt
        self.skip = skip
    }

    /// No pattern: every block is encrypted.
    public static let none = BlockPattern(crypt: 0, skip: 0)
}

/// The initialization vector of one sample: 8 or 16 bytes, held as 16 with zeros behind.
public struct InitializationVector: Hashable, Sendable {
    private let value: SixteenBytes
    /// The first eight bytes, as a big-endian number.
    public var high: UInt64 { value.high }
    /// The last eight bytes, as a big-endian number.
    public var low: UInt64 { value.low }

    /// An 8-byte IV is the high half of the counter block; the low half counts blocks from zero
    /// (ISO/IEC 23001-7, 9.3). Nil for any other length than 8 or 16.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == 8 || bytes.count == 16 else { return nil }
        value = SixteenBytes(bytes)
    }

    /// The first eight bytes and the last eight, each read as a big-endian number.
    public init(high: UInt64, low: UInt64) { value = SixteenBytes(high: high, low: low) }

    /// All 16 bytes, in order.
    public var bytes: [UInt8] { value.bytes }
}

/// A clear range and the protected range behind it, in bytes.
public struct Subsample: Hashable, Sendable {
    /// Bytes that are clear, first.
    public var clear: UInt32
    /// Bytes behind them that the scheme applies to.
    public var protected: UInt32

    /// Both in bytes. Whether they fit the sample is checked before it is decrypted.
    public init(clear: UInt32, protected: UInt32) {
        self.clear = clear
        self.protected = protected
    }
}

/// Everything but the key that decrypting one sample needs.
///
/// A plan is made to be used again: clearing `subsamples` keeps its storage, so that a stream of samples costs no
/// allocation.
public struct SamplePlan: Hashable, Sendable {
    /// The four-character scheme.
    public var scheme: ProtectionScheme
    /// The sample's own IV, or the constant one.
    public var initializationVector: InitializationVector
    /// For `cens` and `cbcs`; ignored elsewhere.
    public var pattern: BlockPattern
    /// In order of the sample's bytes, together exactly its size. Empty: the whole sample is protected.
    public var subsamples: [Subsample]

    /// Checks nothing; a plan that does not fit its sample is refused before the first byte is touched.
    public init(
        scheme: ProtectionScheme, initializationVector: InitializationVector, pattern: BlockPattern = .none,
        subsamples: [Subsample] = []
    ) {
        self.scheme = scheme
        self.initializationVector = initializationVector
        self.pattern = pattern
        self.subsamples = subsamples
    }

    /// Takes the subsamples of a table as `senc` has it (ISO/IEC 23001-7, 7.2): six bytes an entry, clear bytes (16
    /// bits), then protected bytes (32 bits), big-endian. False where it is shorter than `count` entries.
    public mutating func setSubsamples(count: Int, table: UnsafeRawBufferPointer) -> Bool {
        let (needed, overflow) = count.multipliedReportingOverflow(by: 6)
        guard count >= 0, !overflow, needed <= table.count else { return false }
        // The storage of the sample before is written over: growing it entry by entry would check it each time.
        let surplus = subsamples.count - count
        if surplus > 0 {
            subsamples.removeLast(surplus)
        } else if surplus < 0 {
            subsamples.append(contentsOf: repeatElement(Subsample(clear: 0, protected: 0), count: -surplus))
        }
        subsamples.withUnsafeMutableBufferPointer { subsamples in
            for entry in 0..<count {
                // SAFETY: `needed` bytes are there, and `count` subsamples.
                let clear = table.loadUnaligned(fromByteOffset: entry &* 6, as: UInt16.self)
                let protected = table.loadUnaligned(fromByteOffset: entry &* 6 &+ 2, as: UInt32.self)
                subsamples[entry] = Subsample(
                    clear: UInt32(UInt16(bigEndian: clear)), protected: UInt32(bigEndian: protected))
            }
        }
        return true
    }
}

extension SamplePlan {
    /// Checks that the subsamples, where there are any, are together exactly a sample of `size` bytes: for decryption that
    /// is done elsewhere. `SampleCipher` checks by itself.
    public func checkSubsamples(coverAll size: Int) throws(DecryptionError) {
        guard !subsamples.isEmpty else { return }
        try subsamples.withUnsafeBufferPointer { subsamples throws(DecryptionError) in
            try CheckedSample.check(subsamples, coverAll: size)
        }
    }
}
