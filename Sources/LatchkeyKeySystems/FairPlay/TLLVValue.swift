// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// What a block with a certain tag says. Integers are big-endian. See `TLLV` for the sources.
public protocol TLLVValue: Hashable, Sendable {
    /// The tag of the block that the value stands in.
    static var tag: TLLV.Tag { get }

    /// Reads the value of a block. Throws `malformed` where it has another length than the tag wants, or a number that
    /// makes no sense.
    init(tllvValue bytes: [UInt8]) throws(FormatError)

    /// The value of a block.
    var tllvValue: [UInt8] { get }
}

extension TLLVPayload {
    /// What the block of this kind says; nil where there is none. Throws as `init(tllvValue:)` of the kind does.
    public func value<Value: TLLVValue>(_ type: Value.Type) throws(FormatError) -> Value? {
        guard let block = self[Value.tag] else { return nil }
        return try Value(tllvValue: block.value)
    }
}

extension TLLVValue {
    /// A reader over the value, which has to have one of the lengths.
    static func reader(_ bytes: [UInt8], lengths: Int...) throws(FormatError) -> ByteReader {
        guard lengths.contains(bytes.count) else {
            let wanted = lengths.map(String.init).joined(separator: " or ")
            throw .malformed("TLLV \(tag) has \(bytes.count) bytes, not \(wanted)")
        }
        return ByteReader(bytes, structure: "TLLV \(tag)")
    }
}

/// The bytes of a number, the most significant first.
func bigEndian(_ value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
