// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyProtection

/// What is written with `--json`.
enum JSONText {
    /// Keys sorted, indented.
    static func of(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// ISO 8601, in UTC.
    static func time(_ time: UnixTime) -> String {
        Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601)
    }
}
