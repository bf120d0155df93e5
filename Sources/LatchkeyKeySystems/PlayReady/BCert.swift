// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

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
        /// A player on a general computer.
        case pc = 1
        /// A device, also one that was made locally under a model.
        case device = 2
        /// A domain: its key is shared by the devices that joined.
        case domain = 3
        /// Signs other certificates and does nothing else.
        case issuer = 4
        /// Signs lists of revoked certificates.
        case revocationListSigner = 5
        /// A licence service.
        case service = 6
        /// Of a browser plug-in of Microsoft; Latchkey does not rely on it.
        case silverlight = 7
        /// A single application; Latchkey does not rely on it.
        case application = 8
        /// A metering service.
        case metering = 9
        /// Signs files with keys for devices.
        case keyFileSigner = 0xA
        /// A server, as that of domains; its issuer has `issuerServer`.
        case server = 0xB
        /// Signs licences and the answers that carry them.
        case licenseSigner = 0xC
        /// A service that clocks are set from.
        case secureTimeServer = 0xD
    }

    /// What a key may be used for.
    public enum Usage: UInt32, Sendable {
        /// Signs challenges, as a device does.
        case sign = 1
        /// Keys are encrypted to it: licences to that of a device or a domain.
        case encryptKey = 2
        /// Signs lists of revoked certificates.
        case signRevocationList = 3
        /// Issues certificates of devices.
        case issuerDevice = 6
        /// Issues certificates of domains.
        case issuerDomain = 8
        /// Issues certificates of metering services.
        case issuerMetering = 0xC
        /// Issues certificates of servers and services.
        case issuerServer = 0xF
        /// Issues certificates that sign licences.
        case issuerSignLicense = 0x12
        /// Signs licences.
        case signLicense = 0x13
        /// Signs the answers of a licence service.
        case signResponse = 0x14
        /// Protects samples on their way to a decoder.
        case sampleProtection = 0x16
        /// Issues certificates of secure time services.
        case issuerSecureTime = 0x17
    }

    /// A P-256 key, x and y in 64 bytes.
    public struct Key: Hashable, Sendable {
        /// x and y, each of 32 bytes, big-endian.
        public var publicKey: [UInt8]
        /// Nothing is known of them; 0 where Latchkey writes them.
        public var flags: UInt32
        /// By number, known or not.
        public var usages: [UInt32]

        /// `publicKey` has to have 64 bytes; a certificate with another length cannot be read again.
        public init(_ publicKey: [UInt8], usages: [Usage], flags: UInt32 = 0) {
            self.publicKey = publicKey
            self.flags = flags
            self.usages = usages.map(\.rawValue)
        }

        /// Whether the issuer says so. Says nothing about whether the issuer may.
        public func allows(_ usage: Usage) -> Bool { usages.contains(usage.rawValue) }
    }

    /// What every certificate says of itself; 80 bytes behind the object's header.
    public struct Basic: Hashable, Sendable {
        /// The `expiry` of a certificate that does not expire.
        public static let noExpiry: UInt32 = 0xFFFF_FFFF

        /// 16 bytes, random; names the certificate.
        public var id: [UInt8]
        /// 150, 2000 or 3000; no higher than the issuer's. A licence asks for a least one.
        public var securityLevel: UInt32
        /// 1 where the certificate has extended data (tags B to E). 0 where Latchkey writes it.
        public var flags: UInt32
        /// By number; see `Kind`.
        public var kind: UInt32
        /// SHA-256 of the public key, for a leaf that of its signing key.
        public var keyDigest: [UInt8]
        /// Seconds since 1970; `noExpiry` for none.
        public var expiry: UInt32
        /// 16 bytes. Names the device that a leaf stands for; may be zeros.
        public var clientID: [UInt8]

        /// Lengths are not checked here; reading the certificate back, as `make` does, finds wrong ones.
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
        /// r and s, each of 32 bytes: ECDSA with P-256 and SHA-256 over `signedBytes`.
        public var value: [UInt8]
        /// x and y of the issuer's public key in 64 bytes. Trust needs more than that it is named here.
        public var issuerKey: [UInt8]

        /// Both have 64 bytes; not checked here.
        public init(value: [UInt8], issuerKey: [UInt8]) {
            self.value = value
            self.issuerKey = issuerKey
        }
    }

    /// In order, the signature included.
    public let objects: [BCertObject]
    /// From the one object of this kind that a certificate has to have.
    public let basic: Basic
    /// Empty where the certificate has none.
    public let keys: [Key]
    /// Not verified by reading.
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
        /// Sends protected content on to other devices in the home.
        case transmitter = 1
        /// Receives content from a transmitter.
        case receiver = 2
        /// Many devices use this very certificate.
        case sharedCertificate = 3
        /// Has a clock that a secure time service sets.
        case secureClock = 4
        /// Has a clock that never goes back, from any source.
        case antiRollbackClock = 5
        /// Takes lists of revoked certificates.
        case revocationLists = 9
        /// Knows the rights of version 3 and later.
        case playReady3 = 0xD
    }

    /// Whether the certificate declares it. A device without a features object has none.
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
