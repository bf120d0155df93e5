// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// What a license says, as values. Dates are seconds since 1970, durations are seconds.
///
/// Whether it may be used now is decided by the key system (`PlayReadyPolicy`). See `XMRObject` for the sources of the
/// layout. A value; prints without keys.
public struct XMRTerms: Hashable, Sendable {
    /// The output protection levels, each for one kind of output: 0 allows all, larger numbers ask for more protection.
    /// Microsoft's "Output Protection Levels" has the ranges.
    public struct OutputLevels: Hashable, Sendable {
        /// 400 or 500. No level lets compressed video out.
        public var compressedDigitalVideo: UInt16
        /// 100, 250, 270 or 300, for HDMI and DisplayPort. From 271 on HDCP is required.
        public var uncompressedDigitalVideo: UInt16
        /// 100, 150 or 200, for component and composite outputs.
        public var analogVideo: UInt16
        /// 100, 150, 200, 250 or 300.
        public var compressedDigitalAudio: UInt16
        /// 100, 150, 200, 250 or 300.
        public var uncompressedDigitalAudio: UInt16

        /// Takes any number; the policy goes by ranges.
        public init(
            compressedDigitalVideo: UInt16 = 0, uncompressedDigitalVideo: UInt16 = 0, analogVideo: UInt16 = 0,
            compressedDigitalAudio: UInt16 = 0, uncompressedDigitalAudio: UInt16 = 0
        ) {
            self.compressedDigitalVideo = compressedDigitalVideo
            self.uncompressedDigitalVideo = uncompressedDigitalVideo
            self.analogVideo = analogVideo
            self.compressedDigitalAudio = compressedDigitalAudio
            self.uncompressedDigitalAudio = uncompressedDigitalAudio
        }
    }

    /// An output protection that is named by a GUID, with data that the name defines.
    public struct ExplicitProtection: Hashable, Sendable {
        /// Names the protection; read in GUID order.
        public var id: GUID
        /// As `id` defines it: a resolution, a bit field, or nothing.
        public var data: [UInt8]

        /// Any length of `data` can be written.
        public init(_ id: GUID, data: [UInt8] = []) {
            self.id = id
            self.data = data
        }
    }

    /// The domain whose key the content key is wrapped for, in place of the device's own.
    public struct Domain: Hashable, Sendable {
        /// Whose domain it is; the same as in the certificate of the domain.
        public var accountID: GUID
        /// Of the domain's key: the device needs this one, not the newest.
        public var revision: UInt32

        /// Takes the values as they are.
        public init(accountID: GUID, revision: UInt32) {
            self.accountID = accountID
            self.revision = revision
        }
    }

    /// The wrapped content key.
    public struct WrappedKey: Hashable, Sendable {
        /// Read in GUID order. Names the content's key, whatever stands in the request.
        public var keyID: KeyID
        /// Which cipher the content key is for.
        public var type: KeyType
        /// Which kind of key opens `data`.
        public var cipher: KeyCipher
        /// 128 bytes with `ecc256`: two points of P-256, as ElGamal makes them. Useless without the private key.
        public var data: [UInt8]

        /// The length of `data` is not checked here.
        public init(keyID: KeyID, type: KeyType = .aesCTR, cipher: KeyCipher = .ecc256, data: [UInt8]) {
            self.keyID = keyID
            self.type = type
            self.cipher = cipher
            self.data = data
        }
    }

    /// Names the root license of a chained one.
    public struct Uplink: Hashable, Sendable {
        /// The KID of the root license, whose content key opens this license.
        public var keyID: KeyID
        /// Nothing is known of its values; 0 where Latchkey writes it.
        public var checksumType: UInt16
        /// Kept as it came and not checked; empty for none.
        public var checksum: [UInt8]

        /// Without a checksum unless one is given.
        public init(keyID: KeyID, checksumType: UInt16 = 0, checksum: [UInt8] = []) {
            self.keyID = keyID
            self.checksumType = checksumType
            self.checksum = checksum
        }
    }

    /// A key that a scalable root license has for its leaves.
    public struct AuxiliaryKey: Hashable, Sendable {
        /// Number of the key, by which a leaf names it (`XMRObject.Kind.uplinkKeyIDs`).
        public var location: UInt32
        /// 16 bytes. Keys of leaves are derived with it and with the root license's content key.
        public var key: [UInt8]

