// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySession

@Suite("Reports of sessions that are over, and output protection", .timeLimit(.minutes(8)))
struct ExpiredSessionReportTests {
    private let folder = TemporaryFolder()

    private func reports() throws -> ExpiredSessionReports {
        ExpiredSessionReports(try FilePersistableKeyStore(folder: folder.path))
    }

    private final class Listener: ResourceLoader {
        let name = "listener"
        let reports = Signal<ExpiredSessionReport>()
        let statuses = Signal<ExternalProtectionStatus>()
        let server: FairPlayLoader

        init(_ server: FairPlayLoader) { self.server = server }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { server.shouldWaitForLoading(of: request) }
        func didGenerateExpiredSessionReport(_ report: ExpiredSessionReport) { reports.send(report) }
        func externalProtectionStatusDidChange(_ status: ExternalProtectionStatus, of keyID: KeyID?) {
            statuses.send(status)
        }
    }

    private func session(
        _ reports: ExpiredSessionReports?, _ terms: FairPlayTerms = FairPlayTerms(), clock: ManualClock = ManualClock()
    ) throws -> (session: KeySession, loader: Listener, server: FairPlayServer) {
        let authority = try FairPlayServer.authority.get()
        let server = FairPlayServer(authority)
        server.setTerms(terms)
        let loader = Listener(
            FairPlayLoader(
                service: LicenseService(url: "https://k/"),
                certificate: ApplicationCertificate(.data(authority.certificate)), transport: server))
        var configuration = KeySessionConfiguration()
        configuration.keyPayloadProvider = authority.provider
        configuration.expiredSessionReports = reports
        return (KeySession(loaders: [loader], configuration: configuration, clock: clock.clock), loader, server)
    }

    @Test func theReportIsPendingUntilItIsAcknowledged() async throws {
        let clock = ManualClock()
        let reports = try reports()
        let (session, loader, server) = try session(reports, clock: clock)
        let watcher = Watcher(session)
        for uri in ["skd://aa", "skd://bb"] {
            session.demand(KeyDemand(keyIDs: [session.keyID(forURI: uri)], keySystem: .fairPlay))
            _ = await watcher.next(where: \.isUsable)
        }
        // It runs, so there is nothing to report here; but another process would find it.
        #expect(try reports.pending() == [])
        let found = try self.reports().pending()
        #expect(found.map(\.ended) == [nil])
        clock.advance(by: .seconds(90))
        session.close(.sessionClosed(""))
        let report = try #require(await loader.reports.wait())
        #expect(report.started == ManualClock.date)
        #expect(report.ended == ManualClock.date + 90)
        #expect(report.contentIdentifiers == [Array("aa".utf8), Array("bb".utf8)])
        #expect(server.opened.map(\.playback?.sessionID) == [report.sessionIdentifier, report.sessionIdentifier])
        #expect(try reports.pending() == [report])
        try reports.remove([report])
        #expect(try reports.pending() == [])
    }

    @Test func aSessionThatAskedForNothingIsNotReported() async throws {
        let reports = try reports()
        let (session, _, _) = try session(reports)
        session.close(.sessionClosed(""))
        #expect(try reports.pending() == [])
    }

    @Test func theTextComesBackAndNothingElseDoes() throws {
        let report = ExpiredSessionReport(
            sessionIdentifier: 0xAB, started: 5, ended: nil, contentIdentifiers: [[1, 2], [3]])
        #expect(String(decoding: report.data, as: UTF8.self) == "LKSR 1\n00000000000000ab\n5\n-\n0102\n03\n")
        #expect(ExpiredSessionReport(data: report.data) == report)
        var ended = report
        ended.ended = 9
        #expect(ExpiredSessionReport(data: ended.data) == ended)
        var random = SeededGenerator(seed: 3)
        for _ in 0..<500 {
            if let read = ExpiredSessionReport(data: random.mutate(ended.data)) {
                #expect(ExpiredSessionReport(data: read.data) == read)
            }
        }
        let store = try FilePersistableKeyStore(folder: folder.path)
        try store.store(Array("junk".utf8), named: "session-1")
        try store.store([1], named: "key-1")
        #expect(try reports().pending() == [])
        #expect(try store.names() == ["key-1"])
    }

    @Test func theLoaderHearsOfTheOutputs() async throws {
        let (session, loader, _) = try session(nil, FairPlayTerms(outputRequirement: .hdcpType1))
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://aa")
        #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isUsable)
        #expect(session.outputRequirement(of: keyID) == .hdcpType1)
        #expect(session.externalProtectionStatus(of: keyID) == .pending)
        session.setExternalProtectionStatus(.insufficient, of: keyID)
        #expect(await loader.statuses.wait() == .insufficient)
        #expect(session.externalProtectionStatus(of: keyID) == .insufficient)
        session.setExternalProtectionStatus(.insufficient, of: keyID)
        session.setExternalProtectionStatus(.sufficient, of: keyID)
        #expect(await loader.statuses.wait() == .sufficient)
        session.install([keyID: contentKey(1)], terms: KeyTerms(outputRequirement: .unprotected))
        #expect(session.externalProtectionStatus(of: keyID) == .sufficient)
    }
}
