// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A content key context: the answer to an SPC, with its payload still encrypted.
///
/// ```
/// UInt32 version, UInt32 reserved, UInt8[16] IV of the payload, UInt32 payload length, payload
/// ```
///
/// Integers are big-endian. The payload is a multiple of 16 bytes: AES-128-CBC without padding over a `TLLVPayload`.
/// See `TLLV` for the sources. A value; thread-safe.
public struct CKCContainer: Hashable, Sendable {
    /// In bytes, of what stands in front of the payload.
    public static let headerSize = 28
    /// The most bytes of a whole CKC that are read.
    public static let maximumSize = TLLVPayload.maximumSize + headerSize

    /// Of the container: 1 or 2. It does not change the layout.
    public let version: UInt32
    /// Some servers put numbers here, so that any is read.
    public let reserved: UInt32
    /// 16 bytes, for the payload.
    public let initializationVector: [UInt8]
    /// The blocks, still encrypted: a multiple of 16 bytes.
    public let payload: [UInt8]

    /// Throws `unsupported` for another version than 1 or 2, and `malformed` where a part does not have its length.
    package init(
        version: UInt32, reserved: UInt32 = 0, initializationVector: [UInt8], payload: [UInt8]
    ) throws(FormatError) {
        guard version == 1 || version == 2 else { throw .unsupported("CKC: version \(version)") }
        guard initializationVector.count == 16 else { throw .malformed("CKC: the IV has not 16 bytes") }
        try checkCBC(payload, in: "CKC")
        self.version = version
        self.reserved = reserved
        self.initializationVector = initializationVector
        self.payload = payload
    }

    /// Reads a whole CKC.
    ///
    /// Throws `unsupported` for a version that is not known, `truncated`, `malformed` for bytes behind the payload or a
    /// payload that is empty or no multiple of 16 bytes, and `tooLarge`.
    public init(reading bytes: [UInt8]) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("CKC: \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var reader = ByteReader(bytes, structure: "CKC")
        let version = try reader.readUInt32()
        guard version == 1 || version == 2 else { throw .unsupported("CKC: version \(version)") }
        let reserved = try reader.readUInt32()
        let iv = Array(try reader.readBytes(16))
        let payload = Array(try reader.readBytes(try reader.readUInt32()))
        guard reader.isAtEnd else { throw .malformed("\(reader.place): \(reader.remaining) bytes behind the payload") }
        try self.init(version: version, reserved: reserved, initializationVector: iv, payload: payload)
    }

    /// The bytes in front of the payload.
    public var header: [UInt8] {
        bigEndian(version) + bigEndian(reserved) + initializationVector + bigEndian(UInt32(clamping: payload.count))
    }
}
