// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// The versions of the exchange that a client can speak: 4 bytes each.
public struct ProtocolVersions: TLLVValue {
    /// `67b8fb79ecce1a13`, in the SPC.
    public static let tag = TLLV.Tag.protocolVersionsSupported
    /// At least one.
    public var versions: [UInt32]

    /// `versions` should not be empty: such a block cannot be read again.
    public init(_ versions: [UInt32]) { self.versions = versions }

    /// Throws `malformed` for no version and for a length that is no multiple of 4.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard !bytes.isEmpty, bytes.count % 4 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 4")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        versions = []
        while !reader.isAtEnd { versions.append(try reader.readUInt32()) }
    }

    /// 4 bytes for each version.
    public var tllvValue: [UInt8] { versions.flatMap { bigEndian($0) } }
}

/// The version of the exchange that a request is made in: 4 bytes.
public struct ProtocolVersion: TLLVValue {
    /// `5d81bcbcc7f61703`, in the SPC.
    public static let tag = TLLV.Tag.protocolVersionUsed
    /// One of `ProtocolVersions.versions` where the client keeps to the rules; nothing checks that here.
    public var version: UInt32

    /// Takes any number.
    public init(_ version: UInt32) { self.version = version }

    /// Throws `malformed` for another length than 4 bytes.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 4)
        version = try reader.readUInt32()
    }

    /// 4 bytes.
    public var tllvValue: [UInt8] { bigEndian(version) }
}

/// The tags whose blocks the key server sends back unchanged: 8 bytes each.
public struct ReturnRequest: TLLVValue {
    /// `19f9d4e5ab7609cb`, in the SPC.
    public static let tag = TLLV.Tag.returnRequest
    /// May be empty.
    public var tags: [TLLV.Tag]

    /// Takes tags whose blocks the SPC may not even have; the key server decides.
    public init(_ tags: [TLLV.Tag]) { self.tags = tags }

    /// Throws `malformed` where the length is no multiple of 8.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard bytes.count % 8 == 0 else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, no multiple of 8")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        tags = []
        while !reader.isAtEnd { tags.append(TLLV.Tag(rawValue: try reader.readUInt64())) }
    }

    /// 8 bytes for each tag.
    public var tllvValue: [UInt8] { tags.flatMap { bigEndian($0.rawValue) } }
}

/// What the player is doing and what time it has, for key servers that count leases.
///
/// ```
/// UInt32 client reference time, UInt32 state, UInt64 playback session
/// ```
///
/// Integers are big-endian. See `TLLV` for the sources. A value; thread-safe.
public struct MediaPlaybackState: TLLVValue {
    /// What the player is doing. A state that is not known is kept as it is.
    public struct State: RawRepresentable, Hashable, Sendable {
        /// Four bytes of the block, big-endian.
        public var rawValue: UInt32
        /// Takes any number; see `isKnown`.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// About to start: wants the content key.
        public static let readyToStart = State(rawValue: 0xF4DE_E5A2)
        /// Plays or pauses: wants the lease prolonged and does not need the content key.
        public static let playing = State(rawValue: 0xA5D6_739E)
        /// Plays and the lease is about to end: wants the content key again.
        public static let playingAndLeaseExpires = State(rawValue: 0x4F83_4330)
        /// Stopped: gives the lease back.
        public static let stopped = State(rawValue: 0x5991_BF20)

        /// Whether it is one of these four.
        public var isKnown: Bool {
            [.readyToStart, .playing, .playingAndLeaseExpires, .stopped].contains(self)
        }

        /// Whether the key server has to send the content key.
        public var requiresContentKey: Bool { self != .playing && self != .stopped }
    }

    /// `eb8efdf2b25ab3a0`, in the SPC. Key servers answer it with a `ContentKeyDuration`.
    public static let tag = TLLV.Tag.mediaPlaybackState

    /// Seconds since 1970-01-01 00:00 UTC, by the client's clock.
    public var referenceTime: UInt32
    /// What the key server decides by: whether a key goes out, and whether a lease goes on.
    public var state: State
    /// Random, the same for all requests of one playback.
    public var sessionID: UInt64

    /// Takes the values as they are. `sessionID` is the caller's to draw.
    public init(referenceTime: UInt32, state: MediaPlaybackState.State, sessionID: UInt64) {
        self.referenceTime = referenceTime
        self.state = state
        self.sessionID = sessionID
    }