        /// `key` has to have 16 bytes; a license with another length cannot be read again.
        public init(location: UInt32, key: [UInt8]) {
            self.location = location
            self.key = key
        }
    }

    // Time
    /// Seconds since 1970: no use before. Nil for no limit.
    public var begin: UInt32?
    /// Seconds since 1970: no use from then on. Nil for no limit.
    public var end: UInt32?
    /// Seconds since 1970, by the server's clock.
    public var issueDate: UInt32?
    /// Seconds since 1970: from then on a store may delete the license.
    public var removalDate: UInt32?
    /// In seconds; where it starts is a rule of the policy (`PlayReadyPolicy`).
    public var gracePeriod: UInt32?
    /// Seconds from the first playback with this license on.
    public var expirationAfterFirstPlay: UInt32?
    /// Seconds from the first use of any kind on.
    public var expirationAfterFirstUse: UInt32?
    /// Seconds from the time on when the license was stored.
    public var expirationAfterFirstStore: UInt32?
    /// The end also stops what is being played.
    public var hasRealTimeExpiration = false

    // Other rights
    /// 150, 2000 or 3000: devices below it may not use the license.
    public var minimumSecurityLevel: UInt16?
    /// Bits; `cannotPersist` is the one that is known.
    public var settings: UInt16?
    /// Whether the license may be put into the content; nothing is done with it.
    public var embeddingBehavior: UInt16?
    /// Number of the oldest revocation lists that the device may have.
    public var revocationInformationVersion: UInt32?
    /// Where the content was imported from. A policy may take certain sources only.
    public var sourceID: UInt32?
    /// Nil for a license that is bound to a device.
    public var domain: Domain?
    /// Of the metering service that wants to know of playback. A client that cannot meter refuses the license.
    public var meteringID: GUID?
    /// Of the service that wants to know when playback ends. A client that cannot report that refuses the license.
    public var secureStopID: GUID?
    /// In order. Data that a service hands on to its application; no rule of Latchkey's.
    public var policyMetadata: [ExplicitProtection] = []

    // Playback and outputs
    /// Whether there is a playback policy. A license without one gives no right to play.
    public var allowsPlayback = false
    /// Nil where the license sets none, which allows every output.
    public var outputLevels: OutputLevels?
    /// For analog outputs, in order.
    public var analogProtections: [ExplicitProtection] = []
    /// For digital video outputs, in order.
    public var digitalVideoProtections: [ExplicitProtection] = []
    /// For digital audio outputs, in order.
    public var digitalAudioProtections: [ExplicitProtection] = []
    /// Kinds of output that may be played to although their protection is not known.
    public var playEnablers: [GUID] = []

    // Keys
    /// Nil for a license without a key.
    public var key: WrappedKey?
    /// The public key (x and y, 64 bytes) whose private half opens the content key: the device's or a domain's.
    public var boundKey: [UInt8]?
    /// Nil for a license that is not chained.
    public var uplink: Uplink?
    /// Of a scalable root license; empty for others.
    public var auxiliaryKeys: [AuxiliaryKey] = []

    /// No limit, and no right either: `allowsPlayback` is false.
    public init() {}

    /// For the session alone: not to be stored.
    public var cannotPersist: Bool {
        get { (settings ?? 0) & 1 != 0 }
        set { settings = newValue ? (settings ?? 0) | 1 : settings.map { $0 & ~1 } }
    }
}

extension XMRTerms {
    /// What the key is for.
    public enum KeyType: UInt16, Sendable {
        /// Content in AES-128 counter mode: `cenc` and `cens`.
        case aesCTR = 1
        /// Content in Microsoft's older cipher, which is not decrypted here.
        case cocktail = 4
        /// Content in AES-128 with chained blocks: `cbcs` and `cbc1`.
        case aesCBC = 5
        /// No content: the key of a root license, for its leaves.
        case keyExchange = 6
    }

    /// How the key is wrapped.
    public enum KeyCipher: UInt16, Sendable {
        /// With RSA of 1024 bits, as the oldest clients had it; not opened here.
        case rsa1024 = 1
        /// With the content key of a root license.
        case chained = 2
        /// ElGamal on P-256 with the device's or the domain's key.
        case ecc256 = 3
        /// As `ecc256`, with another layout of the key; not opened here.
        case ecc256WithKZ = 4
        /// For a trusted execution environment alone; not opened here.
        case trustedExecution = 5
        /// With the content key of a scalable root license.
        case ecc256Symmetric = 6
    }
}

