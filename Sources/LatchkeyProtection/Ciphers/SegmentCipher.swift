// SPDX-License-Identifier: MPL-2.0

/// Decrypts a segment as it comes: AES-128 in CBC mode with PKCS#7 padding (RFC 8216, 4.3.2.4, METHOD=AES-128).
///
/// A value for one segment. Not thread-safe.
public struct SegmentCipher: ~Copyable {
    private let context: CipherContext
    /// What came and is not decrypted yet: the last block, or a part of it.
    private var held: [UInt8] = []
    /// Of what came, in bytes.
    package private(set) var size = 0
    /// What is wanted of the clear bytes, in bytes from the first one; nil: all of it but the padding.
    private let part: Range<UInt64>?
    /// Of the next clear byte.
    private var position: UInt64 = 0

    /// With a `part`, what comes is whole blocks from inside a segment, without padding: that part of the clear bytes is
    /// wanted.
    ///
    /// Throws `cipherUnavailable` and `cipherFailure`.
    public init(
        key: ContentKey, initializationVector: InitializationVector, part: Range<UInt64>? = nil
    ) throws(DecryptionError) {
        self.part = part
        let context = try CipherContext(.chained, key: key)
        do throws(DecryptionError) {
            try context.restart(high: initializationVector.high, low: initializationVector.low)
        } catch {
            context.release()
            throw error
        }
        self.context = context
    }

    deinit { context.release() }

    /// Decrypts a segment that is there as a whole.
    ///
    /// Throws as `finish` does.
    public consuming func decrypt(whole segment: [UInt8]) throws(DecryptionError) -> [UInt8] {
        try decrypt(segment) + finish()
    }

    /// Takes the next piece, and gives what is decrypted now: all whole blocks of the segment so far but the last one, which
    /// may have the padding.
    public mutating func decrypt(_ piece: [UInt8]) throws(DecryptionError) -> [UInt8] {
        size &+= piece.count
        var bytes = held.isEmpty ? piece : held + piece
        let count = max(bytes.count - 1, 0) / 16 * 16
        held = Array(bytes[count...])
        bytes.removeSubrange(count...)
        try decryptBlocks(&bytes)
        return wanted(bytes)
    }

    /// The last block without its padding. To be called once, behind the last piece.
    ///
    /// Throws `paddingInvalid` where the segment is no number of blocks or its padding is wrong: the key or the IV is not
    /// the segment's. Throws the same where a part is not all there.
    public mutating func finish() throws(DecryptionError) -> [UInt8] {
        let (block, padding) = try lastBlock()
        guard let padding else { throw .paddingInvalid(size: size) }
        return Array(block.dropLast(padding))
    }

    /// The last block, and how many of its bytes are padding; nil: they are no PKCS#7 padding. In place of `finish`.
    ///
    /// Throws `paddingInvalid` where the segment is no number of blocks, or a part is not all there.
    package mutating func lastBlock() throws(DecryptionError) -> (bytes: [UInt8], padding: Int?) {
        guard held.count == 16 else { throw .paddingInvalid(size: size) }
        var block = held
        held = []
        try decryptBlocks(&block)
        if let part {
            let last = wanted(block)
            guard position >= part.upperBound else { throw .paddingInvalid(size: size) }
            return (last, 0)
        }
        return (block, Self.padding(of: block))
    }

    /// How many bytes of the last block of a segment are padding; nil: they are no PKCS#7 padding.
    package static func padding(of block: [UInt8]) -> Int? {
        // The time of the comparison tells nothing: its answer goes to no one who sends segments to try out.
        guard let last = block.last, 1...16 ~= last, block.count >= last else { return nil }
        let padding = Int(last)
        return block.suffix(padding).allSatisfy { Int($0) == padding } ? padding : nil
    }

    /// The bytes of `part` among the next clear ones.
    private mutating func wanted(_ bytes: [UInt8]) -> [UInt8] {
        guard let part else { return bytes }
        let start = position
        position &+= UInt64(bytes.count)
        let range = part.clamped(to: start..<position)
        return Array(bytes[Int(range.lowerBound - start)..<Int(range.upperBound - start)])
    }

    private func decryptBlocks(_ bytes: inout [UInt8]) throws(DecryptionError) {
        var failure: DecryptionError?
        bytes.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            do throws(DecryptionError) {
                // SAFETY: all bytes of the array, a multiple of 16, decrypted where they are.
                try context.update(from: start, to: start, count: bytes.count)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}
