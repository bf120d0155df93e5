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
        try reader.skip(1)
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
