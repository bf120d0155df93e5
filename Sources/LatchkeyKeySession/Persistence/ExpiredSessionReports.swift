// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// The reports of playback sessions that are over and that no server has acknowledged yet.
///
/// A session is written down when it asks for its first key, so that one which ends with the power is found at the next
/// start. Thread-safe. Methods may block for as long as the store does.
public final class ExpiredSessionReports: Sendable {
    private let store: any PersistableKeyStore
    private let running = Mutex<[UInt64: ExpiredSessionReport]>([:])

    /// `store` may have other records: the names differ.
    public init(_ store: any PersistableKeyStore) { self.store = store }

    /// Reports of sessions that are over, oldest first, as AVFoundation's
    /// `pendingExpiredSessionReports(withAppIdentifier:storageDirectoryAt:)`. Sessions that run are not among them.
    /// Those that cannot be read are removed. Throws the errors of the store.
    public func pending() throws(KeyError) -> [ExpiredSessionReport] {
        let open = Set(running.withLock { $0.keys })
        var reports: [ExpiredSessionReport] = []
        for name in try store.names() where name.hasPrefix(Self.prefix) {
            guard let data = try store.data(named: name) else { continue }
            guard let report = ExpiredSessionReport(data: data) else {
                try store.remove(named: name)
                continue
            }
            if !open.contains(report.sessionIdentifier) { reports.append(report) }
        }
        return reports.sorted { ($0.started, $0.sessionIdentifier) < ($1.started, $1.sessionIdentifier) }
    }

    /// Forgets reports that a server has acknowledged, as AVFoundation's `removePendingExpiredSessionReports`. Throws
    /// the errors of the store.
    public func remove(_ reports: [ExpiredSessionReport]) throws(KeyError) {
        for report in reports { try store.remove(named: name(report)) }
    }

    /// The session asks for a key. Throws where that cannot be written down.
    func note(_ contentIdentifier: [UInt8], of session: UInt64, at date: Int64) throws(KeyError) {
        let report = running.withLock { running -> ExpiredSessionReport? in
            var report = running[session] ?? ExpiredSessionReport(sessionIdentifier: session, started: date)
            let identifiers = report.contentIdentifiers
            guard !identifiers.contains(contentIdentifier), identifiers.count < ExpiredSessionReport.limit else {
                return nil
            }
            report.contentIdentifiers.append(contentIdentifier)
            running[session] = report
            return report
        }
        if let report { try store.store(report.data, named: name(report)) }
    }

    /// The session is over. Nil where it asked for no key. `failure` is told where its end cannot be written down.
    @discardableResult
    func end(_ session: UInt64, at date: Int64, failure: (KeyError) -> Void) -> ExpiredSessionReport? {
        guard var report = running.withLock({ $0.removeValue(forKey: session) }) else { return nil }
        report.ended = date
        do throws(KeyError) {
            try store.store(report.data, named: name(report))
        } catch {
            failure(error)
        }
        return report
    }

    /// For the log.
    static func complaint(_ error: KeyError) -> String {
        "the report of this session for its server cannot be written, and is lost with the process: \(error.reason); make "
            + "their folder one that can be written and has room"
    }

    private static let prefix = "session-"
    private func name(_ report: ExpiredSessionReport) -> String { Self.prefix + report.hexadecimal }
}

/// That a playback session is over, for servers that count how many a customer has open (“secure stop”).
///
/// The text is this project's own. One line each: `LKSR 1`, the session in 16 hexadecimal digits, its start and its end in
/// seconds since 1970-01-01 00:00 UTC (`-` for an end that was not seen, as when the power went), then a line with each
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
