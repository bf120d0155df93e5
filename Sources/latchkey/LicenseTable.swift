// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// Licences as a table for people, or as JSON for programs.
struct LicenseTable {
    private let licenses: [StoredPlayReadyLicense]

    init(_ licenses: [StoredPlayReadyLicense]) { self.licenses = licenses }

    /// Columns are as wide as they have to be; the last one is the reason.
    var lines: [String] {
        TextTable(
            titles: ["KID", "STATUS", "BEGINS", "ENDS", "DOMAIN", "WHY"], rows: licenses.flatMap(Self.rows)
        ).lines
    }

    /// A licence of several keys has a row for each.
    private static func rows(_ license: StoredPlayReadyLicense) -> [[String]] {
        let rights = license.rights
        let ends = rights.ends?.description ?? (rights.rightsExpireAfterFirstUse ? "after the first use" : "-")
        let names = license.keyIDs.isEmpty ? ["-"] : license.keyIDs.map(\.description)
        return names.map { name in
            [
                name, rights.kind == .untrustedTime ? "untrusted time" : rights.kind.rawValue,
                rights.begins?.description ?? "-", ends, license.domain?.description ?? "-", rights.reason,
            ]
        }
    }

    func json() throws -> String { try JSONText.of(licenses.map(Entry.init)) }

    private struct Entry: Encodable {
        let keyIds: [String]
        let status: String
        let reason: String
        let begins: String?
        let ends: String?
        let expiresAfterFirstUse: Bool
        let domain: String?

        init(_ license: StoredPlayReadyLicense) {
            keyIds = license.keyIDs.map(\.description)
            status = license.rights.kind.rawValue
            reason = license.rights.reason
            begins = license.rights.begins.map(JSONText.time)
            ends = license.rights.ends.map(JSONText.time)
            expiresAfterFirstUse = license.rights.rightsExpireAfterFirstUse
            domain = license.domain?.description
        }
    }
}
