// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyProtection

extension SampleCipher {
    convenience init(_ key: [UInt8]) throws {
        guard let key = ContentKey(key) else { throw MissingKey() }
        try self.init(key: key)
    }

    func decryptInPlace(_ plan: SamplePlan, _ sample: [UInt8]) throws -> [UInt8] {
        var bytes = sample
        try bytes.withUnsafeMutableBytes { try decrypt(plan, in: $0) }
        return bytes
    }

    /// The target has guard bytes on both sides, which must stay.
    func decryptApart(_ plan: SamplePlan, _ sample: [UInt8], fill: UInt8 = 0xa5) throws -> [UInt8] {
        var room = [UInt8](repeating: fill, count: sample.count + 32)
        try sample.withUnsafeBytes { source in
            try room.withUnsafeMutableBytes { room in
                let target = UnsafeMutableRawBufferPointer(rebasing: room[16..<16 + source.count])
                try decrypt(plan, from: source, into: target)
            }
        }
        guard room.prefix(16).allSatisfy({ $0 == fill }), room.suffix(16).allSatisfy({ $0 == fill }) else {
            throw WroteOutside()
        }
        return Array(room.dropFirst(16).dropLast(16))
    }
}

struct MissingKey: Error {}
struct WroteOutside: Error {}
