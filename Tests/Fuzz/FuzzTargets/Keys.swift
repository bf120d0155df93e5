// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection

extension FuzzTarget {
    static let keys: [FuzzTarget] = [
        FuzzTarget("keys-file") { bytes in
            guard let entries = try? KeysFile(contents: bytes, name: "keys").entries else { return }
            promise(entries.count <= bytes.count, "an entry takes bytes")
        },
        FuzzTarget("keys-property") { bytes in
            _ = try? StaticKeys.parse(property: String(decoding: bytes, as: UTF8.self))
        },
        FuzzTarget("clearkey") { bytes in
            if let keys = try? ClearKey.keys(inLicense: bytes) {
                let again = try? ClearKey.keys(inLicense: ClearKey.license(for: keys, type: .temporary))
                promise(again.map { Set($0.keys) } == Set(keys.keys), "what is written reads the same")
            }
            if let keyIDs = try? ClearKey.keyIDs(inLicenseRequest: bytes) {
                let again = try? ClearKey.keyIDs(inLicenseRequest: ClearKey.licenseRequest(for: keyIDs))
                promise(again == keyIDs, "what is written reads the same")
            }
        },
    ]
}
