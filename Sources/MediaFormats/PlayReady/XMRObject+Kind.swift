// SPDX-License-Identifier: MPL-2.0

extension XMRObject {
    /// What an object is.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        public var rawValue: UInt16
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        // Containers
        public static let outer = Kind(rawValue: 0x0001)
        public static let globalPolicy = Kind(rawValue: 0x0002)
        public static let playbackPolicy = Kind(rawValue: 0x0004)
        public static let explicitAnalogProtections = Kind(rawValue: 0x0007)
        public static let keyMaterial = Kind(rawValue: 0x0009)
        public static let explicitDigitalAudioProtections = Kind(rawValue: 0x002E)
        public static let playEnablers = Kind(rawValue: 0x0036)
        public static let explicitDigitalVideoProtections = Kind(rawValue: 0x0058)

        // Time
        public static let expiration = Kind(rawValue: 0x0012)
        public static let issueDate = Kind(rawValue: 0x0013)
        public static let expirationAfterFirstUse = Kind(rawValue: 0x0014)
        public static let expirationAfterFirstStore = Kind(rawValue: 0x0015)
        public static let gracePeriod = Kind(rawValue: 0x001A)
        public static let expirationAfterFirstPlay = Kind(rawValue: 0x0030)
        public static let removalDate = Kind(rawValue: 0x0050)
        public static let realTimeExpiration = Kind(rawValue: 0x0055)

        // Other rights
        public static let rightsSettings = Kind(rawValue: 0x000D)
        public static let meteringID = Kind(rawValue: 0x0016)
        public static let sourceID = Kind(rawValue: 0x0022)
        public static let domain = Kind(rawValue: 0x0029)
        public static let policyMetadata = Kind(rawValue: 0x002C)
        public static let revocationInformationVersion = Kind(rawValue: 0x0032)
        public static let embeddingBehavior = Kind(rawValue: 0x0033)
        public static let securityLevel = Kind(rawValue: 0x0034)
        public static let secureStopID = Kind(rawValue: 0x005A)

        // Outputs
        public static let outputLevels = Kind(rawValue: 0x0005)
        public static let explicitAnalogProtection = Kind(rawValue: 0x0008)
        public static let explicitDigitalAudioProtection = Kind(rawValue: 0x0031)
        public static let playEnabler = Kind(rawValue: 0x0039)
        public static let explicitDigitalVideoProtection = Kind(rawValue: 0x0059)

        // Keys
        public static let contentKey = Kind(rawValue: 0x000A)
        public static let signature = Kind(rawValue: 0x000B)
        public static let eccKey = Kind(rawValue: 0x002A)
        public static let uplinkKeyID = Kind(rawValue: 0x003B)
        public static let auxiliaryKeys = Kind(rawValue: 0x0051)
        public static let uplinkKeyIDs = Kind(rawValue: 0x0052)
    }
}

extension XMRObject.Kind {
    /// Whether the body is made of objects. The type decides, not the flag, so that one licence is read in one way only.
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
        .revocationInformationVersion: "revocation information version", .embeddingBehavior: "embedding behaviour",
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
