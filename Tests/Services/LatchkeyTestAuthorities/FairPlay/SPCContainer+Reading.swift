// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems

extension SPCContainer {
    /// The most bytes of a whole SPC that are read.
    package static let maximumSize = TLLVPayload.maximumSize + 304

    /// Reads a whole SPC.
    ///
    /// Throws `unsupported` for a version that is not known, `truncated`, `malformed` for bytes behind the payload or a
    /// payload that is empty or no multiple of 16 bytes, and `tooLarge`.
    package init(reading bytes: [UInt8]) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("SPC: \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var reader = ByteReader(bytes, structure: "SPC")
        let number = try reader.readUInt32()
        guard let version = Version(rawValue: number) else { throw .unsupported("SPC: version \(number)") }
        let reserved = try reader.readUInt32()
        let iv = Array(try reader.readBytes(Self.ivSize))
        let wrappedKey = Array(try reader.readBytes(version.wrappedKeySize))
        let hash = Array(try reader.readBytes(Self.certificateHashSize))
        let payload = Array(try reader.readBytes(try reader.readUInt32()))
        guard reader.isAtEnd else { throw .malformed("\(reader.place): \(reader.remaining) bytes behind the payload") }
        try self.init(
            version: version, reserved: reserved, initializationVector: iv, wrappedKey: wrappedKey,
            certificateHash: hash, payload: payload)
    }
}
