// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// The decrypted payload of an SPC or a CKC: blocks in a row, each tag at most once.
///
/// Blocks with unknown tags are kept. See `TLLV` for the layout and its sources. A value; thread-safe; prints without
/// values.
public struct TLLVPayload: Hashable, Sendable {
    /// The most bytes of a payload that are read.
    public static let maximumSize = 64 * 1024

    /// In the order of the payload.
    public let blocks: [TLLV]
    private let positions: [TLLV.Tag: Int]

    /// Throws `duplicate` where two blocks have the same tag.
    public init(_ blocks: [TLLV]) throws(FormatError) {
        var positions: [TLLV.Tag: Int] = [:]
        for (position, block) in blocks.enumerated() {
            guard positions.updateValue(position, forKey: block.tag) == nil else {
                throw .duplicate("TLLV \(block.tag) stands there twice")
            }
        }
        self.blocks = blocks
        self.positions = positions
    }

    /// Reads a whole payload.
    ///
    /// Throws `truncated` where a block goes past the end, `malformed` for a block whose length is no multiple of 16 or
    /// smaller than its value, `duplicate` for a tag that comes again, and `tooLarge` above `maximumSize`.
    public init(reading bytes: [UInt8]) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("a payload of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var reader = ByteReader(bytes, structure: "TLLV payload")
        var blocks: [TLLV] = []
        while !reader.isAtEnd { blocks.append(try TLLV(reading: &reader)) }
        try self.init(blocks)
    }

    /// The block with this tag; nil where there is none.
    public subscript(tag: TLLV.Tag) -> TLLV? { positions[tag].map { blocks[$0] } }

    /// The bytes of the payload. Throws `tooLarge` above `maximumSize`.
    public func serialized() throws(FormatError) -> [UInt8] {
        let size = blocks.reduce(0) { $0 + $1.size }
        guard size <= Self.maximumSize else {
            throw .tooLarge("a payload of \(size) bytes; \(Self.maximumSize) can be read")
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        for block in blocks {
            bytes += bigEndian(block.tag.rawValue)
            bytes += bigEndian(UInt32(clamping: block.value.count + block.padding.count))
            bytes += bigEndian(UInt32(clamping: block.value.count))
            bytes += block.value
            bytes += block.padding
        }
        return bytes
    }

    /// The same payload with another value, of the same length, in the block of `tag`. Does nothing without one. Throws
    /// nothing in fact: the tags stay.
    public func replacingValue(of tag: TLLV.Tag, with value: [UInt8]) throws(FormatError) -> TLLVPayload {
        var blocks = blocks
        if let position = positions[tag] { blocks[position].value = value }
        return try TLLVPayload(blocks)
    }
}

extension TLLV {
    fileprivate init(reading reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        let tag = Tag(rawValue: try reader.readUInt64())
        let (blockLength, valueLength) = (try reader.readUInt32(), try reader.readUInt32())
        guard blockLength % 16 == 0 else {
            throw .malformed("\(place): TLLV \(tag) has a block of \(blockLength) bytes, no multiple of 16")
        }
        guard valueLength <= blockLength else {
            throw .malformed("\(place): TLLV \(tag) has a value of \(valueLength) bytes in a block of \(blockLength)")
        }
        let value = Array(try reader.readBytes(valueLength))
        self.init(tag, value, padding: Array(try reader.readBytes(blockLength - valueLength)))
    }
}

extension TLLVPayload: CustomStringConvertible, CustomReflectable {
    /// Tags and sizes, never values.
    public var description: String { "[\(blocks.map(\.description).joined(separator: "; "))]" }
    /// The blocks, which hide their values themselves.
    public var customMirror: Mirror { Mirror(self, children: ["blocks": blocks]) }
}
