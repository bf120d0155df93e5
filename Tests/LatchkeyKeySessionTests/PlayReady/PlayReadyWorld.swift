// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// A license, domain and time service in this process, behind a transport.
final class PlayReadyService: HTTPTransport {
    static let authority = Result { try PlayReadyTestAuthority.generate() }
    static let otherAuthority = Result { try PlayReadyTestAuthority.generate() }
    static let url = "https://licenses.example/rights"
    static let accountID = GUID("4C4B444D-0000-0000-0000-0000000000AA")!
    private static let serviceID = GUID("4C4B5356-0000-0000-0000-0000000000AA")!

    private struct State {
        var policy = ""
        var time: Int64
        var domains: PlayReadyDomainController
        var requests: [(operation: PlayReadyOperation, request: HTTPRequest)] = []
        var failures: [HTTPError] = []
        /// Answers in place of the service's own.
        var faults: [PlayReadyFault] = []
        var customData: [String?] = []
        var transactions: Set<[UInt8]> = []
        var isOffline = false
        var hasTimeService = true
        var takesAcknowledgements = true
    }

    private let server: PlayReadyLicenseServer
    private let state: Mutex<State>
    /// Says when a request has come in, and lets it go on when the stream ends.
    let gate = Mutex<(@Sendable () async -> Void)?>(nil)

    init(time: Int64, memberLimit: Int = 1) throws {
        let authority = try Self.authority.get()
        server = PlayReadyLicenseServer(authority: authority)
        var domains = PlayReadyDomainController(serviceID: Self.serviceID, authority: authority)
        try domains.add(accountID: Self.accountID, memberLimit: memberLimit, url: "")
        state = Mutex(State(time: time, domains: domains))
    }

    /// In the language of the reference server; `@+60` stands for the time in 60 seconds.
    func setPolicy(_ query: String) { state.withLock { $0.policy = query } }
    func pass(_ seconds: Int64) { state.withLock { $0.time += seconds } }
    func setOffline(_ isOffline: Bool) { state.withLock { $0.isOffline = isOffline } }
    func setTimeService(_ isThere: Bool) { state.withLock { $0.hasTimeService = isThere } }
    func setAcknowledgements(_ areTaken: Bool) { state.withLock { $0.takesAcknowledgements = areTaken } }
    func forgetTransactions() { state.withLock { $0.transactions = [] } }
    func fail(_ errors: HTTPError...) { state.withLock { $0.failures += errors } }
    func answer(_ faults: PlayReadyFault...) { state.withLock { $0.faults += faults } }
    func renewDomain() throws { try state.withLock { try $0.domains.renew(accountID: Self.accountID) } }

    /// The service loses all members.
    func resetDomain() throws {
        let authority = try Self.authority.get()
        try state.withLock { state in
            state.domains = PlayReadyDomainController(serviceID: Self.serviceID, authority: authority)
            try state.domains.add(accountID: Self.accountID, memberLimit: 1, url: "")
        }
    }

    func requests(_ operation: PlayReadyOperation) -> [HTTPRequest] {
        state.withLock { $0.requests.filter { $0.operation == operation }.map(\.request) }
    }

    var operations: [PlayReadyOperation] { state.withLock { $0.requests.map(\.operation) } }
    /// Of each license request.
    var customData: [String?] { state.withLock { $0.customData } }
    /// Transactions that wait for an acknowledgement.
    var openTransactions: Int { state.withLock { $0.transactions.count } }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let action = request.headers.first { $0.name == "SOAPAction" }?.value ?? ""
        guard let operation = PlayReadyOperation(soapAction: action) else {
            return HTTPResponse(status: 400, url: request.url)
        }
        let wait = gate.withLock { $0 }
        await wait?()
        if Task.isCancelled { throw .cancelled(request.url) }
        let answer = try state.withLock { state throws(HTTPError) -> PlayReadyLicenseServer.Answer in
            state.requests.append((operation, request))
            if let failure = state.failures.first {
                state.failures.removeFirst()
                throw failure
            }
            if state.isOffline || operation == .getTime && !state.hasTimeService
                || operation == .acknowledgeLicense && !state.takesAcknowledgements
            {
                throw .refused(request.url, "offline")
            }
            if let fault = state.faults.first {
                state.faults.removeFirst()
                return .init(fault: fault)
            }
            let now = UInt32(clamping: state.time)
            switch operation {
            case .acquireLicense:
                let answer = respond(to: request.body, &state, now)
                state.customData.append(answer.customData)
                return answer
            case .acknowledgeLicense:
                return server.acknowledge(request.body, now: now) { state.transactions.remove($0) != nil }
            case .joinDomain, .leaveDomain: return state.domains.respond(to: request.body, operation, now: now)
            case .getTime: return server.time(request.body, now: now)
            }
        }
        return HTTPResponse(status: answer.status, body: answer.body, url: request.url)
    }

    private func respond(
        to challenge: [UInt8], _ state: inout State, _ now: UInt32
    ) -> PlayReadyLicenseServer.Answer {
        do {
            let policy = try PlayReadyServerPolicy(query: Self.dated(state.policy, state.time))
            if let id = policy.transactionID { state.transactions.insert(id) }
            return server.respond(to: challenge, policy: policy, now: now, domains: state.domains) {
                $0 == keyID(1) || $0 == keyID(2) ? contentKey($0 == keyID(1) ? 1 : 2) : nil
            }
        } catch {
            return .init(fault: PlayReadyFault(code: PlayReadyFault.invalidMessage, text: "\(error)"))
        }
    }

    static func dated(_ query: String, _ time: Int64) -> String {
        query.split(separator: "@", omittingEmptySubsequences: false).enumerated().map { index, part in
            guard index > 0 else { return String(part) }
            let number = part.prefix { $0 == "+" || $0 == "-" || $0.isNumber }
            return "\(time + (Int64(number) ?? 0))" + part.dropFirst(number.count)
        }.joined()
    }
}

