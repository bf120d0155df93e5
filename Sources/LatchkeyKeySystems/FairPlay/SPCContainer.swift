// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A server playback context: the question for a content key, with its payload still encrypted.
///
/// ```
/// UInt32 version, UInt32 reserved, UInt8[16] IV of the payload,
/// UInt8[128 or 256] payload key, wrapped with the certificate's RSA key, UInt8[20] SHA-1 of the DER certificate,
/// UInt32 payload length, payload
/// ```
///
/// Integers are big-endian. The payload is a multiple of 16 bytes: AES-128-CBC without padding over a `TLLVPayload`.
/// The key is wrapped with RSAES-OAEP (RFC 8017, 7.1) with SHA-1 and an empty label. See `TLLV` for the sources. A
/// value; thread-safe.
public struct SPCContainer: Hashable, Sendable {
    /// The first field of an SPC. It decides how long the wrapped key is.
    public enum Version: UInt32, Sendable, CaseIterable {
        /// For a certificate with an RSA key of 1024 bits.
        case v1 = 1
        /// For a certificate with an RSA key of 2048 bits.
        case v2 = 2

        /// In bytes: the wrapped payload key is as long as the RSA modulus.
        public var wrappedKeySize: Int { self == .v1 ? 128 : 256 }
    }

    /// The size of the payload's IV, in bytes.
    public static let ivSize = 16
    /// In bytes, of the certificate's hash.
    public static let certificateHashSize = 20

    /// Fits the certificate that `certificateHash` names.
    public let version: Version
    /// 0 where Latchkey writes it. Nothing is known of it, so that any number is read.
    public let reserved: UInt32
    /// 16 bytes, for the payload.
    public let initializationVector: [UInt8]
    /// The AES-128 key of the payload, encrypted with the certificate's RSA key; `Version.wrappedKeySize` bytes.
    public let wrappedKey: [UInt8]
    /// SHA-1 of the application certificate in DER, 20 bytes. Tells the key server which private key to take.
    public let certificateHash: [UInt8]
    /// The blocks, still encrypted: a multiple of 16 bytes.
    public let payload: [UInt8]

    /// Throws `malformed` where a part does not have its length.
    public init(
        version: SPCContainer.Version, reserved: UInt32 = 0, initializationVector: [UInt8], wrappedKey: [UInt8],
        certificateHash: [UInt8], payload: [UInt8]
    ) throws(FormatError) {
        guard initializationVector.count == Self.ivSize, wrappedKey.count == version.wrappedKeySize,
            certificateHash.count == Self.certificateHashSize
        else { throw .malformed("SPC: a part of the header has a wrong length") }
        try checkCBC(payload, in: "SPC")
        self.version = version
        self.reserved = reserved
        self.initializationVector = initializationVector
        self.wrappedKey = wrappedKey
        self.certificateHash = certificateHash
        self.payload = payload
    }

    /// The bytes in front of the payload: 176 in version 1, 304 in version 2.
    public var header: [UInt8] {
        bigEndian(version.rawValue) + bigEndian(reserved) + initializationVector + wrappedKey + certificateHash
            + bigEndian(UInt32(clamping: payload.count))
    }

    /// The bytes of the whole SPC: `header`, then `payload`.
    public func serialized() -> [UInt8] { header + payload }
}

/// What AES-128-CBC without padding can have made.
func checkCBC(_ payload: [UInt8], in structure: String) throws(FormatError) {
    guard !payload.isEmpty, payload.count % 16 == 0 else {
        throw .malformed("\(structure): a payload of \(payload.count) bytes, no multiple of 16")
    }
    guard payload.count <= TLLVPayload.maximumSize else {
        throw .tooLarge("\(structure): a payload of \(payload.count) bytes; \(TLLVPayload.maximumSize) are read")
    }
}
