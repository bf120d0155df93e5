// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import LatchkeyContainers

/// A list of certificates that are not to be trusted any more.
///
/// How PlayReady lays out the contents of its lists is not public. This layout is Latchkey's own, version 1:
///
/// ```
/// "LKRL", UInt32 format (1), UInt8[16] list id (in GUID order), UInt32 version of the list, UInt32 count,
/// count times UInt8[32]: SHA-256 of a public key, UInt32 size, certificate chain of the signer,
/// UInt8[64] signature (ECDSA with P-256 and SHA-256, r and s) over all that stands before it
/// ```
///
/// All integers are big-endian. Reading checks the layout; trust is a matter of the key system. A value; prints without
/// the digests.
public struct RevocationList: Hashable, Sendable {
    /// The most bytes of a list that are read.
    public static let maximumSize = 1 << 20
    /// In bytes, of a SHA-256.
    public static let digestSize = 32
    private static let magic = Array("LKRL".utf8)
    private static let signatureSize = 64

    /// Tells lists apart. A list replaces one with the same id and a lower version.
    public let id: GUID
    /// Counts up with each change of the list.
    public let version: UInt32
    /// SHA-256 of public keys: certificates with one of them are revoked.
    public let keyDigests: Set<[UInt8]>
    /// The certificates of the signer of the list, up to one that the root signed.
    public let chain: BCertChain
    /// r and s, each of 32 bytes.
    public let signature: [UInt8]
    /// The whole list, exactly as it came.
    public let bytes: [UInt8]

    /// Those that the signature covers.
    public var signedBytes: ArraySlice<UInt8> { bytes.dropLast(Self.signatureSize) }

    /// Reads one list and nothing behind it.
    ///
    /// Throws `truncated` and `malformed` for a broken layout, `unsupported` for another format, `tooLarge` above
    /// `maximumSize`, and the errors of the certificate chain.
    public init(reading bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else { throw .tooLarge("revocation list of \(bytes.count) bytes") }
        var reader = ByteReader(Array(bytes), structure: "revocation list")
        guard try reader.readBytes(4).elementsEqual(Self.magic) else {
            throw .unsupported("revocation list: of a format that is not known")
        }
        let format = try reader.readUInt32()
        guard format == 1 else { throw .unsupported("revocation list of format \(format)") }
        id = try reader.readGUID()
        version = try reader.readUInt32()
        let count = Int(try reader.readUInt32())
        guard count <= Self.maximumSize / Self.digestSize else { throw .truncated(reader.place) }
        var digests = try reader.readStructure(count * Self.digestSize, "revocation list, digests")
        var keyDigests: Set<[UInt8]> = []
        while !digests.isAtEnd { keyDigests.insert(Array(try digests.readBytes(Self.digestSize))) }
        guard keyDigests.count == count else { throw .duplicate("revocation list: a digest comes twice") }
        self.keyDigests = keyDigests
        chain = try BCertChain(reading: try reader.readBytes(try reader.readUInt32()))
        signature = Array(try reader.readBytes(Self.signatureSize))
        guard reader.isAtEnd else { throw .malformed("\(reader.place): bytes behind the list") }
        self.bytes = Array(bytes)
    }
}

extension RevocationList: Redacted {
    /// Id and version, without the digests.
    public var description: String { "revocation list \(id), version \(version)" }
    /// The same two, so that `dump` does not print thousands of digests.
    public var shown: KeyValuePairs<String, Any> { ["id": id, "version": version] }
}
