// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyProtection

/// Encrypts samples as ISO/IEC 23001-7 words it, one block after the other, on OpenSSL's single-block AES: the other
/// direction of what is tested, and none of its code.
public struct CommonEncryption {
    public let key: [UInt8]
    public var scheme: ProtectionScheme
    /// 8 or 16 bytes.
    public var vector: [UInt8]
    /// Blocks encrypted and blocks left clear, in turn; 0:0 without a pattern.
    public var pattern: (crypt: Int, skip: Int)
    /// Clear and protected bytes, in turn; empty where the whole sample is protected.
    public var subsamples: [(clear: Int, protected: Int)]

    public init(
        key: [UInt8], scheme: ProtectionScheme, vector: [UInt8], pattern: (crypt: Int, skip: Int) = (0, 0),
        subsamples: [(clear: Int, protected: Int)] = []
    ) {
        (self.key, self.scheme, self.vector, self.pattern, self.subsamples) = (key, scheme, vector, pattern, subsamples)
    }

    public func encrypt(_ clear: [UInt8]) -> [UInt8] {
        var sample = clear
        let start = vector + [UInt8](repeating: 0, count: 16 - vector.count)
        let cipher = BlockCipher(key)
        let runs = runs(in: clear.count)
        switch scheme {
        case .cenc, .cens:
            var stream = cipher.encrypt(counters(from: start, count: runs.joined().reduce(0) { $0 + $1.count }))[...]
            for run in runs.joined() {
                for position in run { sample[position] ^= stream.removeFirst() }
            }
        case .cbc1, .cbcs:
            var previous = start
            for subsample in runs {
                if scheme == .cbcs { previous = start }
                for block in subsample.flatMap({ stride(from: $0.lowerBound, to: $0.upperBound, by: 16) }) {
                    for index in 0..<16 { previous[index] ^= sample[block + index] }
                    previous = cipher.encrypt(previous)
                    sample.replaceSubrange(block..<block + 16, with: previous)
                }
            }
        }
        return sample
    }

    /// The runs of bytes to encrypt, for each subsample.
    private func runs(in size: Int) -> [[Range<Int>]] {
        let hasPattern = (scheme == .cens || scheme == .cbcs) && pattern.skip > 0
        // Only cenc, and cens without any pattern in subsamples, encrypt the last partial block.
        let isPartialClear = scheme != .cenc && (scheme != .cens || pattern.crypt > 0 || subsamples.isEmpty)
        var offset = 0
        return (subsamples.isEmpty ? [(clear: 0, protected: size)] : subsamples).map { range in
            let first = offset + range.clear
            offset = first + range.protected
            let end = isPartialClear ? first + range.protected / 16 * 16 : offset
            guard hasPattern else { return [first..<end] }
            return stride(from: first, to: end, by: (pattern.crypt + pattern.skip) * 16).map {
                $0..<min($0 + pattern.crypt * 16, end)
            }
        }
    }

    /// The low half counts and wraps; the high half stays (ISO/IEC 23001-7, 9.3).
    private func counters(from start: [UInt8], count: Int) -> [UInt8] {
        var low = start[8...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        var blocks: [UInt8] = []
        while blocks.count < count {
            blocks += start[..<8]
            for shift in stride(from: UInt64(56), through: 0, by: -8) {
                blocks.append(UInt8(truncatingIfNeeded: low >> shift))
            }
            low &+= 1
        }
        return blocks
    }
}

/// AES-128, each block for itself.
private final class BlockCipher {
    private let context = EVP_CIPHER_CTX_new()

    init(_ key: [UInt8]) { EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nil, key, nil) }

    deinit { EVP_CIPHER_CTX_free(context) }

    func encrypt(_ blocks: [UInt8]) -> [UInt8] {
        var length: Int32 = 0
        return [UInt8](unsafeUninitializedCapacity: blocks.count + 16) { output, count in
            EVP_EncryptUpdate(context, output.baseAddress, &length, blocks, Int32(blocks.count))
            count = blocks.count
        }
    }
}
