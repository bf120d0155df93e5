// SPDX-License-Identifier: MPL-2.0

/// A key identifier (KID): the 16 bytes that name a content key (ISO/IEC 23001-7, 7.2).
///
/// The bytes stand in the order of the `tenc` box, which is the order in which a UUID is written. PlayReady's
/// GUID order is converted at the edge, where WRMHEADER is read.
public struct KeyID: Hashable, Sendable {
    private let value: SixteenBytes

    /// Nil unless `bytes` has exactly 16 elements.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        value = SixteenBytes(bytes)
    }

    /// The first eight bytes and the last eight, each read as a big-endian number.
    public init(high: UInt64, low: UInt64) { value = SixteenBytes(high: high, low: low) }

    /// Reads 32 hexadecimal digits, in a row or in the UUID form with four hyphens.
    public init?(hex text: some StringProtocol) {
        let digits = text.utf8.count == 36 ? String(text).filter { $0 != "-" } : String(text)
        guard digits.utf8.count == 32, let bytes = Hex.decode(digits) else { return nil }
        self.init(bytes)
    }

    /// Reads any spelling of a UUID: as `init(hex:)`, with braces around it, or with `urn:uuid:` in front.
    package init?(uuid text: some StringProtocol) {
        var rest = text.lowercased()
        if rest.hasPrefix("urn:uuid:") { rest.removeFirst(9) }
        if rest.hasPrefix("{"), rest.hasSuffix("}") { rest = String(rest.dropFirst().dropLast()) }
        self.init(hex: rest)
    }

    /// The 16 bytes, in UUID order.
    public var bytes: [UInt8] { value.bytes }

    /// The KID of 16 zero bytes, which content that is not protected carries.
    public var isZero: Bool { value.high == 0 && value.low == 0 }

    /// The UUID form with hyphens, in lower case, as a manifest's `cenc:default_KID` has it.
    public var uuidString: String {
        let text = Array(Hex.encode(bytes))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(text[$0]) }.joined(separator: "-")
    }
}

extension KeyID: CustomStringConvertible {
    /// 32 lower-case hexadecimal digits.
    public var description: String { Hex.encode(bytes) }
}

/// 16 bytes as two big-endian halves: what KIDs and initialization vectors are made of.
struct SixteenBytes: Hashable, Sendable {
    var high: UInt64 = 0
    var low: UInt64 = 0

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Takes the first 16 bytes; zeros stand for those that are not there.
    init(_ bytes: some Collection<UInt8>) {
        for (position, byte) in bytes.prefix(16).enumerated() {
            let shift = UInt64(56 - position % 8 * 8)
            if position < 8 { high |= UInt64(byte) << shift } else { low |= UInt64(byte) << shift }
        }
    }

    var bytes: [UInt8] {
        (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? high : low) >> (56 - UInt64($0 % 8) * 8)) }
    }
}
