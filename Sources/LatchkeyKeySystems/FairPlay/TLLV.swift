// SPDX-License-Identifier: MPL-2.0

/// A tag-length-length-value block: what the encrypted payloads of SPC and CKC are made of.
///
/// ```
/// UInt64 tag, UInt32 block length (value and padding), UInt32 value length, value, padding
/// ```
///
/// All integers are big-endian. The whole block, with its header of 16 bytes, is a multiple of 16 bytes long. The
/// layout is that of WebKit's key server for its FairPlay tests (BSD-3) and of two open key servers that agree with it.
public struct TLLV: Hashable, Sendable {
    /// In bytes: the tag and the two lengths.
    public static let headerSize = 16

    /// Known or not: unknown ones are kept.
    public var tag: Tag
    /// As `tag` defines it; see `TLLVValue`. May be a key.
    public var value: [UInt8]
    /// Random filler behind the value. It has no meaning, but a block that goes back unchanged keeps it.
    public var padding: [UInt8]

    /// A block as it stands in a payload. Only where value and padding together are a multiple of 16 bytes can it be
    /// read again.
    public init(_ tag: Tag, _ value: [UInt8], padding: [UInt8]) {
        self.tag = tag
        self.value = value
        self.padding = padding
    }

    /// A block whose padding fills the last 16 bytes of the value and then 16 more, because one key server rejects a
    /// block without padding. `random` gives as many random bytes as it is asked for. Throws what `random` throws.
    public init<Failure: Error>(
        _ tag: Tag, _ value: [UInt8], random: (Int) throws(Failure) -> [UInt8]
    ) throws(Failure) {
        self.init(tag, value, padding: try random((16 - value.count % 16) % 16 + 16))
    }

    /// In bytes, with the header.
    public var size: Int { Self.headerSize + value.count + padding.count }

    /// Whether the padding is 8 bytes or more and all of them are the same: no random bytes, then.
    public var hasConstantPadding: Bool { padding.count >= 8 && padding.allSatisfy { $0 == padding.first } }
}

extension TLLV {
    /// The names of the known blocks, as public sources write them.
    public struct Tag: RawRepresentable, Hashable, Sendable {
        /// 8 bytes of the block, big-endian.
        public var rawValue: UInt64
        /// Takes any number; `name` is nil for one that is not known.
        public init(rawValue: UInt64) { self.rawValue = rawValue }
    }
}

extension TLLV.Tag: CustomStringConvertible {
    /// The name and the number, or the number alone: "asset identifier (1bf7f53f5d5d5a1f)".
    public var description: String {
        let digits = String(rawValue, radix: 16)
        let number = String(repeating: "0", count: 16 - digits.count) + digits
        return name.map { "\($0) (\(number))" } ?? number
    }
}

extension TLLV: CustomStringConvertible, CustomReflectable {
    /// Without the value, which may be a key.
    public var description: String { "\(tag), \(value.count) bytes" }
    /// The size stands for the value, so that `dump` shows no key.
    public var customMirror: Mirror { Mirror(self, children: ["tag": tag, "size": value.count]) }
}