/// A device with its store, its clock and a service: what the PlayReady tests have in common.
final class PlayReadyWorld: Sendable {
    let service: PlayReadyService
    let machine: TestMachine
    let folder: StoreFolder
    let log = Mutex<[String]>([])
    let pauses = Mutex<[Duration]>([])
    private let current: Mutex<PlayReadyLoader?>
    private let configure: @Sendable (inout PlayReadyClient.Configuration) -> Void

    init(
        memberLimit: Int = 1, time: Int64 = day(0),
        _ configure: @escaping @Sendable (inout PlayReadyClient.Configuration) -> Void = { _ in }
    ) throws {
        machine = TestMachine(wall: time)
        service = try PlayReadyService(time: time, memberLimit: memberLimit)
        folder = try StoreFolder()
        current = Mutex(nil)
        self.configure = configure
        try start()
    }

    var loader: PlayReadyLoader { current.withLock { $0! } }
    var client: PlayReadyClient { loader.client }

    /// A process begins, with what is on disk.
    func start(
        delegate: (any PlayReadyDelegate)? = nil, acquires: Bool = true, renews: Bool = true,
        authority: PlayReadyTestAuthority? = nil
    ) throws {
        var configuration = PlayReadyClient.Configuration(
            provisioning: try (authority ?? PlayReadyService.authority.get()).provisioning(),
            store: folder.configuration)
        configuration.timeURL = "https://time.example/"
        configuration.log = { [weak self] line in self?.log.withLock { $0.append(line) } }
        configure(&configuration)
        let client = PlayReadyClient(
            configuration: configuration, transport: service, clocks: machine,
            sleep: { [weak self] pause in self?.pauses.withLock { $0.append(pause) } })
        let loader = PlayReadyLoader(client: client, delegate: delegate, acquires: acquires, renews: renews)
        // The old one goes after the lock.
        let old = current.withLock { current in
            defer { current = loader }
            return current
        }
        withExtendedLifetime(old) {}
    }

    /// Time goes by, for the device and for the service.
    func pass(_ seconds: Int64) {
        machine.pass(seconds: seconds)
        service.pass(seconds)
    }

    static func header(_ numbers: [Int] = [1], url: String? = PlayReadyService.url) throws -> WRMHeader {
        try WRMHeader(
            version: .v4_3, keys: numbers.map { WRMHeader.Key(keyID($0)) }, details: .init(licenseAcquisitionURL: url))
    }

    static func data(_ numbers: [Int] = [1], url: String? = PlayReadyService.url) throws -> [UInt8] {
        try PlayReadyObject(header: header(numbers, url: url)).serialized()
    }

    func demand(_ session: KeySession, _ numbers: [Int] = [1]) throws {
        session.demand(
            KeyDemand(
                keyIDs: numbers.map { keyID($0) }, keySystem: .playReady,
                initializationData: [
                    InitializationData(system: .playReady, bytes: try Self.data(numbers), origin: "test")
                ], retryFailuresUpTo: session.generation))
    }

    /// A session of its own asks for key 1. The error, or nil where the key is usable, and is the right one.
    func outcome() async throws -> KeyError? {
        let session = KeySession(loaders: [loader], clock: ManualClock().clock)
        return try await outcome(in: session)
    }

    func outcome(in session: KeySession, _ numbers: [Int] = [1]) async throws -> KeyError? {
        let watcher = Watcher(session)
        try demand(session, numbers)
        _ = await watcher.next { $0.isFailed || $0.isUsable || $0.isUntaken }
        for number in numbers {
            guard let key = session.status(of: keyID(number)).key else {
                return session.status(of: keyID(number)).error ?? .noLoader("")
            }
            #expect(hex(key) == keyHex(number))
        }
        return nil
    }

    /// Waits until every service has heard.
    func noAcknowledgementIsDue() async throws {
        let store = try await client.parts().store
        while try await !store.list(kind: .acknowledgement).isEmpty { await Task.yield() }
    }

    func rights() async throws -> RightsStatus { try await client.rightsStatus(for: Self.data()) }

    /// A session plays: the key comes, and its first sample is decrypted.
    @discardableResult
    func play() async throws -> KeySession {
        let session = KeySession(loaders: [loader], clock: ManualClock().clock)
        try #require(try await outcome(in: session) == nil)
        session.didStartPlaying(keyID(1))
        while try await client.firstPlay(ofKey: keyID(1)) == nil { await Task.yield() }
        return session
    }
}

extension PlayReadyClient {
    /// Of the license for a key.
    func firstPlay(ofKey keyID: KeyID) async throws -> UnixTime? {
        let parts = try await parts()
        let stored = try await parts.store.records(for: keyID, kind: .license).map(\.id)
        for id in stored + sessionLicenses.filter({ $0.license.keyID == keyID }).map(\.id) {
            if let mark = try await parts.firstPlays.firstPlay(of: id) { return mark }
        }
        return nil
    }
}