extension XMRTerms: Redacted {
    /// The KID alone, never the key.
    public var description: String { "terms for KID \(key?.keyID.description ?? "?")" }
}

extension XMRTerms {
    /// The end that stands for none.
    package static let noEnd: UInt32 = 0xFFFF_FFFF

    /// Reads the objects of a license.
    ///
    /// Throws `unsupported` for an object that has to be understood and is not known, also where a container is known but
    /// stands at another place, `duplicate` for one that comes twice and may not, `truncated` and `malformed` for a body
    /// that is not laid out as the table has it. Objects that need not be understood are left out.
    public init(_ license: XMRLicense) throws(FormatError) {
        var seen: Set<XMRObject.Kind> = []
        try Self.checkRepeats(in: license.outer, &seen)
        try readContainer(license.outer) { terms, object throws(FormatError) in
            switch object.type {
            case .globalPolicy:
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readGlobal(object) }
            case .playbackPolicy:
                terms.allowsPlayback = true
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readPlayback(object) }
            case .keyMaterial:
                try terms.readContainer(object) { terms, object throws(FormatError) in try terms.readKey(object) }
            case .signature: return true
            // Some servers put policies next to the containers.
            default: return try terms.readGlobal(object)
            }
            return true
        }
    }

    /// Two objects of one type could contradict each other, even in different containers.
    private static func checkRepeats(
        in container: XMRObject, _ seen: inout Set<XMRObject.Kind>
    ) throws(FormatError) {
        for object in container.objects {
            if object.type.name != nil, !object.type.mayRepeat, !seen.insert(object.type).inserted {
                throw .duplicate("the license has two objects \(object.type)")
            }
            try checkRepeats(in: object, &seen)
        }
    }

    /// Gives each object of a container to `read`, which says whether it knows it.
    private mutating func readContainer(
        _ container: XMRObject, _ read: (inout XMRTerms, XMRObject) throws(FormatError) -> Bool
    ) throws(FormatError) {
        for object in container.objects {
            let isKnown = try read(&self, object)
            if !isKnown, object.flags.contains(.mustUnderstand), !object.type.onlyAllowsMore {
                throw .unsupported("the license has an object \(object.type) that has to be understood")
            }
        }
    }

    private mutating func readGlobal(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .expiration:
            (begin, end) = (try body.readUInt32(), try body.readUInt32())
            if end == Self.noEnd { end = nil }
        case .issueDate: issueDate = try body.readUInt32()
        case .removalDate: removalDate = try body.readUInt32()
        case .gracePeriod: gracePeriod = try body.readUInt32()
        case .expirationAfterFirstPlay: expirationAfterFirstPlay = try body.readUInt32()
        case .expirationAfterFirstUse: expirationAfterFirstUse = try body.readUInt32()
        case .expirationAfterFirstStore: expirationAfterFirstStore = try body.readUInt32()
        case .realTimeExpiration: hasRealTimeExpiration = true
        case .securityLevel: minimumSecurityLevel = try body.readUInt16()
        case .rightsSettings: settings = try body.readUInt16()
        case .embeddingBehavior: embeddingBehavior = try body.readUInt16()
        case .revocationInformationVersion: revocationInformationVersion = try body.readUInt32()
        case .sourceID: sourceID = try body.readUInt32()
        case .domain: domain = Domain(accountID: try body.readGUID(), revision: try body.readUInt32())
        case .meteringID: meteringID = try body.readGUID()
        case .secureStopID: secureStopID = try body.readGUID()
        case .policyMetadata: policyMetadata.append(try ExplicitProtection(reading: &body))
        default: return false
        }
        return try end(of: body)
    }

    private mutating func readPlayback(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .outputLevels:
            outputLevels = OutputLevels(
                compressedDigitalVideo: try body.readUInt16(), uncompressedDigitalVideo: try body.readUInt16(),
                analogVideo: try body.readUInt16(), compressedDigitalAudio: try body.readUInt16(),
                uncompressedDigitalAudio: try body.readUInt16())
        case .explicitAnalogProtections:
            analogProtections += try protections(in: object, .explicitAnalogProtection)
        case .explicitDigitalVideoProtections:
            digitalVideoProtections += try protections(in: object, .explicitDigitalVideoProtection)
        case .explicitDigitalAudioProtections:
            digitalAudioProtections += try protections(in: object, .explicitDigitalAudioProtection)
        case .playEnablers:
            playEnablers += try items(in: object, .playEnabler) { body throws(FormatError) in try body.readGUID() }
        // Limits of time may stand here as well as in the global policy.
        default: return try readGlobal(object)
        }
        return try end(of: body)
    }

    private mutating func readKey(_ object: XMRObject) throws(FormatError) -> Bool {
        var body = ByteReader(object.data, structure: "XMR \(object.type)")
        switch object.type {
        case .contentKey: key = try WrappedKey(reading: &body)
        case .eccKey:
            let (curve, length) = (try body.readUInt16(), try body.readUInt16())
            guard curve == 1, length == 64 else { throw .unsupported("\(body.place): curve \(curve), \(length) bytes") }
            boundKey = Array(try body.readBytes(64))
        case .uplinkKeyID: uplink = try Uplink(reading: &body)
        case .auxiliaryKeys:
            for _ in 0..<(try body.readUInt16()) {
                let location = try body.readUInt32()
                auxiliaryKeys.append(AuxiliaryKey(location: location, key: Array(try body.readBytes(16))))
            }
        // How these are applied is not public.
        case .uplinkKeyIDs: return false
        default: return false
        }
        return try end(of: body)
    }

    private func protections(in object: XMRObject, _ kind: XMRObject.Kind) throws(FormatError) -> [ExplicitProtection] {
        try items(in: object, kind) { body throws(FormatError) in try ExplicitProtection(reading: &body) }
    }

    private func items<Item>(
        in container: XMRObject, _ kind: XMRObject.Kind, _ read: (inout ByteReader) throws(FormatError) -> Item
    ) throws(FormatError) -> [Item] {
        var items: [Item] = []
        for object in container.objects {
            guard object.type == kind else {
                guard !object.flags.contains(.mustUnderstand) else {
                    throw .unsupported("the license has an object \(object.type) that has to be understood")
                }
                continue
            }
            var body = ByteReader(object.data, structure: "XMR \(kind)")
            items.append(try read(&body))
        }
        return items
    }

    /// Bytes behind what the table has might change the meaning.
    private func end(of body: ByteReader) throws(FormatError) -> Bool {
        let isRead = body.isAtEnd || body.offset == 0
        guard isRead else { throw .malformed("\(body.place): bytes behind the object") }
        return true
    }
}

