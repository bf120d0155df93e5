// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
public import LatchkeyProtection

/// What is known of some content before it plays: its protection, and the rights that are installed for it. A value.
public struct ContentInfo: Hashable, Sendable {
    /// Whether something of it is encrypted.
    public var isProtected: Bool
    /// The key systems that the content names and that Latchkey has an exchange for, in the order of the content.
    public var keySystems: [KeySystem]
    /// All protection systems that the content names.
    public var protectionSystems: [ProtectionSystem]
    /// Each once. Empty where the content names none before it plays, as with `skd://` keys.
    public var keyIDs: [KeyID]
    /// Whether it may be played now, and why not. `valid` for content that is not protected.
    public var rights: RightsStatus
    /// What to choose an audio track by (`Agent.selectedAudioTrack`). Each once; empty where there is no choice to name.
    public var audioTrackNames: [String]
    /// The tracks and their qualities, in the order of the content. Of a PIFF file only those that play.
    public var tracks: [ContentTrack]
    /// The keys that playback will ask for. Empty where none is needed; keys that the content itself gives away, as
    /// AES-128 of HLS does, need none.
    public var keyNeeds: [ContentKeyNeed]
    /// Where the content says that licences are. Not trusted: nothing secret is sent there.
    public var licenseURLs: [String]

    /// How the installed rights stand.
    public var rightsStatus: RightsStatus.Kind { rights.kind }
    /// When they begin; nil for no limit.
    public var rightsBegin: UnixTime? { rights.begins }
    /// When they end; nil for no limit, and where the end counts from the first use, before that.
    public var rightsEnd: UnixTime? { rights.ends }
    /// The rights end some time after their first use, which is still to come.
    public var rightsExpireAfterFirstUse: Bool { rights.rightsExpireAfterFirstUse }
}
