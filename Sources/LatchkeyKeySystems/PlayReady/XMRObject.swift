// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import LatchkeyContainers

/// One object of a license, or a container of objects.
///
/// ```
/// UInt16 flags, UInt16 type, UInt32 length (this header of 8 bytes included), body
/// ```
///
/// All integers are big-endian. The layout follows open implementations of the client (playready-rs, MIT) and a license
/// that Microsoft's documentation prints.
public struct XMRObject: Hashable, Sendable {
    /// Bits that say how a reader treats the object.
    public struct Flags: OptionSet, Hashable, Sendable {
        /// 16 bits of the header, big-endian.
        public var rawValue: UInt16
        /// Takes any bits and keeps those that are not known.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// A reader that does not know the type has to refuse the license.
        public static let mustUnderstand = Flags(rawValue: 1)
        /// The body is made of objects. Written for readers that want it; here the type decides (`Kind.isContainer`).
        public static let container = Flags(rawValue: 2)
    }

    /// What stands behind the header of 8 bytes.
    public enum Body: Hashable, Sendable {
        /// The bytes of an object that is no container. May hold a wrapped key.
        case data([UInt8])
        /// In the order of the container.
        case objects([XMRObject])
    }

    /// How far containers may be nested.
    static let maximumDepth = 8
    static let headerSize = 8

    /// Known or not.
    public var type: Kind
    /// As they came. Those of a new object have to be understood unless the caller says otherwise.
    public var flags: Flags
    /// Should fit `Kind.isContainer`; an object where it does not is read back as something else.
    public var body: Body

    /// An object that is no container.
    package init(_ type: Kind, _ data: [UInt8], flags: Flags = .mustUnderstand) {
        self.type = type
        self.flags = flags
        body = .data(data)
    }

    /// A container.
    package init(_ type: Kind, flags: Flags = [.mustUnderstand, .container], _ objects: [XMRObject]) {
        self.type = type
        self.flags = flags
        body = .objects(objects)
    }

    /// Empty for an object that is no container.
    public var objects: [XMRObject] { if case .objects(let objects) = body { objects } else { [] } }

    /// Empty for a container.
    public var data: [UInt8] { if case .data(let data) = body { data } else { [] } }

    /// The first object of a type directly within.
    public func first(_ type: Kind) -> XMRObject? { objects.first { $0.type == type } }

    /// In bytes, with the header.
    public var size: Int {
        switch body {
        case .data(let data): Self.headerSize + data.count
        case .objects(let objects): objects.reduce(Self.headerSize) { $0 + $1.size }
        }
    }

    init(reading reader: inout ByteReader, depth: Int = 0) throws(FormatError) {
        let place = reader.place
        guard depth < Self.maximumDepth else { throw .tooLarge("\(place): containers within containers") }
        flags = Flags(rawValue: try reader.readUInt16())
        type = Kind(rawValue: try reader.readUInt16())
        let length = try reader.readUInt32()
        guard length >= Self.headerSize else { throw .malformed("\(place): XMR object of \(length) bytes") }
        guard let bodyLength = Int(exactly: length - 8) else { throw .truncated(place) }
        var content = try reader.readStructure(bodyLength, "XMR \(type)")
        guard type.isContainer else {
            body = .data(Array(content.rest))
            return
        }
        var objects: [XMRObject] = []
        while !content.isAtEnd { objects.append(try XMRObject(reading: &content, depth: depth + 1)) }
        body = .objects(objects)
    }
}

extension XMRObject: Redacted {
    /// Without the body, which may be a wrapped key.
    public var description: String { "\(type), \(size) bytes" }
    /// Type and size; the body may be a wrapped key.
    public var shown: KeyValuePairs<String, Any> { ["type": type, "size": size] }
}

