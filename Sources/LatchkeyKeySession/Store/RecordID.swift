// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The 16 bytes that name a record of the licence store: a PlayReady-style licence's own id, say, or random ones.
public struct RecordID: Hashable, Sendable {
    /// The size of an id, in bytes.
    public static let size = 16

    /// The id as it stands in the database; 16 bytes.
    public let bytes: [UInt8]

    /// Nil unless `bytes` has exactly 16 elements.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// A random one, from the system's generator.
    public static func random() -> RecordID {
        var generator = SystemRandomNumberGenerator()
        return RecordID(checked: (0..<size).map { _ in .random(in: 0...255, using: &generator) })
    }

    private init(checked bytes: [UInt8]) { self.bytes = bytes }

    /// The first 16 bytes; zeros stand for those that are not there.
    init(prefixOf bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(Self.size)) + [UInt8](repeating: 0, count: max(0, Self.size - bytes.count))
    }
}

extension RecordID: CustomStringConvertible {
    /// 32 lower-case hexadecimal digits.
    public var description: String { Hex.encode(bytes) }
}
