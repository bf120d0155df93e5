// SPDX-License-Identifier: MPL-2.0

/// A certificate of PlayReady's own format: a public key or more, what they may do, and the signature of the issuer.
///
/// ```
/// "CERT", UInt32 version, UInt32 length, UInt32 signed length, then objects, the signature last
/// ```
///
/// The signature covers the first `signed length` bytes. See `BCertObject` for the source. Reading checks the layout;
/// trust is a matter of the key system. A value; thread-safe.
public struct BCert: Hashable, Sendable {
    static let magic = Array("CERT".utf8)
    static let headerSize = 16
    static let signatureSize = 144

    /// What kind of thing a certificate stands for.
    public enum Kind: UInt32, Sendable {
        case pc = 1
        case device = 2
        case domain = 3
        case issuer = 4
        case revocationListSigner = 5
        case service = 6
        case silverlight = 7
        case application = 8
        case metering = 9
        case keyFileSigner = 0xA
        case server = 0xB
        case licenseSigner = 0xC
        case secureTimeServer = 0xD
    }

    /// What a key may be used for.
    public enum Usage: UInt32, Sendable {
        case sign = 1
        case encryptKey = 2
        case signRevocationList = 3
        case issuerDevice = 6
        case issuerDomain = 8
        case issuerMetering = 0xC
        case issuerServer = 0xF
        case issuerSignLicense = 0x12
        case signLicense = 0x13
        case signResponse = 0x14
        case sampleProtection = 0x16
        case issuerSecureTime = 0x17
    }

    /// A P-256 key, x and y in 64 bytes.
    public struct Key: Hashable, Sendable {
        public var publicKey: [UInt8]
        public var flags: UInt32
        /// By number, known or not.
        public var usages: [UInt32]

        public init(_ publicKey: [UInt8], usages: [Usage], flags: UInt32 = 0) {
            self.publicKey = publicKey
            self.flags = flags
            self.usages = usages.map(\.rawValue)
        }

        public func allows(_ usage: Usage) -> Bool { usages.contains(usage.rawValue) }
    }

    public struct Basic: Hashable, Sendable {
        public static let noExpiry: UInt32 = 0xFFFF_FFFF

        public var id: [UInt8]
        public var securityLevel: UInt32
        public var flags: UInt32
        public var kind: UInt32
        /// SHA-256 of the public key, for a leaf that of its signing key.
        public var keyDigest: [UInt8]
        /// Seconds since 1970; `noExpiry` for none.
        public var expiry: UInt32
        public var clientID: [UInt8]

        public init(
            id: [UInt8], securityLevel: UInt32, kind: Kind, keyDigest: [UInt8], expiry: UInt32 = noExpiry,
            clientID: [UInt8] = [UInt8](repeating: 0, count: 16), flags: UInt32 = 0
        ) {
            self.id = id
            self.securityLevel = securityLevel
            self.flags = flags
            self.kind = kind.rawValue
            self.keyDigest = keyDigest
            self.expiry = expiry
            self.clientID = clientID
        }
    }

    /// The signature of the issuer, r and s in 64 bytes, and the issuer's public key.
    public struct Signature: Hashable, Sendable {
        public var value: [UInt8]
        public var issuerKey: [UInt8]

        public init(value: [UInt8], issuerKey: [UInt8]) {
            self.value = value
            self.issuerKey = issuerKey
        }
    }

    /// In order, the signature included.
    public let objects: [BCertObject]
    public let basic: Basic
    /// Empty where the certificate has none.
    public let keys: [Key]
    public let signature: Signature
    /// By number; see `Feature`.
    public let features: [UInt32]
    /// The whole certificate, exactly as it came.
    public let bytes: [UInt8]
    private let signedSize: Int

    /// Those that the signature covers.
    public var signedBytes: ArraySlice<UInt8> { bytes.prefix(signedSize) }

    /// The first key that may be used for `usage`.
    public func key(for usage: Usage) -> [UInt8]? { keys.first { $0.allows(usage) }?.publicKey }

