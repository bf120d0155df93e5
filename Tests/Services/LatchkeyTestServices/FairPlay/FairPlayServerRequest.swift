// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// An SPC that the key server has opened and found in order. Prints without keys.
public struct FairPlayServerRequest: Sendable {
    /// The version of the SPC container.
    public let version: SPCContainer.Version
    /// What the application asks for, 2 to 200 bytes.
    public let assetIdentifier: [UInt8]
    /// 8 random bytes that name the request in logs of both sides.
    public let transactionIdentifier: [UInt8]
    /// The anonymised device identifier (HU), 20 bytes.
    public let deviceIdentifier: [UInt8]
    /// The version of the protocol that the request is made with.
    public let protocolVersion: UInt32
    /// Absent where the client does not say; it then gets no durations.
    public let playback: MediaPlaybackState?
    /// Where the picture goes; absent where the client does not say.
    public let streamingIndicator: StreamingIndicator?
    /// What the client is and runs; absent where it does not say.
    public let deviceIdentity: DeviceIdentity?
    /// The KID that the media has, where the client says so.
    public let mediaKeyID: KeyID?
    /// Whether it has this project's code over the whole message, and that fits.
    public let hasIntegrity: Bool
    /// The blocks that go back.
    let returnedBlocks: [TLLV]
    let sessionKey: ContentKey
    let responseKey: ContentKey
    let r1: [UInt8]
}

extension FairPlayServerRequest: CustomStringConvertible, CustomReflectable {
    /// Version and transaction, for a log of the key server. Never keys.
    public var description: String {
        "SPC version \(version.rawValue), transaction \(Hex.encode(transactionIdentifier))"
    }
    /// Empty: the request holds the session key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
