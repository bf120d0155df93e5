// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

/// Where random bytes come from: OpenSSL's generator, or a seeded one in tests. Thread-safe.
public struct RandomSource: Sendable {
    private let source: @Sendable (Int) -> [UInt8]?

    /// `source` gives as many bytes as it is asked for; nil, or another number, counts as a failure.
    public init(_ source: @escaping @Sendable (Int) -> [UInt8]?) { self.source = source }

    /// OpenSSL's generator, which the operating system seeds.
    public static let system = RandomSource { count in
        guard let size = Int32(exactly: count) else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        // SAFETY: writes exactly `size` bytes.
        guard RAND_bytes(&bytes, size) == 1 else {
            ERR_clear_error()
            return nil
        }
        return bytes
    }

    package func bytes(_ count: Int) throws(CryptoError) -> [UInt8] {
        guard let bytes = source(count), bytes.count == count else { throw CryptoError(reason: 0) }
        return bytes
    }

    package func number() throws(CryptoError) -> UInt64 { try bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }

    /// `items` in random order.
    package func shuffle<Item>(_ items: [Item]) throws(CryptoError) -> [Item] {
        var keyed: [(key: UInt64, item: Item)] = []
        for item in items { keyed.append((try number(), item)) }
        return keyed.sorted { $0.key < $1.key }.map(\.item)
    }
}
