// SPDX-License-Identifier: MPL-2.0

/// Why a sample was not decrypted.
///
/// `description` gives the numbers, `shortDescription` has no values in it and suits metrics. Neither contains a key or
/// media bytes.
public struct DecryptionError: Error, Hashable, Sendable {
    private enum Code: String {
        case subsamplesExceedSample = "subsamples exceed sample"
        case subsamplesDoNotCoverSample = "subsamples do not cover sample"
        case sampleTooLarge = "sample too large"
        case sizeMismatch = "size mismatch"
        case buffersOverlap = "buffers overlap"
        case paddingInvalid = "padding invalid"
        case cipherUnavailable = "cipher unavailable"
        case cipherFailure = "cipher failure"
    }

    private let code: Code
    private let first: UInt64
    private let second: UInt64

    private init(_ code: Code, _ first: UInt64, _ second: UInt64) {
        self.code = code
        self.first = first
        self.second = second
    }

    /// Subsample number `index` (from 0) ends behind the last of the sample's `size` bytes. Nothing was touched.
    public static func subsamplesExceedSample(index: Int, size: Int) -> DecryptionError {
        DecryptionError(.subsamplesExceedSample, UInt64(clamping: index), UInt64(clamping: size))
    }

    /// The subsamples together have `covered` bytes, fewer than the sample's `size`. Nothing was touched.
    public static func subsamplesDoNotCoverSample(covered: Int, size: Int) -> DecryptionError {
        DecryptionError(.subsamplesDoNotCoverSample, UInt64(clamping: covered), UInt64(clamping: size))
    }

    /// A sample without a subsample map has more bytes than a sample of ISO media can have (4 GiB less 1). Nothing was
    /// touched.
    public static func sampleTooLarge(size: Int) -> DecryptionError {
        DecryptionError(.sampleTooLarge, UInt64(clamping: size), UInt64(UInt32.max))
    }

    /// Source and target do not have the same number of bytes. Nothing was touched.
    public static func sizeMismatch(source: Int, target: Int) -> DecryptionError {
        DecryptionError(.sizeMismatch, UInt64(clamping: source), UInt64(clamping: target))
    }

    /// Source and target share memory, but do not start at the same byte. Nothing was touched.
    public static func buffersOverlap(size: Int) -> DecryptionError {
        DecryptionError(.buffersOverlap, UInt64(clamping: size), 0)
    }

    /// A segment of `size` bytes that is encrypted as a whole does not end as one does: the key or the IV is a wrong
    /// one.
    public static func paddingInvalid(size: Int) -> DecryptionError {
        DecryptionError(.paddingInvalid, UInt64(clamping: size), 0)
    }

    /// libgcrypt has no AES-128, or no memory for a context. `reason` is its error code (`gcry_error_t`).
    public static func cipherUnavailable(reason: UInt) -> DecryptionError {
        DecryptionError(.cipherUnavailable, UInt64(reason), 0)
    }

    /// libgcrypt refused to decrypt. The bytes of the sample are undefined. `reason` is its error code.
    public static func cipherFailure(reason: UInt) -> DecryptionError {
        DecryptionError(.cipherFailure, UInt64(reason), 0)
    }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// Whether `other` is of the same kind, whatever the numbers.
    public func isSameKind(as other: DecryptionError) -> Bool { code == other.code }
}

extension DecryptionError: CustomStringConvertible {
    /// What is wrong with numbers of bytes, for a log. Never media and never keys.
    public var description: String {
        switch code {
        case .subsamplesExceedSample:
            "subsample \(first) ends behind the sample's \(second) bytes; the map does not belong to this sample"
        case .subsamplesDoNotCoverSample:
            "the subsamples cover \(first) of the sample's \(second) bytes; the map does not belong to this sample"
        case .sampleTooLarge:
            "the sample has \(first) bytes; at most \(second) can be decrypted as one"
        case .sizeMismatch:
            "the source has \(first) bytes and the target \(second); they must be equal"
        case .buffersOverlap:
            "source and target of \(first) bytes overlap; give the same buffer or two separate ones"
        case .paddingInvalid:
            "the segment of \(first) bytes has no valid padding; the key or the IV is not the segment's"
        case .cipherUnavailable:
            "libgcrypt offers no AES-128 (error 0x\(String(first, radix: 16))); check its version and configuration"
        case .cipherFailure:
            "libgcrypt failed to decrypt (error 0x\(String(first, radix: 16)))"
        }
    }
}
