// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LicenseControl
import MediaFormats
import ProtectionModel

/// Licences as a table for people, or as JSON for programs.
struct LicenseTable {
    private let licenses: [StoredPlayReadyLicense]

    init(_ licenses: [StoredPlayReadyLicense]) { self.licenses = licenses }

    /// Columns are as wide as they have to be; the last one is the reason.
    var lines: [String] {
        let titles = ["KID", "STATUS", "BEGINS", "ENDS", "DOMAIN", "WHY"]
        let rows = [titles] + licenses.flatMap(Self.rows)
        let widths = titles.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let last = row.indices.last
            return row.indices.map { column in
                column == last
                    ? row[column] : row[column] + String(repeating: " ", count: widths[column] - row[column].count)
            }.joined(separator: "  ")
        }
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

    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(licenses.map(Entry.init)), as: UTF8.self)
    }

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
            begins = license.rights.begins.map(Self.text)
            ends = license.rights.ends.map(Self.text)
            expiresAfterFirstUse = license.rights.rightsExpireAfterFirstUse
            domain = license.domain?.description
        }

        /// ISO 8601, in UTC.
        private static func text(_ time: UnixTime) -> String {
            Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601)
        }
    }
}
