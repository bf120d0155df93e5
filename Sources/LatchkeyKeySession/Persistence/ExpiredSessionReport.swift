// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// That a playback session is over, for servers that count how many a customer has open (“secure stop”).
///
/// The text is this project's own. One line each: `LKSR 1`, the session in 16 hexadecimal digits, its start and its end
/// in seconds since 1970-01-01 00:00 UTC (`-` for an end that nobody saw, as when the power went), then a line with each
/// content identifier in hexadecimal digits.
public struct ExpiredSessionReport: Sendable, Hashable {
    /// The session's number in the SPCs that it made (`MediaPlaybackState.sessionID`).
    public var sessionIdentifier: UInt64
    /// When it began, in seconds since 1970.
    public var started: Int64
    /// Nil: the process ended without a word.
    public var ended: Int64?
    /// In the order in which keys were asked for.
    public var contentIdentifiers: [[UInt8]]

    /// At most this many are kept: a live stream asks for new ones for ever.
    static let limit = 64

    /// Times are seconds since 1970-01-01 00:00 UTC.
    public init(sessionIdentifier: UInt64, started: Int64, ended: Int64? = nil, contentIdentifiers: [[UInt8]] = []) {
        self.sessionIdentifier = sessionIdentifier
        self.started = started
        self.ended = ended
        self.contentIdentifiers = contentIdentifiers
    }

    /// The text, for a server and for the store.
    public var data: [UInt8] {
        let lines =
            ["LKSR 1", hexadecimal, "\(started)", ended.map { "\($0)" } ?? "-"]
            + contentIdentifiers.map { Hex.encode($0) }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    /// Nil where the bytes are no report.
    public init?(data: [UInt8]) {
        guard data.count <= 64 * 1024, let text = String(validating: data, as: UTF8.self) else { return nil }
        let lines = text.split(separator: "\n")
        guard lines.count >= 4, lines[0] == "LKSR 1", lines[1].utf8.count == 16,
            let identifier = UInt64(lines[1], radix: 16), let started = Int64(lines[2])
        else { return nil }
        let ended = Int64(lines[3])
        guard ended != nil || lines[3] == "-" else { return nil }
        var identifiers: [[UInt8]] = []
        for line in lines.dropFirst(4).prefix(Self.limit) {
            guard let bytes = Hex.decode(line) else { return nil }
            identifiers.append(bytes)
        }
        self.init(
            sessionIdentifier: identifier, started: started, ended: ended, contentIdentifiers: identifiers)
    }

    var hexadecimal: String {
        let digits = String(sessionIdentifier, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