extension XMRObject {
    /// What an object is.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        /// 16 bits of the header, big-endian.
        public var rawValue: UInt16
        /// Takes any number; a reader refuses or skips what it does not know, as the object's flags say.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        // Containers
        /// Holds everything else of a license.
        public static let outer = Kind(rawValue: 0x0001)
        /// Limits that hold for every use.
        public static let globalPolicy = Kind(rawValue: 0x0002)
        /// What holds for playback. That it is there is the right to play, even when it is empty.
        public static let playbackPolicy = Kind(rawValue: 0x0004)
        /// Holds `explicitAnalogProtection`.
        public static let explicitAnalogProtections = Kind(rawValue: 0x0007)
        /// Holds the content key, the key that it is wrapped for, and those of chains.
        public static let keyMaterial = Kind(rawValue: 0x0009)
        /// Holds `explicitDigitalAudioProtection`.
        public static let explicitDigitalAudioProtections = Kind(rawValue: 0x002E)
        /// Holds `playEnabler`.
        public static let playEnablers = Kind(rawValue: 0x0036)
        /// Holds `explicitDigitalVideoProtection`.
        public static let explicitDigitalVideoProtections = Kind(rawValue: 0x0058)

        // Time
        /// UInt32 begin, UInt32 end, in seconds since 1970; an end of FFFFFFFF is none.
        public static let expiration = Kind(rawValue: 0x0012)
        /// UInt32, seconds since 1970.
        public static let issueDate = Kind(rawValue: 0x0013)
        /// UInt32 seconds from the first use on.
        public static let expirationAfterFirstUse = Kind(rawValue: 0x0014)
        /// UInt32 seconds from the time on when the license was stored.
        public static let expirationAfterFirstStore = Kind(rawValue: 0x0015)
        /// UInt32 seconds.
        public static let gracePeriod = Kind(rawValue: 0x001A)
        /// UInt32 seconds from the first playback on.
        public static let expirationAfterFirstPlay = Kind(rawValue: 0x0030)
        /// UInt32, seconds since 1970: from then on a client may delete the license.
        public static let removalDate = Kind(rawValue: 0x0050)
        /// No body: an end of time also stops what is being played.
        public static let realTimeExpiration = Kind(rawValue: 0x0055)

        // Other rights
        /// UInt16 of bits; see `XMRTerms.settings`.
        public static let rightsSettings = Kind(rawValue: 0x000D)
        /// UInt8[16], in GUID order.
        public static let meteringID = Kind(rawValue: 0x0016)
        /// UInt32: where the content was imported from.
        public static let sourceID = Kind(rawValue: 0x0022)
        /// UInt8[16] account id in GUID order, UInt32 revision.
        public static let domain = Kind(rawValue: 0x0029)
        /// UInt8[16] GUID, then data that it defines. May come more than once.
        public static let policyMetadata = Kind(rawValue: 0x002C)
        /// UInt32: the oldest revocation lists that the client may have.
        public static let revocationInformationVersion = Kind(rawValue: 0x0032)
        /// UInt16: whether the license may be put into the content.
        public static let embeddingBehavior = Kind(rawValue: 0x0033)
        /// UInt16: the least security level of the client, 150, 2000 or 3000.
        public static let securityLevel = Kind(rawValue: 0x0034)
        /// UInt8[16], in GUID order.
        public static let secureStopID = Kind(rawValue: 0x005A)

        // Outputs
        /// UInt16 five times, in the order of `XMRTerms.OutputLevels`.
        public static let outputLevels = Kind(rawValue: 0x0005)
        /// UInt8[16] GUID, then data that it defines.
        public static let explicitAnalogProtection = Kind(rawValue: 0x0008)
        /// UInt8[16] GUID, then data that it defines.
        public static let explicitDigitalAudioProtection = Kind(rawValue: 0x0031)
        /// UInt8[16] GUID of a kind of output.
        public static let playEnabler = Kind(rawValue: 0x0039)
        /// UInt8[16] GUID, then data that it defines.
        public static let explicitDigitalVideoProtection = Kind(rawValue: 0x0059)

