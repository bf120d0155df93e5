// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

extension FairPlayExchange {
    /// What a request says besides the content identifier.
    public struct Options: Sendable {
        /// The versions of the exchange that may be used. The highest that is known here is taken: 1 or 2.
        public var protocolVersions: [UInt32] = [1]
        /// What the player is doing, and what time it has. Key servers give leases, rentals and storable keys only to
        /// requests that say it.
        public var playback: MediaPlaybackState?
        /// Whether the key is to be stored. Needs `playback`. The key server decides; see `FairPlayLicense.persistence`.
        public var requestsPersistableKey = false
        /// Where the picture goes; nil says nothing.
        public var streamingIndicator: StreamingIndicator?
        /// The anonymised device identifier (HU), 20 bytes; nil takes random ones, so that no request can be told to
        /// come from the device of another.
        public var deviceIdentifier: [UInt8]?
        /// What the client is and runs; nil says nothing.
        public var deviceIdentity: DeviceIdentity?
        /// Further blocks whose values the key server is to send back unchanged. The transaction identifier always is.
        public var returnRequests: [TLLV.Tag] = []
        /// Further blocks: tag and value.
        public var additionalValues: [TLLV.Tag: [UInt8]] = [:]
        /// Whether the SPC has this project's code over the whole message. Key servers that do not know it ignore it, by
        /// the rules. Nil sends it only where the provider says that it is of the test authority.
        public var sendsIntegrity: Bool?
        /// The KID that the media has. Sent where the code over the message is sent: only this project's key server knows
        /// what it means.
        public var mediaKeyID: KeyID?
        /// Whether a CKC without such a code is refused. Only this project's key server sends one. Nil requires it if the
        /// request has the code and is for a certificate of this project's test authority.
        public var requiresIntegrity: Bool?

        /// What a request for streaming on this device says.
        public init() {}

        /// For playback that begins, or goes on. `time` is in seconds since 1970-01-01 00:00 UTC; `sessionID` is
        /// random and the same for all requests of one playback.
        public init(state: MediaPlaybackState.State, time: UInt64, sessionID: UInt64) {
            playback = MediaPlaybackState(
                referenceTime: UInt32(clamping: time), state: state, sessionID: sessionID)
        }
    }
}
