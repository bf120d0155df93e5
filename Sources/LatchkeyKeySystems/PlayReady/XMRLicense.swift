// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import LatchkeyContainers

/// An XMR license as bytes and objects: one wrapped content key and what may be done with it.
///
/// ```
/// "XMR" and a zero, UInt32 version, UInt8[16] rights id, then objects: one outer container, the signature last in it
/// ```
///
/// See `XMRObject` for the sources. Reading checks the layout alone; what the objects mean is `XMRTerms`, and whether
/// the signature fits is a matter of the key system. A value; prints without keys.
public struct XMRLicense: Hashable, Sendable {
    /// The most bytes of a license that are read. Microsoft's clients take 10 KiB.
    public static let maximumSize = 64 * 1024
    /// "XMR" and a zero.
    public static let magic: [UInt8] = [0x58, 0x4D, 0x52, 0x00]
    /// The one that all known licenses have.
    public static let version: UInt32 = 3

    /// Always 3.
    public let version: UInt32
    /// Names the license, and carries the nonce of the request where nothing of the answer may be stored.
    public let rightsID: GUID
    /// The container that all other objects stand in.
    public let outer: XMRObject
    /// The whole license, exactly as it came.
    public let bytes: [UInt8]
    private let signedSize: Int

    /// Those that the signature covers: all in front of its object.
    public var signedBytes: ArraySlice<UInt8> { bytes.prefix(signedSize) }

    /// The 16 bytes of the signature (AES-CMAC with the license's integrity key).
    public let signature: [UInt8]

    /// Reads one license and nothing behind it.
    ///
    /// Throws `truncated` and `malformed` for a broken layout, for a signature that is not the last object, and for bytes
    /// behind the license, `unsupported` for another version, `tooLarge` above `maximumSize`.
    public init(reading bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= Self.maximumSize else {
            throw .tooLarge("XMR license of \(bytes.count) bytes; \(Self.maximumSize) are read")
        }
        var reader = ByteReader(Array(bytes), structure: "XMR license")
        try self.init(reading: &reader, all: Array(bytes))
        guard reader.isAtEnd else { throw .malformed("\(reader.place): bytes behind the license") }
    }

    private init(reading reader: inout ByteReader, all bytes: [UInt8]) throws(FormatError) {
        guard try reader.readBytes(4).elementsEqual(Self.magic) else { throw .malformed("XMR license: not one") }
        version = try reader.readUInt32()
        guard version == Self.version else { throw .unsupported("XMR license of version \(version)") }
        guard let rightsID = GUID(uuidOrder: try reader.readBytes(16)) else {
            throw .malformed("XMR license: rights id")
        }
        self.rightsID = rightsID
        outer = try XMRObject(reading: &reader)
        guard outer.type == .outer else { throw .malformed("XMR license: no outer container") }
        guard let last = outer.objects.last, last.type == .signature,
            outer.objects.count(where: { $0.type == .signature }) == 1
        else { throw .malformed("XMR license: the signature has to be the last object, and the only one") }
        var content = ByteReader(last.data, structure: "XMR signature")
        let (type, length) = (try content.readUInt16(), try content.readUInt16())
        guard type == 1, length == 16 else { throw .unsupported("XMR signature of type \(type), \(length) bytes") }
        signature = Array(try content.readBytes(16))
        guard content.isAtEnd else { throw .malformed("XMR signature: bytes behind it") }
        self.bytes = Array(bytes.prefix(reader.offset))
        signedSize = reader.offset - last.size
    }

    /// All licenses that stand somewhere in `bytes`: wherever one starts and can be read.
    static func licenses(within bytes: [UInt8]) -> [XMRLicense] {
        var licenses: [XMRLicense] = []
        var position = 0
        // Each start may cost the reading of one license; a store of nothing but starts has to stay cheap.
        var attempts = 64
        while attempts > 0, let start = bytes[position...].firstIndex(of: Self.magic[0]) {
            position = start + 1
            guard bytes[start...].starts(with: Self.magic) else { continue }
            attempts -= 1
            let rest = Array(bytes[start...].prefix(maximumSize))
            var reader = ByteReader(rest, structure: "embedded license")
            guard let license = try? XMRLicense(reading: &reader, all: rest) else { continue }
            licenses.append(license)
            position = start + license.bytes.count
        }
        return licenses
    }
}

extension XMRLicense: Redacted {
    /// Rights id and size, never key material.
    public var description: String { "XMR license \(rightsID), \(bytes.count) bytes" }
    /// The rights id alone.
    public var shown: KeyValuePairs<String, Any> { ["rightsID": rightsID] }
}
