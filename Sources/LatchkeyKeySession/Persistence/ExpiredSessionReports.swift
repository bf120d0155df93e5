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