    /// Throws `malformed` for another length than 16 bytes. A state that is not known is kept.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 16)
        referenceTime = try reader.readUInt32()
        state = State(rawValue: try reader.readUInt32())
        sessionID = try reader.readUInt64()
    }

    /// 16 bytes.
    public var tllvValue: [UInt8] { bigEndian(referenceTime) + bigEndian(state.rawValue) + bigEndian(sessionID) }
}

/// Where the picture goes: 8 bytes. See `TLLV` for the sources of the numbers.
public struct StreamingIndicator: TLLVValue, RawRepresentable {
    /// `abb0256a31843974`, in the SPC.
    public static let tag = TLLV.Tag.streamingIndicator

    /// Everything that is neither of the two below means playback on the device.
    public var rawValue: UInt64
    /// Takes any number; one that is not known means playback on the device.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Playback on the device. Any other number than the two below would do.
    public static let onDevice = StreamingIndicator(rawValue: 0)
    /// Over AirPlay. The number is that of the tag itself.
    public static let airPlay = StreamingIndicator(rawValue: 0xABB0_256A_3184_3974)
    /// A digital AV adapter. The anonymised device identifier has no meaning then.
    public static let digitalAVAdapter = StreamingIndicator(rawValue: 0x5F9C_8132_B59F_2FDE)

    /// Throws `malformed` for another length than 8 bytes.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 8)
        rawValue = try reader.readUInt64()
    }

    /// 8 bytes.
    public var tllvValue: [UInt8] { bigEndian(rawValue) }
}

/// What kind of device asks.
///
/// ```
/// UInt32 version, UInt32 device class, UInt8[8] vendor hash, UInt8[8] product hash,
/// UInt32 REE version, UInt32 TEE version, UInt32 OS version, more in later versions
/// ```
///
/// Integers are big-endian. The layout is that of one public source. A value; thread-safe.
public struct DeviceIdentity: TLLVValue {
    /// `94c17cd676c69b59`, in the SPC.
    public static let tag = TLLV.Tag.deviceIdentity
    /// In bytes, without what later versions add.
    public static let minimumSize = 36

    /// Of the block's layout. Only 1 is known; what later ones add is `rest`.
    public var version: UInt32
    /// A number that the vendor gives to kinds of devices.
    public var deviceClass: UInt32
    /// A hash of 8 bytes that stands for the vendor, as a big-endian number.
    public var vendorHash: UInt64
    /// The same for the product.
    public var productHash: UInt64
    /// Of the player's rich execution environment.
    public var reeVersion: UInt32
    /// Of the trusted execution environment.
    public var teeVersion: UInt32
    /// Of the operating system, as the vendor counts.
    public var osVersion: UInt32
    /// What stands behind the fields that are known.
    public var rest: [UInt8]

    /// Versions that are not given are 0, which tells a key server nothing.
    public init(
        version: UInt32 = 1, deviceClass: UInt32, vendorHash: UInt64, productHash: UInt64, reeVersion: UInt32 = 0,
        teeVersion: UInt32 = 0, osVersion: UInt32 = 0, rest: [UInt8] = []
    ) {
        self.version = version
        self.deviceClass = deviceClass
        self.vendorHash = vendorHash
        self.productHash = productHash
        self.reeVersion = reeVersion
        self.teeVersion = teeVersion
        self.osVersion = osVersion
        self.rest = rest
    }

    /// Throws `malformed` below `minimumSize`. No number is rejected.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        guard bytes.count >= Self.minimumSize else {
            throw .malformed("TLLV \(Self.tag) has \(bytes.count) bytes, fewer than \(Self.minimumSize)")
        }
        var reader = ByteReader(bytes, structure: "TLLV \(Self.tag)")
        version = try reader.readUInt32()
        deviceClass = try reader.readUInt32()
        vendorHash = try reader.readUInt64()
        productHash = try reader.readUInt64()
        reeVersion = try reader.readUInt32()
        teeVersion = try reader.readUInt32()
        osVersion = try reader.readUInt32()
        rest = Array(reader.rest)
    }

    /// `minimumSize` bytes and `rest`.
    public var tllvValue: [UInt8] {
        bigEndian(version) + bigEndian(deviceClass) + bigEndian(vendorHash) + bigEndian(productHash)
            + bigEndian(reeVersion) + bigEndian(teeVersion) + bigEndian(osVersion) + rest
    }
}
