// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySystems
import LatchkeyManifests

/// What the user sets on the HLS demuxer.
struct HLSSettings: Sendable {
    /// KEYFORMATs, the preferred one first, separated by commas.
    var keyFormats: String?

    static let known: [HLSKeyFormat] = [.identity, .fairPlay, .playReady, .widevine]

    /// The formats of keys that are used, the preferred one first: those of the property, and without it all that
    /// loaders may know keys of: those of the configured key system first, those of systems without a licence service
    /// last.
    func keyFormats(preferring system: KeySystem?, provisioned: [KeySystem] = []) -> [HLSKeyFormat] {
        if let keyFormats {
            return keyFormats.split(separator: ",").map { part in
                let name = part.drop { $0 == " " }
                return Self.known.first { $0.name == name } ?? HLSKeyFormat(String(name))
            }
        }
        func rank(_ format: HLSKeyFormat) -> Int {
            if format == .identity { return 1 }
            guard let own = KeySystem(format.protectionSystem) else { return 3 }
            return own == system ? 0 : provisioned.contains(own) ? 2 : 3
        }
        return (0...3).flatMap { wanted in Self.known.filter { rank($0) == wanted } }
    }
}