extension XMRTerms.ExplicitProtection {
    init(reading body: inout ByteReader) throws(FormatError) {
        self.init(try body.readGUID())
        data = Array(body.rest)
        try body.skip(body.remaining)
    }
}

extension XMRTerms.WrappedKey {
    init(reading body: inout ByteReader) throws(FormatError) {
        guard let keyID = KeyID(guidOrder: try body.readBytes(16)) else { throw .malformed(body.place) }
        let (type, cipher) = (try body.readUInt16(), try body.readUInt16())
        guard let type = XMRTerms.KeyType(rawValue: type), let cipher = XMRTerms.KeyCipher(rawValue: cipher) else {
            throw .unsupported("\(body.place): key of type \(type), wrapped in way \(cipher)")
        }
        self.init(keyID: keyID, type: type, cipher: cipher, data: [])
        data = Array(try body.readBytes(try body.readUInt16()))
    }
}

extension XMRTerms.Uplink {
    init(reading body: inout ByteReader) throws(FormatError) {
        guard let keyID = KeyID(guidOrder: try body.readBytes(16)) else { throw .malformed(body.place) }
        self.init(keyID: keyID, checksumType: try body.readUInt16())
        checksum = Array(try body.readBytes(try body.readUInt16()))
    }
}

extension XMRObject.Kind {
    /// Whether a license may hold more than one of these.
    fileprivate var mayRepeat: Bool {
        switch self {
        case .policyMetadata, .playEnabler, .explicitAnalogProtection, .explicitDigitalVideoProtection,
            .explicitDigitalAudioProtection:
            true
        default: false
        }
    }
}

extension ByteReader {
    /// 16 bytes in GUID order.
    mutating func readGUID() throws(FormatError) -> GUID {
        guard let guid = GUID(guidOrder: try readBytes(16)) else { throw .malformed(place) }
        return guid
    }
}
