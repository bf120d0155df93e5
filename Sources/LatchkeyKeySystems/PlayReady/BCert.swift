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
        /// A license service.
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
        /// Signs licenses and the answers that carry them.
        case licenseSigner = 0xC
        /// A service that clocks are set from.
        case secureTimeServer = 0xD
    }

    /// What a key may be used for.
    public enum Usage: UInt32, Sendable {
        /// Signs challenges, as a device does.
        case sign = 1
        /// Keys are encrypted to it: licenses to that of a device or a domain.
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
        /// Issues certificates that sign licenses.
        case issuerSignLicense = 0x12
        /// Signs licenses.
        case signLicense = 0x13
        /// Signs the answers of a license service.
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
        /// 150, 2000 or 3000; no higher than the issuer's. A license asks for a least one.
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

extension BCert.Basic {
    init(reading body: inout ByteReader) throws(FormatError) {
        id = Array(try body.readBytes(16))
        securityLevel = try body.readUInt32()
        flags = try body.readUInt32()
        kind = try body.readUInt32()
        keyDigest = Array(try body.readBytes(32))
        expiry = try body.readUInt32()
        clientID = Array(try body.readBytes(16))
    }

    /// The object of this information: 88 bytes with its header.
    public var object: BCertObject {
        var body = id + bigEndian(securityLevel)
        body += bigEndian(flags) + bigEndian(kind)
        body += keyDigest + bigEndian(expiry) + clientID
        return BCertObject(.basic, body)
    }
}

extension BCert.Key {
    private static let bits: UInt16 = 512

    init(reading body: inout ByteReader) throws(FormatError) {
        let place = body.place
        let (type, bits) = (try body.readUInt16(), try body.readUInt16())
        guard type == 1, bits == Self.bits else { throw .unsupported("\(place): key of type \(type), \(bits) bits") }
        flags = try body.readUInt32()
        publicKey = Array(try body.readBytes(64))
        usages = []
        for _ in 0..<(try body.readUInt32()) { usages.append(try body.readUInt32()) }
    }

    /// The one object that holds all keys of a certificate.
    public static func object(_ keys: [BCert.Key]) -> BCertObject {
        var body = bigEndian(UInt32(clamping: keys.count))
        for key in keys {
            body += bigEndian(UInt16(1)) + bigEndian(bits)
            body += bigEndian(key.flags) + key.publicKey
            body += bigEndian(UInt32(clamping: key.usages.count))
            for usage in key.usages { body += bigEndian(usage) }
        }
        return BCertObject(.keys, body)
    }
}

extension BCert.Signature {
    init(reading body: inout ByteReader) throws(FormatError) {
        let place = body.place
        let (type, size) = (try body.readUInt16(), try body.readUInt16())
        guard type == 1, size == 64 else { throw .unsupported("\(place): signature of type \(type), \(size) bytes") }
        value = Array(try body.readBytes(64))
        let bits = try body.readUInt32()
        guard bits == 512 else { throw .unsupported("\(place): issuer key of \(bits) bits") }
        issuerKey = Array(try body.readBytes(64))
        guard body.isAtEnd else { throw .malformed("\(body.place): bytes behind the signature") }
    }

    var object: BCertObject {
        var body = bigEndian(UInt16(1)) + bigEndian(UInt16(64))
        body += value + bigEndian(UInt32(512)) + issuerKey
        return BCertObject(.signature, body)
    }
}

extension BCert {
    /// What a device says of the licenses that it can take: three sizes.
    public static func deviceObject(
        maximumLicenseSize: UInt32 = 10240, maximumHeaderSize: UInt32 = 15360, maximumChainDepth: UInt32 = 2
    ) -> BCertObject {
        BCertObject(
            .device, bigEndian(maximumLicenseSize) + bigEndian(maximumHeaderSize) + bigEndian(maximumChainDepth))
    }

    /// What a device can do, as a count of 32 bits and 32 bits for each feature.
    public static func featuresObject(_ features: [Feature]) -> BCertObject {
        BCertObject(
            .features, bigEndian(UInt32(clamping: features.count)) + features.flatMap { bigEndian($0.rawValue) })
    }

    /// Who made the thing: three texts in UTF-8.
    public static func manufacturerObject(name: String, model: String, number: String) -> BCertObject {
        let texts = [name, model, number].flatMap { text in
            let bytes = Array(text.utf8)
            let padding = [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
            return bigEndian(UInt32(clamping: bytes.count)) + bytes + padding
        }
        return BCertObject(.manufacturer, bigEndian(UInt32(0)) + texts)
    }

    /// Which domain a domain certificate stands for.
    public struct Domain: Hashable, Sendable {
        /// The DS_ID of the domain service, as headers name it.
        public var serviceID: GUID
        /// Whose domain it is: the id that licenses are bound to.
        public var accountID: GUID
        /// Counts up with each new key of the domain.
        public var revision: UInt32
        /// Of the domain service, in UTF-8; zeros at its end are dropped.
        public var url: String

        /// Takes the values as they are.
        public init(serviceID: GUID, accountID: GUID, revision: UInt32, url: String) {
            self.serviceID = serviceID
            self.accountID = accountID
            self.revision = revision
            self.url = url
        }

        /// Both ids in GUID order, then revision, length of the URL and the URL, padded with zeros to four bytes.
        public var object: BCertObject {
            let text = Array(url.utf8)
            let padding = [UInt8](repeating: 0, count: (4 - text.count % 4) % 4)
            var body = serviceID.guidOrderBytes + accountID.guidOrderBytes
            body += bigEndian(revision) + bigEndian(UInt32(clamping: text.count))
            return BCertObject(.domain, body + text + padding)
        }
    }

    /// What the certificate of a domain says of it. Nil for another certificate. Throws `truncated` where the object
    /// ends early.
    public func domain() throws(FormatError) -> Domain? {
        guard let object = objects.first(where: { $0.tag == .domain }) else { return nil }
        var body = ByteReader(object.body, structure: "domain of a certificate")
        var domain = Domain(
            serviceID: try body.readGUID(), accountID: try body.readGUID(), revision: try body.readUInt32(), url: "")
        let text = try body.readBytes(try body.readUInt32())
        domain.url = String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
        return domain
    }
}

/// One object of a certificate.
///
/// ```
/// UInt16 flags, UInt16 tag, UInt32 length (this header of 8 bytes included), body
/// ```
///
/// All integers are big-endian. The layout follows open implementations of the client (playready-rs, MIT).
public struct BCertObject: Hashable, Sendable {
    /// What an object is. A number that is not known is kept.
    public struct Tag: RawRepresentable, Hashable, Sendable {
        /// 16 bits of the header, big-endian.
        public var rawValue: UInt16
        /// Takes any number.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// `BCert.Basic`. Each certificate has one.
        public static let basic = Tag(rawValue: 1)
        /// `BCert.Domain`, in the certificate of a domain.
        public static let domain = Tag(rawValue: 2)
        /// Of a player on a general computer; its body is not read.
        public static let pc = Tag(rawValue: 3)
        /// Three sizes; see `BCert.deviceObject`.
        public static let device = Tag(rawValue: 4)
        /// `BCert.Feature`, counted.
        public static let features = Tag(rawValue: 5)
        /// `BCert.Key`, counted.
        public static let keys = Tag(rawValue: 6)
        /// Texts on the manufacturer; see `BCert.manufacturerObject`.
        public static let manufacturer = Tag(rawValue: 7)
        /// `BCert.Signature`. The last object, and not among the signed bytes.
        public static let signature = Tag(rawValue: 8)
        /// Id and URL of a metering service; its body is not read.
        public static let metering = Tag(rawValue: 0xA)
        /// How many days ahead a server certificate warns of its end; its body is not read.
        public static let server = Tag(rawValue: 0xF)
        /// A version of the client's security; its body is not read.
        public static let securityVersion = Tag(rawValue: 0x10)
        /// Another form of `securityVersion`; its body is not read.
        public static let securityVersion2 = Tag(rawValue: 0x11)
    }

    /// Bit 0 of the flags: a reader that does not know the tag has to refuse the certificate.
    public static let mustUnderstand: UInt16 = 1

    /// `mustUnderstand`, and bits that nothing is known of.
    public var flags: UInt16
    /// 16 bits.
    public var tag: Tag
    /// What stands behind the header of 8 bytes.
    public var body: [UInt8]

    /// The length in the header is made when the object is written.
    public init(_ tag: Tag, _ body: [UInt8], flags: UInt16 = mustUnderstand) {
        self.tag = tag
        self.body = body
        self.flags = flags
    }

    /// Header and body. No padding follows.
    public var serialized: [UInt8] {
        bigEndian(flags) + bigEndian(tag.rawValue) + bigEndian(UInt32(clamping: body.count + 8)) + body
    }

    init(reading reader: inout ByteReader) throws(FormatError) {
        let place = reader.place
        flags = try reader.readUInt16()
        tag = Tag(rawValue: try reader.readUInt16())
        let length = try reader.readUInt32()
        guard length >= 8 else { throw .malformed("\(place): object of \(length) bytes") }
        body = Array(try reader.readBytes(length - 8))
    }

    /// Tags whose meaning is known, or that do not matter for the check of a chain. Extended data, `B` to `E`,
    /// describes hardware.
    var isUnderstood: Bool { (1...0xF).contains(tag.rawValue) || tag == .securityVersion || tag == .securityVersion2 }
}
