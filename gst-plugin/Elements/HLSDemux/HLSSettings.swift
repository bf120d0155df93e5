// SPDX-License-Identifier: MPL-2.0

import ElementKit
import KeySystems
import MediaFormats

/// What the user sets on the HLS demuxer.
struct HLSSettings: Sendable {
    /// KEYFORMATs, the preferred one first, separated by commas.
    var keyFormats: String?

    static let known: [HLSKeyFormat] = [.identity, .fairPlay, .playReady, .widevine]

    /// The formats of keys that are used, the preferred one first: those of the property, and without it all that
    /// loaders may know keys of, those of the configured key system first.
    func keyFormats(preferring system: KeySystem?) -> [HLSKeyFormat] {
        if let keyFormats {
            return keyFormats.split(separator: ",").map { part in
                let name = part.drop { $0 == " " }
                return Self.known.first { $0.name == name } ?? HLSKeyFormat(String(name))
            }
        }
        let preferred = Self.known.filter { format in
            format != .identity && system.map { KeySystem(format.protectionSystem) == $0 } ?? false
        }
        return preferred + Self.known.filter { !preferred.contains($0) }
    }
}
