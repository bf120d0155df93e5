// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// Certificates from a leaf up to one that the root signed. The root's own certificate is not among them.
///
/// ```
/// "CHAI", UInt32 version, UInt32 length, UInt32 flags, UInt32 count, then certificates, the leaf first
/// ```
///
/// See `BCertObject` for the source. A value; thread-safe.
public struct BCertChain: Hashable, Sendable {
    /// The most bytes of a chain that are read.
    public static let maximumSize = 64 * 1024
    /// How many certificates a chain may have.
    public static let maximumDepth = 6
    private static let magic = Array("CHAI".utf8)
    private static let headerSize = 20

    /// The leaf first; at least one.
    public let certificates: [BCert]
    /// The certificate that the chain is for: the first.
    public let leaf: BCert
    /// Nothing is known of them; 0 where Latchkey writes them.
    public let flags: UInt32

    /// Reads a chain and nothing behind it.
    ///
    /// Throws `truncated` and `malformed` for a broken layout, `tooLarge` for a chain of more than six certificates,
    /// `unsupported` for another version, and the errors of its certificates.
    public init(reading bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else { throw .tooLarge("certificate chain of \(bytes.count) bytes") }
        var reader = ByteReader(Array(bytes), structure: "certificate chain")
        guard try reader.readBytes(4).elementsEqual(Self.magic) else { throw .malformed("certificate chain: not one") }
        let version = try reader.readUInt32()
        guard version == 1 else { throw .unsupported("certificate chain of version \(version)") }
        let length = try reader.readUInt32()
        guard length == bytes.count else {
            throw .malformed("certificate chain of \(bytes.count) bytes says \(length)")
        }
        flags = try reader.readUInt32()
        let count = try reader.readUInt32()
        guard (1...UInt32(Self.maximumDepth)).contains(count) else {
            throw .tooLarge("a chain of \(count) certificates; 1 to \(Self.maximumDepth) are possible")
        }
        var certificates: [BCert] = []
        for _ in 0..<count { certificates.append(try BCert(reading: &reader)) }
        guard reader.isAtEnd, let leaf = certificates.first else {
            throw .malformed("\(reader.place): bytes behind the chain")
        }
        self.certificates = certificates
        self.leaf = leaf
    }

    /// Throws `tooLarge` for no certificate and for more than six.
    public init(_ certificates: [BCert], flags: UInt32 = 0) throws(FormatError) {
        guard let leaf = certificates.first, certificates.count <= Self.maximumDepth else {
            throw .tooLarge("a chain of \(certificates.count) certificates; 1 to \(Self.maximumDepth) are possible")
        }
        self.certificates = certificates
        self.leaf = leaf
        self.flags = flags
    }

    /// The bytes of the chain; each certificate exactly as it came, so that signatures stay valid.
    public var serialized: [UInt8] {
        let body = certificates.flatMap(\.bytes)
        var head = Self.magic + bigEndian(UInt32(1))
        head += bigEndian(UInt32(clamping: Self.headerSize + body.count)) + bigEndian(flags)
        return head + bigEndian(UInt32(clamping: certificates.count)) + body
    }
}
