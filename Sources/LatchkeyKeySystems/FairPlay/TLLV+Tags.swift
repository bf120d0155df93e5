// SPDX-License-Identifier: MPL-2.0

extension TLLV.Tag {
    // MARK: SPC

    /// [SK..R1]: an IV of 16 bytes and 96 encrypted bytes (session key 16, anonymised device identifier 20, R1 44,
    /// integrity 16).
    public static let sessionKeyAndR1 = TLLV.Tag(rawValue: 0x3D1A_10B8_BFFA_C2EC)
    /// 16 bytes, equal to the integrity bytes within [SK..R1].
    public static let sessionKeyAndR1Integrity = TLLV.Tag(rawValue: 0xB349_D480_9E91_0687)
    /// Anti-replay seed, 16 bytes: what the key of the CKC's payload is derived from, with R1.
    public static let antiReplaySeed = TLLV.Tag(rawValue: 0x89C9_0F12_2041_06B2)
    /// R2, 21 bytes: what the derivation function takes.
    public static let r2 = TLLV.Tag(rawValue: 0x71B5_595A_C152_1133)
    /// 8 bytes for each tag whose block goes back unchanged in the CKC.
    public static let returnRequest = TLLV.Tag(rawValue: 0x19F9_D4E5_AB76_09CB)
    /// The content identifier that the application sets, 2 to 200 bytes.
    public static let assetIdentifier = TLLV.Tag(rawValue: 0x1BF7_F53F_5D5D_5A1F)
    /// 8 random bytes that name the request.
    public static let transactionIdentifier = TLLV.Tag(rawValue: 0x47AA_7AD3_4405_77DE)
    /// 4 bytes for each version, see `ProtocolVersions`.
    public static let protocolVersionsSupported = TLLV.Tag(rawValue: 0x67B8_FB79_ECCE_1A13)
    /// 4 bytes, see `ProtocolVersion`.
    public static let protocolVersionUsed = TLLV.Tag(rawValue: 0x5D81_BCBC_C7F6_1703)
    /// 8 bytes, see `StreamingIndicator`.
    public static let streamingIndicator = TLLV.Tag(rawValue: 0xABB0_256A_3184_3974)
    /// Client reference time and state, 16 bytes, see `MediaPlaybackState`.
    public static let mediaPlaybackState = TLLV.Tag(rawValue: 0xEB8E_FDF2_B25A_B3A0)
    /// 36 bytes or more, see `DeviceIdentity`.
    public static let deviceIdentity = TLLV.Tag(rawValue: 0x94C1_7CD6_76C6_9B59)

    // MARK: CKC

    /// An IV for the content of 16 bytes and the content key, encrypted with the session key, 16 bytes.
    public static let encryptedContentKey = TLLV.Tag(rawValue: 0x58B3_8165_AF0E_3D5A)
    /// R1 as the SPC had it, 44 bytes.
    public static let r1 = TLLV.Tag(rawValue: 0xEA74_C464_5D5E_FEE9)
    /// 16 bytes, see `ContentKeyDuration`.
    public static let contentKeyDuration = TLLV.Tag(rawValue: 0x47AC_F6A4_18CD_091A)
    /// 8 or 16 bytes, see `HDCPRequirement`.
    public static let hdcp = TLLV.Tag(rawValue: 0x2E52_F153_0D8D_DB4A)
    /// 32 or 48 bytes, see `OfflineKeyTerms`.
    public static let offlineKey = TLLV.Tag(rawValue: 0x6375_D972_7060_218C)

    // MARK: Latchkey's own

    // The first eight bytes of the SHA-256 of "latchkey: SPC integrity", "latchkey: CKC integrity" and "latchkey: media
    // KID".

    /// This project's own, optional: 32 bytes, an HMAC-SHA-256 over the whole SPC. See `PayloadIntegrity`.
    public static let requestIntegrity = TLLV.Tag(rawValue: 0xFA0D_120C_A720_092D)
    /// This project's own, optional: 32 bytes, an HMAC-SHA-256 over the whole CKC. See `PayloadIntegrity`.
    public static let responseIntegrity = TLLV.Tag(rawValue: 0xC586_F575_8609_97CD)

    /// This project's own, optional: the 16 bytes of the KID that the media has. For packagers that give several keys the
    /// same URI.
    public static let mediaKeyID = TLLV.Tag(rawValue: 0x6827_3168_B6E3_4415)

    /// The tags that an SPC must have.
    public static let requiredInRequest: [TLLV.Tag] = [
        .sessionKeyAndR1, .sessionKeyAndR1Integrity, .antiReplaySeed, .r2, .assetIdentifier, .transactionIdentifier,
        .protocolVersionsSupported, .protocolVersionUsed, .returnRequest,
    ]

    /// What the tag is called in messages; nil where it is not known.
    public var name: String? {
        switch self {
        case .sessionKeyAndR1: "[SK..R1]"
        case .sessionKeyAndR1Integrity: "[SK..R1] integrity"
        case .antiReplaySeed: "AR seed"
        case .r2: "R2"
        case .returnRequest: "return request"
        case .assetIdentifier: "asset identifier"
        case .transactionIdentifier: "transaction identifier"
        case .protocolVersionsSupported: "protocol versions supported"
        case .protocolVersionUsed: "protocol version used"
        case .streamingIndicator: "streaming indicator"
        case .mediaPlaybackState: "media playback state"
        case .deviceIdentity: "device identity"
        case .encryptedContentKey: "encrypted content key"
        case .r1: "R1"
        case .contentKeyDuration: "content key duration"
        case .hdcp: "HDCP"
        case .offlineKey: "offline key"
        case .requestIntegrity: "SPC integrity"
        case .responseIntegrity: "CKC integrity"
        case .mediaKeyID: "media KID"
        default: nil
        }
    }
}
