// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The four schemes as ISO/IEC 23001-7 words them, one block after the other. For tests.
struct ReferenceCipher {
    let aes: ReferenceAES

    init(key: [UInt8]) { aes = ReferenceAES(key: key) }

    func decrypt(_ plan: SamplePlan, _ sample: [UInt8]) -> [UInt8] {
        var clear = sample
        var offset = 0
        var keyStream = KeyStream(aes: aes, vector: plan.initializationVector)
        var previous = plan.initializationVector.bytes
        let isWhole = plan.subsamples.isEmpty
        let ranges: [(clear: Int, protected: Int)] =
            isWhole
            ? [(0, sample.count)] : plan.subsamples.map { (clear: Int($0.clear), protected: Int($0.protected)) }
        for range in ranges {
            offset += range.clear
            let end = offset + range.protected
            if plan.scheme == .cbcs { previous = plan.initializationVector.bytes }
            for position in encryptedBytes(plan, isWhole: isWhole, count: range.protected) {
                switch plan.scheme {
                case .cenc, .cens:
                    clear[offset + position] ^= keyStream.next()
                case .cbc1, .cbcs:
                    guard position % 16 == 0 else { continue }
                    let start = offset + position
                    let block = Array(sample[start..<start + 16])
                    clear.replaceSubrange(start..<start + 16, with: ReferenceAES.xor(aes.decrypt(block), previous))
                    previous = block
                }
            }
            offset = end
        }
        return clear
    }

    /// The positions of the encrypted bytes in a protected range of `count` bytes.
    private func encryptedBytes(_ plan: SamplePlan, isWhole: Bool, count: Int) -> [Int] {
        let crypt = Int(plan.pattern.crypt)
        let skip = Int(plan.pattern.skip)
        let isPlain = plan.scheme == .cenc || plan.scheme == .cens && crypt == 0 && skip == 0 && !isWhole
        guard !isPlain else { return Array(0..<count) }
        let hasPattern = plan.scheme != .cbc1 && skip > 0
        return (0..<count / 16 * 16).filter { !hasPattern || $0 / 16 % (crypt + skip) < crypt }
    }
}

private struct KeyStream {
    let aes: ReferenceAES
    var high: UInt64
    var low: UInt64
    var rest: ArraySlice<UInt8> = []

    init(aes: ReferenceAES, vector: InitializationVector) {
        self.aes = aes
        high = vector.high
        low = vector.low
    }

    mutating func next() -> UInt8 {
        if rest.isEmpty {
            let counter = [high, low].flatMap { half in (0..<8).map { UInt8(half >> (56 - $0 * 8) & 0xff) } }
            rest = aes.encrypt(counter)[...]
            low &+= 1
        }
        return rest.removeFirst()
    }
}
