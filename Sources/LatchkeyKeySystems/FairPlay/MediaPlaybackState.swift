// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

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
