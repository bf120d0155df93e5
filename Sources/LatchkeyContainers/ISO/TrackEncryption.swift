// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// How a sample entry says that samples are encrypted: its `sinf` box (ISO/IEC 23001-7, 4 and 8.2).
public struct TrackEncryption: Hashable, Sendable {
    /// The type that the sample entry had in the clear (`frma`): `avc1`.
    public var originalFormat: String
    /// The scheme (`schm`): `cenc`, `cbcs`, or another one.
    public var scheme: String
    /// `default_isProtected`: whether samples are encrypted unless a sample group says otherwise.
    public var isProtected: Bool
    /// `default_Per_Sample_IV_Size`, in bytes; 0 with a constant IV.
    public var initializationVectorSize: UInt8
    /// `default_KID`: the key of samples that no sample group names another one for.
    public var keyID: KeyID
    /// `default_constant_IV`, 8 or 16 bytes.
    public var constantInitializationVector: [UInt8]?
    /// `default_crypt_byte_block` and `default_skip_byte_block`.
    public var pattern: BlockPattern

    /// Where `default_isProtected` stands in the file.
    let protectedOffset: Int
    /// Where `default_KID` starts.
    let keyIDOffset: Int

    /// Reads a `sinf` box. Nil where it has no `tenc`, as in files of other schemes.
    init?(_ sinf: ISOBox, in bytes: [UInt8]) throws(FormatError) {
        let boxes = try sinf.children(in: bytes)
        var format = boxes.first { $0.type == "frma" }?.reader(bytes)
        originalFormat = try format?.readFourCC() ?? ""
        var type = boxes.first { $0.type == "schm" }?.reader(bytes)
        try type?.skip(4)
        scheme = try type?.readFourCC() ?? ""
        guard let info = boxes.first(where: { $0.type == "schi" }),
            let tenc = try info.children(in: bytes).first(where: { $0.type == "tenc" })
        else { return nil }
        var reader = tenc.reader(bytes)
        let version = try reader.readUInt8()
        try reader.skip(4)
        let blocks = try reader.readUInt8()
        pattern = version == 0 ? .none : BlockPattern(crypt: blocks >> 4, skip: blocks & 15)
        protectedOffset = tenc.body.lowerBound + 6
        isProtected = try reader.readUInt8() == 1
        initializationVectorSize = try reader.readUInt8()
        keyIDOffset = tenc.body.lowerBound + 8
        let place = reader.place
        guard let keyID = KeyID(try reader.readBytes(16)) else { throw .malformed("\(place): default_KID") }
        self.keyID = keyID
        if isProtected, initializationVectorSize == 0 {
            let size = try reader.readUInt8()
            guard size == 8 || size == 16 else { throw .malformed("\(reader.place): a constant IV of \(size) bytes") }
            constantInitializationVector = Array(try reader.readBytes(Int(size)))
        }
    }
}
