// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

/// What a licence says, as values. Dates are seconds since 1970, durations are seconds.
///
/// Whether it may be used now is decided by the key system (`PlayReadyPolicy`). See `XMRObject` for the sources of the
/// layout. A value; prints without keys.
public struct XMRTerms: Hashable, Sendable {
    public struct OutputLevels: Hashable, Sendable {
        public var compressedDigitalVideo: UInt16
        public var uncompressedDigitalVideo: UInt16
        public var analogVideo: UInt16
        public var compressedDigitalAudio: UInt16
        public var uncompressedDigitalAudio: UInt16

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
        public var id: GUID
        public var data: [UInt8]

        public init(_ id: GUID, data: [UInt8] = []) {
            self.id = id
            self.data = data
        }
    }

    public struct Domain: Hashable, Sendable {
        public var accountID: GUID
        public var revision: UInt32

        public init(accountID: GUID, revision: UInt32) {
            self.accountID = accountID
            self.revision = revision
        }
    }

    /// The wrapped content key.
    public struct WrappedKey: Hashable, Sendable {
        public var keyID: KeyID
        public var type: KeyType
        public var cipher: KeyCipher
        public var data: [UInt8]

        public init(keyID: KeyID, type: KeyType = .aesCTR, cipher: KeyCipher = .ecc256, data: [UInt8]) {
            self.keyID = keyID
            self.type = type
            self.cipher = cipher
            self.data = data
        }
    }

    /// Names the root licence of a chained one.
    public struct Uplink: Hashable, Sendable {
        public var keyID: KeyID
        public var checksumType: UInt16
        public var checksum: [UInt8]

        public init(keyID: KeyID, checksumType: UInt16 = 0, checksum: [UInt8] = []) {
            self.keyID = keyID
            self.checksumType = checksumType
            self.checksum = checksum
        }
    }

    public struct AuxiliaryKey: Hashable, Sendable {
        public var location: UInt32
        public var key: [UInt8]

        public init(location: UInt32, key: [UInt8]) {
            self.location = location
            self.key = key
        }
    }

    // Time
    public var begin: UInt32?
    public var end: UInt32?
    public var issueDate: UInt32?
    public var removalDate: UInt32?
    public var gracePeriod: UInt32?
    public var expirationAfterFirstPlay: UInt32?
    public var expirationAfterFirstUse: UInt32?
    public var expirationAfterFirstStore: UInt32?
    /// The end also stops what is being played.
    public var hasRealTimeExpiration = false

    // Other rights
    public var minimumSecurityLevel: UInt16?
    /// Bits; `cannotPersist` is the one that is known.
    public var settings: UInt16?
    public var embeddingBehavior: UInt16?
    public var revocationInformationVersion: UInt32?
    public var sourceID: UInt32?
    public var domain: Domain?
    public var meteringID: GUID?
    public var secureStopID: GUID?
    public var policyMetadata: [ExplicitProtection] = []

    // Playback and outputs
    public var allowsPlayback = false
    public var outputLevels: OutputLevels?
    public var analogProtections: [ExplicitProtection] = []
    public var digitalVideoProtections: [ExplicitProtection] = []
    public var digitalAudioProtections: [ExplicitProtection] = []
    public var playEnablers: [GUID] = []

    // Keys
    public var key: WrappedKey?
    /// The public key (x and y, 64 bytes) whose private half opens the content key: the device's or a domain's.
    public var boundKey: [UInt8]?
    public var uplink: Uplink?
    public var auxiliaryKeys: [AuxiliaryKey] = []

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
        case aesCTR = 1
        case cocktail = 4
        case aesCBC = 5
        case keyExchange = 6
    }

    /// How the key is wrapped.
    public enum KeyCipher: UInt16, Sendable {
        case rsa1024 = 1
        /// With the content key of a root licence.
        case chained = 2
        case ecc256 = 3
        case ecc256WithKZ = 4
        case trustedExecution = 5
        /// With the content key of a scalable root licence.
        case ecc256Symmetric = 6
    }
}

extension XMRTerms: CustomStringConvertible, CustomReflectable {
    public var description: String { "terms for KID \(key?.keyID.description ?? "?")" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
