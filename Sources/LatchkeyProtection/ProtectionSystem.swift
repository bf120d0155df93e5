// SPDX-License-Identifier: MPL-2.0

/// A protection system, named by its SystemID (a UUID).
///
/// The ids are those that the DASH-IF registry lists at <https://dashif.org/identifiers/content_protection/>.
public struct ProtectionSystem: Hashable, Sendable {
    /// The id as 32 hexadecimal digits and four hyphens, in lower case: the spelling of GStreamer's caps.
    public let uuid: String

    /// Takes any spelling of a UUID: braces, `urn:uuid:` in front and upper case are allowed.
    ///
    /// Nil where what remains is no UUID.
    public init?(uuid text: some StringProtocol) {
        guard let id = KeyID(uuid: text) else { return nil }
        uuid = id.uuidString
    }

    private init(known uuid: String) { self.uuid = uuid }

    /// The "common" system of W3C's EME registry, which ClearKey content carries in `pssh` boxes.
    public static let common = ProtectionSystem(known: "1077efec-c0b2-4d02-ace3-3c1e52e2fb4b")
    /// DASH-IF's ClearKey system, which manifests carry.
    public static let clearKey = ProtectionSystem(known: "e2719d58-a985-b3c9-781a-b030af78d30e")
    /// FairPlay Streaming. This and the next two: DASH-IF's list of system identifiers
    /// (dashif.org/identifiers/content_protection).
    public static let fairPlay = ProtectionSystem(known: "94ce86fb-07ff-4f43-adb8-93d2fa968ca2")
    /// PlayReady; also in the PlayReady Header specification.
    public static let playReady = ProtectionSystem(known: "9a04f079-9840-4286-ab92-e65be0885f95")
    /// Widevine. No exchange for it is here; its data is only recognized.
    public static let widevine = ProtectionSystem(known: "edef8ba9-79d6-4ace-a3c8-27dcd51d21ed")

    /// Every other system of the registry. Latchkey has no exchange for them; a loader can still supply their keys.
    public static let others: [ProtectionSystem] = [
        widevine,
        ProtectionSystem(known: "3ea8778f-7742-4bf9-b18b-e834b2acbd47"),  // ClearKey AES-128
        ProtectionSystem(known: "be58615b-19c4-4684-88b3-c8c57e99e957"),  // ClearKey SAMPLE-AES
        ProtectionSystem(known: "644fe7b5-260f-4fad-949a-0762ffb054b4"),  // CMLA
        ProtectionSystem(known: "37c33258-7b99-4c7e-b15d-19af74482154"),  // Titanium
        ProtectionSystem(known: "f239e769-efa3-4850-9c16-a903c6932efb"),  // Adobe Primetime
        ProtectionSystem(known: "5e629af5-38da-4063-8977-97ffbd9902d4"),  // Marlin, in manifests
        ProtectionSystem(known: "69f908af-4816-46ea-910c-cd5dcccb0a3a"),  // Marlin, in pssh boxes
        ProtectionSystem(known: "9a27dd82-fde2-4725-8cbc-4234aa06ec09"),  // Verimatrix VCAS
        ProtectionSystem(known: "b4413586-c58c-ffb0-94a5-d4896c1af6c3"),  // Viaccess-Orca
        ProtectionSystem(known: "793b7956-9f94-4946-a942-23e7ef7e44b4"),  // VisionCrypt
        ProtectionSystem(known: "80a6be7e-1448-4c37-9e70-d5aebe04c8d2"),  // Irdeto
        ProtectionSystem(known: "adb41c24-2dbf-4a6d-958b-4457c0d27b95"),  // Nagra
        ProtectionSystem(known: "1f83e1e8-6ee9-4f0d-ba2f-5ec4e3ed1a66"),  // SecureMedia
        ProtectionSystem(known: "992c46e6-c437-4899-b6a0-50fa91ad0e39"),  // SecureMedia SteelKnot
        ProtectionSystem(known: "a68129d3-575b-4f1a-9cba-3223846cf7c3"),  // Synamedia VideoGuard
        ProtectionSystem(known: "aa11967f-cc01-4a4a-8e99-c5d3dddfea2d"),  // Unitend UDRM
        ProtectionSystem(known: "616c7469-6361-7374-2d50-726f74656374"),  // Alticast
        ProtectionSystem(known: "279fe473-512c-48fe-ade8-d176fee6b40f"),  // Arris Titanium
        ProtectionSystem(known: "3d5e6d35-9b9a-41e8-b843-dd3c6e72c42c"),  // ChinaDRM
        ProtectionSystem(known: "6dd8b3c3-45f4-4a68-bf3a-64168d01a4a6"),  // ABV
        ProtectionSystem(known: "dcf4e3e3-62f1-5818-7ba6-0a6fe33ff3dd"),  // DigiCAP SmartXess
        ProtectionSystem(known: "45d481cb-8fe0-49c0-ada9-ab2d2455b2f2"),  // CoreCrypt
    ]

    /// A short name for messages; the UUID for a system that has none here.
    public var name: String {
        switch self {
        case .common, .clearKey: "ClearKey"
        case .fairPlay: "FairPlay"
        case .playReady: "PlayReady"
        case .widevine: "Widevine"
        default: uuid
        }
    }
}

extension ProtectionSystem: CustomStringConvertible {
    /// The name, or the UUID of a system without one.
    public var description: String { name }
}
