// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// How samples are encrypted: the scheme of a sample entry with the parameters of `tenc`, of a `seig` sample group
/// (ISO/IEC 23001-7, 6 and 8.2), or of PIFF's boxes.
public struct ISOEncryption: Hashable, Sendable {
    /// The scheme type of `schm`, or what PIFF's AlgorithmID stands for: 1 is `cenc`, 2 is `cbc1`.
    public var scheme: ProtectionScheme
    /// Whether samples are encrypted at all.
    public var isProtected: Bool
    /// Of the IV that each sample brings, in bytes: 0, 8 or 16.
    public var initializationVectorSize: Int
    /// The IV of all samples, where they bring none.
    public var constantInitializationVector: InitializationVector?
    /// Counts in blocks of 16 bytes; `.none` where the scheme has no pattern.
    public var pattern: BlockPattern
    /// Nil for media that does not name it, as fragments of Smooth Streaming.
    public var keyID: KeyID?
    /// That of the sample entry, if a sample group names another one.
    var trackKeyID: KeyID?
    /// What is encrypted so. What may hold pictures is video.
    public var media = OutputPolicy.Media.video
    /// Nil where it is not known, or says nothing of a wrong key.
    public var codec: SampleCodec?
    /// Whether the producer encrypts the partial block at the end of `cens` samples that have no subsamples.
    var encryptsPartialBlocks = false

    /// Checks nothing: with an IV size of 0, samples are opened only with a constant IV.
    public init(
        scheme: ProtectionScheme, isProtected: Bool = true, initializationVectorSize: Int,
        constantInitializationVector: InitializationVector? = nil, pattern: BlockPattern = .none, keyID: KeyID?,
        media: OutputPolicy.Media = .video
    ) {
        self.scheme = scheme
        self.isProtected = isProtected
        self.initializationVectorSize = initializationVectorSize
        self.constantInitializationVector = constantInitializationVector
        self.pattern = pattern
        self.keyID = keyID
        self.media = media
    }

    /// What a `tenc` box says.
    init(_ track: TrackEncryption, scheme: ProtectionScheme, place: String) throws(FormatError) {
        self.init(
            scheme: scheme, isProtected: track.isProtected,
            initializationVectorSize: Int(track.initializationVectorSize),
            constantInitializationVector: track.constantInitializationVector.flatMap { InitializationVector($0) },
            pattern: track.pattern, keyID: track.keyID)
        try check(place)
    }

    /// Reads an entry of an `sgpd` box of the type `seig`:
    /// `UInt8 0, UInt4 crypt, UInt4 skip, UInt8 isProtected, UInt8 IV size, UInt8[16] KID`, and where samples bring no
    /// IV, `UInt8 size, UInt8[size] constant IV`.
    init(seig reader: inout ByteReader, scheme: ProtectionScheme) throws(FormatError) {
        let place = reader.place
        // `multi_key_flag` of the edition of 2023.
        guard try reader.readUInt8() & 0x80 == 0 else {
            throw .unsupported("\(place): several keys for each sample")
        }
        let blocks = try reader.readUInt8()
        pattern = BlockPattern(crypt: blocks >> 4, skip: blocks & 15)
        isProtected = try reader.readUInt8() == 1
        initializationVectorSize = Int(try reader.readUInt8())
        keyID = KeyID(try reader.readBytes(16))
        self.scheme = scheme
        if isProtected, initializationVectorSize == 0 {
            let size = try reader.readUInt8()
            constantInitializationVector = InitializationVector(try reader.readBytes(size))
        }
        try check(place)
    }

    /// Reads what PIFF's boxes say (PIFF 1.1, 5.3.2 and 5.3.3): `UInt24 AlgorithmID, UInt8 IV size, UInt8[16] KID`.
    init(piff reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        let algorithm = try reader.readUInt24()
        scheme = algorithm == 2 ? .cbc1 : .cenc
        isProtected = algorithm != 0
        pattern = .none
        initializationVectorSize = Int(try reader.readUInt8())
        keyID = KeyID(try reader.readBytes(16))
        guard algorithm <= 2 else { throw .unsupported("\(place): AlgorithmID \(algorithm) of PIFF") }
        try check(place)
    }

    private func check(_ place: String) throws(FormatError) {
        guard isProtected else { return }
        switch initializationVectorSize {
        case 8, 16: return
        case 0:
            guard constantInitializationVector != nil else {
                throw .malformed("\(place): neither IVs of samples nor a constant IV of 8 or 16 bytes")
            }
        default: throw .malformed("\(place): IVs of \(initializationVectorSize) bytes; 8 or 16 are possible")
        }
    }
}

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

/// Which key a sample of ISO media needs, and what for: a license may allow outputs for sound and not for pictures.
public struct ISOKeyUse: Hashable, Sendable {
    /// Nil for media that names no key.
    public var keyID: KeyID?
    /// The KID of the sample entry, if a sample group names another one.
    public var trackKeyID: KeyID?
    /// What may hold pictures is video.
    public var media: OutputPolicy.Media
    /// What the sample is made of. Two uses are the same without it.
    public var codec: SampleCodec?

    public init(
        keyID: KeyID?, trackKeyID: KeyID? = nil, media: OutputPolicy.Media, codec: SampleCodec? = nil
    ) {
        self.keyID = keyID
        self.trackKeyID = trackKeyID
        self.media = media
        self.codec = codec
    }

    public static func == (left: ISOKeyUse, right: ISOKeyUse) -> Bool {
        left.keyID == right.keyID && left.trackKeyID == right.trackKeyID && left.media == right.media
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(keyID)
        hasher.combine(trackKeyID)
        hasher.combine(media)
    }
}