        // Keys
        /// UInt8[16] KID in GUID order, UInt16 `KeyType`, UInt16 `KeyCipher`, UInt16 length, wrapped key.
        public static let contentKey = Kind(rawValue: 0x000A)
        /// UInt16 type (1), UInt16 length (16), AES-CMAC over everything in front of this object.
        public static let signature = Kind(rawValue: 0x000B)
        /// UInt16 curve (1: P-256), UInt16 length (64), x and y of the key that the license is wrapped for.
        public static let eccKey = Kind(rawValue: 0x002A)
        /// UInt8[16] KID of the root license in GUID order, UInt16 checksum type, UInt16 length, checksum.
        public static let uplinkKeyID = Kind(rawValue: 0x003B)
        /// UInt16 count, then for each UInt32 location and UInt8[16] key.
        public static let auxiliaryKeys = Kind(rawValue: 0x0051)
        /// UInt8[16] KID, UInt16 length, checksum, UInt16 count, UInt32 for each. Not public how they are applied, so
        /// not read.
        public static let uplinkKeyIDs = Kind(rawValue: 0x0052)
    }
}

extension XMRObject.Kind {
    /// Whether the body is made of objects. The type decides, not the flag, so that one license is read in one way only.
    public var isContainer: Bool {
        switch self {
        case .outer, .globalPolicy, .playbackPolicy, .keyMaterial, .explicitAnalogProtections,
            .explicitDigitalVideoProtections, .explicitDigitalAudioProtections, .playEnablers:
            true
        default: false
        }
    }

    /// Rights that only allow more: to copy, to move, to execute, to read. Latchkey does none of it and can leave them
    /// out, whatever is in them. Only their names are public.
    public var onlyAllowsMore: Bool {
        [0x0037, 0x0038, 0x003A, 0x003C, 0x003D, 0x003F, 0x0040, 0x0041].contains(rawValue)
    }

    private static let names: [Self: String] = [
        .outer: "outer container", .globalPolicy: "global policy", .playbackPolicy: "playback policy",
        .explicitAnalogProtections: "explicit analog protections", .keyMaterial: "key material",
        .explicitDigitalAudioProtections: "explicit digital audio protections", .playEnablers: "play enablers",
        .explicitDigitalVideoProtections: "explicit digital video protections", .expiration: "expiration",
        .issueDate: "issue date", .expirationAfterFirstUse: "expiration after first use",
        .expirationAfterFirstStore: "expiration after first store", .gracePeriod: "grace period",
        .expirationAfterFirstPlay: "expiration after first play", .removalDate: "removal date",
        .realTimeExpiration: "real-time expiration", .rightsSettings: "rights settings", .meteringID: "metering id",
        .sourceID: "source id", .domain: "domain", .policyMetadata: "policy metadata",
        .revocationInformationVersion: "revocation information version", .embeddingBehavior: "embedding behavior",
        .securityLevel: "security level", .secureStopID: "secure stop id", .outputLevels: "output levels",
        .explicitAnalogProtection: "explicit analog protection", .playEnabler: "play enabler",
        .explicitDigitalAudioProtection: "explicit digital audio protection",
        .explicitDigitalVideoProtection: "explicit digital video protection", .contentKey: "content key",
        .signature: "signature", .eccKey: "ECC key", .uplinkKeyID: "uplink KID", .auxiliaryKeys: "auxiliary keys",
        .uplinkKeyIDs: "uplink KIDs",
    ]

    var name: String? { Self.names[self] }
}

extension XMRObject.Kind: CustomStringConvertible {
    /// The name and the number, or the number alone: "content key (000a)".
    public var description: String {
        let digits = String(rawValue, radix: 16)
        let number = String(repeating: "0", count: 4 - digits.count) + digits
        return name.map { "\($0) (\(number))" } ?? number
    }
}