    /// A feature that a device declares.
    public enum Feature: UInt32, Sendable {
        case transmitter = 1
        case receiver = 2
        case sharedCertificate = 3
        case secureClock = 4
        case antiRollbackClock = 5
        case revocationLists = 9
        case playReady3 = 0xD
    }

    public func has(_ feature: Feature) -> Bool { features.contains(feature.rawValue) }
}

extension BCert {
    /// Reads the certificate at the cursor.
    ///
    /// Throws `truncated` and `malformed` for a broken layout, `duplicate` for an object that may come once, and
    /// `unsupported` for another version, another kind of key, and objects that have to be understood and are not known.
    init(reading reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        let rest = reader.rest
        guard try reader.readBytes(4).elementsEqual(Self.magic) else { throw .malformed("\(place): no certificate") }
        let version = try reader.readUInt32()
        guard version == 1 else { throw .unsupported("\(place): certificate of version \(version)") }
        let (length, signedLength) = (try reader.readUInt32(), try reader.readUInt32())
        guard length >= Self.headerSize, signedLength >= Self.headerSize, signedLength <= length else {
            throw .malformed("\(place): lengths \(length) and \(signedLength)")
        }
        var body = ByteReader(try reader.readBytes(length - 16), structure: "certificate")
        var objects: [BCertObject] = []
        var signatureOffset: Int?
        while !body.isAtEnd {
            let offset = body.offset + Self.headerSize
            let object = try BCertObject(reading: &body)
            guard object.isUnderstood || object.flags & BCertObject.mustUnderstand == 0 else {
                throw .unsupported("certificate object \(object.tag.rawValue) that has to be understood")
            }
            guard signatureOffset == nil else {
                throw .malformed("certificate: the signature has to be the last object")
            }
            if object.tag == .signature { signatureOffset = offset }
            objects.append(object)
        }
        guard signatureOffset == Int(signedLength) else {
            throw .malformed("certificate: the signed length does not end where the signature starts")
        }
        self.objects = objects
        bytes = Array(rest.prefix(Int(length)))
        signedSize = Int(signedLength)
        func object(_ tag: BCertObject.Tag) throws(FormatError) -> ByteReader? {
            let matches = objects.filter { $0.tag == tag }
            guard matches.count <= 1 else { throw .duplicate("certificate: two objects \(tag.rawValue)") }
            return matches.first.map { ByteReader($0.body, structure: "certificate object \(tag.rawValue)") }
        }
        guard var basic = try object(.basic), var signature = try object(.signature) else {
            throw .malformed("certificate: no basic information")
        }
        self.basic = try Basic(reading: &basic)
        self.signature = try Signature(reading: &signature)
        var keys: [Key] = []
        if var list = try object(.keys) {
            for _ in 0..<(try list.readUInt32()) { keys.append(try Key(reading: &list)) }
        }
        self.keys = keys
        var features: [UInt32] = []
        if var list = try object(.features) {
            for _ in 0..<(try list.readUInt32()) { features.append(try list.readUInt32()) }
        }
        self.features = features
    }

    /// A certificate of these objects (without a signature), signed by the owner of `issuerKey`.
    ///
    /// `sign` is given the signed bytes and returns r and s in 64 bytes. Throws what `sign` throws, and the errors of
    /// reading where the objects make no certificate.
    public static func make(
        objects: [BCertObject], issuerKey: [UInt8], sign: ([UInt8]) throws -> [UInt8]
    ) throws -> BCert {
        let body = objects.flatMap(\.serialized)
        let signedSize = headerSize + body.count
        var head = magic + bigEndian(UInt32(1))
        head += bigEndian(UInt32(clamping: signedSize + signatureSize)) + bigEndian(UInt32(clamping: signedSize))
        let signature = Signature(value: try sign(head + body), issuerKey: issuerKey)
        var reader = ByteReader(head + body + signature.object.serialized, structure: "new certificate")
        return try BCert(reading: &reader)
    }
}
