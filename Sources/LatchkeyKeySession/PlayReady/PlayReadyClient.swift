// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyHTTP
public import LatchkeyKeySystems
public import LatchkeyProtection
import LatchkeyStorage

/// PlayReady-style licenses on this device: acquires them, keeps them, and says what they allow.
///
/// It has what an application calls; `PlayReadyLoader` does the same for pipelines that ask for keys. Device, domains,
/// persistent licenses and clock are in the license store, which is opened at the first use and which several processes
/// may share. Nothing blocks a thread; everything ends soon after its task is cancelled.
public actor PlayReadyClient {
    /// What a client is made with. Prints without addresses' queries.
    public struct Configuration: Sendable {
        /// Who the device is made by, and whom it trusts.
        public var provisioning: PlayReadyProvisioning
        /// Where licenses are kept.
        public var store: LicenseStoreConfiguration
        /// Where challenges go. Nil: where the media says.
        public var licenseURL: String?
        /// Where requests to join a domain go, where the service does not say. Nil: where the challenge went.
        public var domainURL: String?
        /// The signed time service. Nil: there is none.
        public var timeURL: String?
        /// Sent to `licenseURL`, and nowhere else.
        public var headers: [HTTPHeader] = []
        /// For one exchange; nil leaves the transport's own.
        public var timeout: Duration?
        /// For the service, in the signed part of each challenge (`setCustomData`). Sent to `licenseURL`, `domainURL` and
        /// `customDataOrigins` only, and not to a service that media or another service names.
        public var customData: String?
        /// Further origins for `customData`, as `https://host:8443`; `*` stands for every service.
        public var customDataOrigins: [String] = []
        /// Which license URLs that media names are asked. URLs that services name, in redirects and for domains, have to be
        /// https or of the service's origin, unless this is `any`.
        public var mediaLicenseURLs = MediaLicenseURLs.https
        /// What the domain service calls this device. Sent to the origins of `licenseURL` and `domainURL` and to
        /// `customDataOrigins`, and to no other service that media or another service names.
        public var friendlyName: String?
        /// How strict the trusted clock is.
        public var clockPolicy = TrustedClockPolicy()
        /// How answers are checked, and what challenges say of the client.
        public var exchange = PlayReadyExchange.Options()
        /// What the device has; a secure clock among them is a promise of the application. Revocation lists are added
        /// if some are provisioned.
        public var features: [BCert.Feature] = [.antiRollbackClock, .playReady3]
        /// Gets a line for what failed and stops nothing, as an acknowledgement. No secret is in it.
        public var log: @Sendable (String) -> Void = { _ in }
        /// Called when the system clock was set back, once each time, and when the clock can be trusted, the first time or
        /// again. Called on any thread; must not block.
        public var onClockEvent: @Sendable (TrustedClock.Event) -> Void = { _ in }

        /// Licenses come from the URLs that media names, and services get no custom data.
        public init(provisioning: PlayReadyProvisioning, store: LicenseStoreConfiguration) {
            self.provisioning = provisioning
            self.store = store
        }
    }

    /// What is open while the client is in use.
    struct Parts: Sendable {
        let store: LicenseStore
        let clock: TrustedClock
        let firstPlays: FirstPlays
    }

    /// Licenses for the session alone that are remembered at most.
    private static let sessionLicenseLimit = 4096
    /// Licenses in the store that one key has at most, and one more where all of them have no end.
    static let licensesPerKey = 16
    private static let deviceID = RecordID(prefixOf: Array("latchkey device 1".utf8))

    /// What the client was made with.
    public nonisolated let configuration: Configuration
    package nonisolated let transport: any HTTPTransport
    nonisolated let clocks: any ClockSource
    nonisolated let sleep: @Sendable (Duration) async throws -> Void
    var customData: String?
    /// Those that are not in the store, latest last.
    var sessionLicenses: [InstalledLicense] = []
    /// Those that a task takes care of.
    var acknowledging: Set<RecordID> = []
    private var opening: Task<Result<Parts, LicenseStoreError>, Never>?
    /// On a thread of its own, which uses OpenSSL behind `ExitGate` alone.
    private let executor = StorageExecutor()

    /// That of a thread of its own.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Opens nothing yet; the store is opened at the first use.
    public init(configuration: Configuration, transport: any HTTPTransport = CurlTransport.shared) {
        self.init(configuration: configuration, transport: transport, clocks: SystemClocks()) {
            try await Task.sleep(for: $0)
        }
    }

    /// `sleep` waits between two attempts.
    package init(
        configuration: Configuration, transport: any HTTPTransport, clocks: any ClockSource,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.configuration = configuration
        self.transport = transport
        self.clocks = clocks
        self.sleep = sleep
        customData = configuration.customData
    }

    /// Sets what goes into challenges from now on, for the service to read: XML, say. Nil: nothing. Where it goes, the
    /// configuration says (`Configuration.customData`), also for a delegate.
    public func setCustomData(_ text: String?) { customData = text }

    /// The store, the clock and the first plays. A failure is not kept: the next call tries again, also where the store failed
    /// while it was in use.
    func parts() async throws(LicenseStoreError) -> Parts {
        if let opening, case .success(let parts) = await opening.value, await !parts.store.isOpen,
            self.opening == opening
        {
            self.opening = nil
        }
        let opening = opening ?? Task { [self] in await open() }
        self.opening = opening
        let result = await opening.value
        if case .failure = result, self.opening == opening { self.opening = nil }
        return try result.get()
    }

    private func open() async -> Result<Parts, LicenseStoreError> {
        do throws(LicenseStoreError) {
            let store = try await LicenseStore.open(configuration.store)
            let time = configuration.timeURL.map { url in
                PlayReadyTimeService(
                    url: url, transport: transport,
                    clientTime: { [clocks] in UInt32(clamping: clocks.reading().wall / 1000) }
                ) { [weak self] () throws(KeyError) in
                    guard let self else { throw KeyError.sessionClosed("the client is gone") }
                    let device = try await self.device(in: store)
                    do throws(LicenseStoreError) {
                        return (device, try await self.provisioning(in: store))
                    } catch {
                        throw KeyError(error)
                    }
                }.service
            }
            let clock = try await TrustedClock.open(
                storage: store, clocks: clocks, service: time, policy: configuration.clockPolicy,
                onEvent: { [configuration] event in
                    if case .lost(let error) = event { configuration.log("\(error)") }
                    configuration.onClockEvent(event)
                })
            let now = clock.now()
            if now.isTrusted { try await store.deleteRemovable(at: now.time) }
            let parts = Parts(store: store, clock: clock, firstPlays: FirstPlays(clock: clock, store: store))
            await resumeAcknowledgements(in: parts)
            return .success(parts)
        } catch {
            // The next call may make a new store: the log records the reason.
            configuration.log("\(error)")
            return .failure(error)
        }
    }

    // MARK: Device and domains

    /// The device; made where there is none, or where it is another model's.
    nonisolated func device(in store: LicenseStore) async throws(KeyError) -> PlayReadyDevice {
        let provisioning = configuration.provisioning
        do throws(LicenseStoreError) {
            let known = try await store.read { transaction throws(LicenseStoreError) in
                try Self.device(in: transaction, of: provisioning)
            }
            if let known { return known }
        } catch {
            throw KeyError(error)
        }
        let fresh = Result { () throws(PlayReadyError) in
            try provisioning.makeDevice(features: deviceFeatures)
        }
        do {
            return try await store.transaction { transaction throws(LicenseStoreError) in
                // Another process may have been faster.
                if let device = try Self.device(in: transaction, of: provisioning) { return device }
                return try Self.put(fresh, in: transaction)
            }
        } catch {
            throw KeyError(error)
        }
    }

    /// Makes the device anew. Licenses for the old one are of no use any more, and are acquired again.
    nonisolated func individualize(in store: LicenseStore) async throws(KeyError) {
        let provisioning = configuration.provisioning
        let fresh = Result { () throws(PlayReadyError) in
            try provisioning.makeDevice(features: deviceFeatures)
        }
        do {
            _ = try await store.transaction { transaction throws(LicenseStoreError) in
                try Self.put(fresh, in: transaction)
            }
        } catch {
            throw KeyError(error)
        }
    }

    private static func device(
        in transaction: LicenseStoreTransaction, of provisioning: PlayReadyProvisioning
    ) throws(LicenseStoreError) -> PlayReadyDevice? {
        guard let device = try storedDevice(in: transaction), device.isMade(by: provisioning) else { return nil }
        return device
    }

    /// However it was provisioned; nil if there is none that can be read.
    private static func storedDevice(
        in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> PlayReadyDevice? {
        guard var record = try transaction.record(deviceID) else { return nil }
        defer { wipe(&record.payload) }
        return try? PlayReadyDevice(stored: record.payload)
    }

    /// The keys of a store, however its device was provisioned; nil if it has no device.
    static func storedKeyring(in store: LicenseStore) async throws(LicenseStoreError) -> PlayReadyKeyring? {
        let device = try await store.read { transaction throws(LicenseStoreError) in
            try storedDevice(in: transaction)
        }
        guard let device else { return nil }
        return PlayReadyKeyring(device: device, memberships: try await memberships(in: store))
    }

    private static func put(
        _ fresh: Result<PlayReadyDevice, PlayReadyError>, in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> PlayReadyDevice {
        do {
            let device = try fresh.get()
            var record = LicenseRecord(
                id: deviceID, kind: .device, keySystem: .playReady, payload: try device.serialized())
            defer { wipe(&record.payload) }
            try transaction.put(record)
            return device
        } catch let error as LicenseStoreError {
            throw error
        } catch {
            throw .cryptography("no device can be made: \(error)")
        }
    }

    /// The keys that open licenses. A membership that cannot be read does not count.
    nonisolated func keyring(in store: LicenseStore) async throws(KeyError) -> PlayReadyKeyring {
        let device = try await device(in: store)
        do throws(LicenseStoreError) {
            return PlayReadyKeyring(device: device, memberships: try await Self.memberships(in: store))
        } catch {
            throw KeyError(error)
        }
    }

    private static func memberships(in store: LicenseStore) async throws(LicenseStoreError) -> [PlayReadyMembership] {
        try await store.read { transaction throws(LicenseStoreError) in
            var memberships: [PlayReadyMembership] = []
            for summary in try transaction.list(kind: .domain) where summary.keySystem == .playReady {
                guard var record = try transaction.record(summary.id) else { continue }
                defer { wipe(&record.payload) }
                if let membership = try? PlayReadyMembership(reading: record.payload) { memberships.append(membership) }
            }
            return memberships
        }
    }

    /// Seconds since 1970 by the system clock, as challenges say it.
    nonisolated var clientTime: UInt32 { UInt32(clamping: clocks.reading().wall / 1000) }
}

extension PlayReadyClient.Configuration: Redacted {
    /// The URL of the license service without its query. Never keys or custom data.
    public var description: String {
        "PlayReady-style client" + (licenseURL.map { " of \(HTTPRequest(url: $0).printableURL)" } ?? "")
    }
}

/// A license that was opened, and how it is kept.
struct InstalledLicense: Sendable {
    let license: PlayReadyLicense
    let id: RecordID
    /// When it was stored; nil for one that is for a session only.
    let stored: UInt32?
    /// That of the request that brought it in this session; nil where it came from the store.
    let nonce: [UInt8]?
    /// The session that it is for; nil until one has taken it.
    var session: UInt64?

    var isPersistent: Bool { !license.terms.cannotPersist }
}

/// What content says of a license service beside its header, and where the content came from.
struct MediaPlace: Sendable {
    var suggestedURL: String?
    var mediaURL: String?
    var cookies: CookieStore?
}

extension MediaPlace {
    init(_ request: KeyLoadingRequest) {
        self.init(suggestedURL: request.suggestedURL, mediaURL: request.mediaURL, cookies: request.cookies)
    }
}

extension PlayReadyClient {
    /// Acquires the licenses for some content and keeps them, as the persistence of each allows.
    ///
    /// `initializationData` is a `pssh` box, a PlayReady object, or a header. With a delegate, that sends the challenges;
    /// without, the client does, to the configured address or the one in the header. Faults are answered as their number
    /// asks for: join the domain and ask once more, go where it redirects to, ask later, make the device anew. `mediaURL` is
    /// where the content came from, for `Configuration.mediaLicenseURLs`; nil: not known. Returns
    /// the KIDs of the licenses. A license that was acquired need not be valid now: see `rightsStatus`.
    ///
    /// Throws why there is none: the service's fault with `action` and custom data, an answer that is not genuine, the
    /// network, the store, or data without a header.
    @discardableResult
    public func acquireLicense(
        for initializationData: [UInt8], mediaURL: String? = nil, delegate: (any PlayReadyDelegate)? = nil
    ) async throws(PlayReadyAcquisitionError) -> [KeyID] {
        let header = try Self.header(of: initializationData)
        let place = MediaPlace(mediaURL: mediaURL)
        return try await acquire(header, place, session: nil, delegate: delegate).map(\.license.keyID)
    }

    /// The same for keys of content that may have no header; `suggestedURL` is what the content says beside one.
    package func acquireLicense(
        forKeys keyIDs: [KeyID], data: [InitializationData], suggestedURL: String?, mediaURL: String?,
        cookies: CookieStore?, delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        let need = try PlayReadyNeed(keyIDs: keyIDs, data: data)
        for header in try need.headers(for: need.keyIDs) {
            let place = MediaPlace(suggestedURL: suggestedURL, mediaURL: mediaURL, cookies: cookies)
            _ = try await acquire(header, place, session: nil, delegate: delegate)
        }
    }

    /// The same for what a pipeline asks for; licenses that are for one session only are for that one.
    package func acquireLicense(
        for request: KeyLoadingRequest, delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        let need = try PlayReadyNeed(request)
        for header in try need.headers(for: need.keyIDs) {
            _ = try await acquire(
                header, MediaPlace(request), session: request.playbackSessionID, delegate: delegate)
        }
    }

    /// Throws `malformedRequest` where there is no header.
    static func header(of initializationData: [UInt8]) throws(PlayReadyAcquisitionError) -> WRMHeader {
        do throws(FormatError) {
            let object = try PlayReadyObject(initializationData: initializationData)
            if let header = try object.header() { return header }
        } catch {
            throw PlayReadyAcquisitionError(KeyError(error))
        }
        throw PlayReadyAcquisitionError(KeyError.malformedRequest("the PlayReady object has no header"))
    }

    func acquire(
        _ header: WRMHeader, _ place: MediaPlace, session: UInt64?, delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) -> [InstalledLicense] {
        let parts: Parts
        do throws(LicenseStoreError) { parts = try await self.parts() } catch { throw .init(error) }
        let mediaURL = place.suggestedURL ?? header.details.licenseAcquisitionURL
        guard let url = configuration.licenseURL ?? mediaURL else {
            throw .init(
                KeyError.invalidConfiguration("the media names no license service; set license-url in [playready]"))
        }
        var service = NamedService(
            url: url, namedBy: configuration.licenseURL == nil ? .media(place.mediaURL) : .settings,
            cookies: place.cookies)
        var recovery = PlayReadyRecovery()
        while true {
            do throws(PlayReadyAcquisitionError) {
                return try await exchange(header, service, parts, session: session, delegate)
            } catch {
                guard let cause = error.cause, !Task.isCancelled else { throw error }
                switch recovery.step(after: cause) {
                case .fail: throw error
                case .askAgain(let other):
                    guard !HTTPRequest.isDowngrade(from: service.url, to: other) else {
                        throw .init(cause.adding("it redirects from https to http, which is refused"))
                    }
                    service = named(other, by: service)
                case .askLater(let pause):
                    guard (try? await sleep(pause)) != nil else { throw error }
                case .individualize:
                    // Faults are not signed, and licenses for the old device are of no use any more.
                    guard service.url == configuration.licenseURL else {
                        throw .init(cause.adding("only the service of license-url may ask for that"))
                    }
                    do throws(KeyError) { try await individualize(in: parts.store) } catch { throw .init(error) }
                case .joinDomain(let fault):
                    let domain = domainURL(fault).map { named($0, by: service) } ?? service
                    let customData = mayHaveCustomData(domain.url) ? customData : nil
                    try await join(.init(fault: fault, customData: customData), domain, delegate)
                }
            }
        }
    }

    private func domainURL(_ fault: PlayReadyFault) -> String? {
        fault.domainServerURL.flatMap { $0.isEmpty ? nil : $0 } ?? configuration.domainURL
    }

    /// What a service says of where to go on.
    private func named(_ url: String, by service: NamedService) -> NamedService {
        let isConfigured = [configuration.licenseURL, configuration.domainURL].contains(url)
        return NamedService(
            url: url, namedBy: isConfigured ? .settings : source(namedBy: service), cookies: service.cookies)
    }

    private func source(namedBy service: NamedService) -> NamedService.Source {
        .service(service.url, forbidsLocalAddresses: service.forbidsLocalAddresses(configuration.mediaLicenseURLs))
    }

    /// Custom data may tell who the user is, and is for services that the settings name.
    private func mayHaveCustomData(_ url: String) -> Bool {
        if [configuration.licenseURL, configuration.domainURL].contains(url) { return true }
        let origin = HTTPRequest(url: url).origin
        return configuration.customDataOrigins.contains {
            $0 == "*" || !origin.isEmpty && HTTPRequest(url: $0).origin == origin
        }
    }

    /// It may tell who the user is, too. The service of the settings may name another place of its own.
    private func mayHaveFriendlyName(_ service: NamedService) -> Bool {
        if case .settings = service.namedBy { return true }
        let origin = HTTPRequest(url: service.url).origin
        let own = [configuration.licenseURL, configuration.domainURL].compactMap { $0 }
        let isOwn = !origin.isEmpty && own.contains { HTTPRequest(url: $0).origin == origin }
        return isOwn || mayHaveCustomData(service.url)
    }

    /// One challenge and its answer.
    private func exchange(
        _ header: WRMHeader, _ service: NamedService, _ parts: Parts, session: UInt64?,
        _ delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) -> [InstalledLicense] {
        let url = service.url
        let keyring: PlayReadyKeyring
        do throws(KeyError) { keyring = try await self.keyring(in: parts.store) } catch { throw .init(error) }
        let provisioning: PlayReadyProvisioning
        do throws(LicenseStoreError) { provisioning = try await self.provisioning(in: parts.store) } catch {
            throw .init(error)
        }
        var options = configuration.exchange
        options.customData = mayHaveCustomData(url) ? customData ?? options.customData : nil
        let exchange: PlayReadyExchange
        do throws(PlayReadyError) {
            exchange = try PlayReadyExchange(
                header: header, keyring: keyring, provisioning: provisioning, clientTime: clientTime,
                options: options)
        } catch {
            throw .init(error)
        }
        let body = try await send(.acquireLicense, exchange.request, to: service, delegate)
        // They count whatever else is in the answer, so that a revoked party cannot hold them back.
        let lists = exchange.revocationLists(in: body) { [configuration] error in
            configuration.log("a revocation list from \(HTTPRequest(url: url).printableURL) is of no use: \(error)")
        }
        do throws(LicenseStoreError) { try await keep(lists, in: parts) } catch { throw .init(error) }
        let answer: PlayReadyExchange.Answer
        do throws(PlayReadyError) {
            answer = try exchange.open(response: body, now: parts.clock.now().trustedSeconds)
        } catch {
            throw .init(error.adding("from \(HTTPRequest(url: url).printableURL)"))
        }
        let installed = try await install(answer, from: service, nonce: exchange.nonce, session: session, parts)
        // The keys are usable now; the service is notified meanwhile.
        if answer.transactionID != nil { await resumeAcknowledgements(in: parts) }
        return installed
    }

    func send(
        _ operation: PlayReadyOperation, _ challenge: [UInt8], to service: NamedService,
        _ delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) -> [UInt8] {
        let url = service.url
        // Fields may hold credentials, and those are for the configured service.
        let isConfigured = url == configuration.licenseURL
        let request = PlayReadyServiceRequest(
            operation, url: url, headers: isConfigured ? configuration.headers : [], challenge: challenge,
            timeout: configuration.timeout, mayCarrySessionToken: isConfigured && operation == .acquireLicense,
            customData: customData, check: service.check(configuration.mediaLicenseURLs), cookies: service.cookies,
            transport: transport)
        do throws(KeyError) {
            switch (delegate, operation) {
            case (let delegate?, .acquireLicense): return try await delegate.performLicenseAcquisition(request)
            case (let delegate?, .joinDomain): return try await delegate.performJoinDomain(request)
            default: return try await request.send()
            }
        } catch {
            throw .init(error)
        }
    }

    /// What may be stored is on disk when this returns. Licenses for the same keys whose end is past go.
    private func install(
        _ answer: PlayReadyExchange.Answer, from service: NamedService, nonce: [UInt8], session: UInt64?, _ parts: Parts
    ) async throws(PlayReadyAcquisitionError) -> [InstalledLicense] {
        let now = parts.clock.now()
        let ids = RecordID.forLicenses(answer.licenses.map { ($0.xmr.rightsID, $0.keyID) })
        let installed = zip(answer.licenses, ids).map { license, id in
            InstalledLicense(
                license: license, id: id,
                stored: license.terms.cannotPersist ? nil : UInt32(clamping: now.time.seconds), nonce: nonce,
                session: license.terms.cannotPersist ? session : nil)
        }
        let records = installed.filter(\.isPersistent).map(\.record)
        do throws(LicenseStoreError) {
            let isForbidden = service.forbidsLocalAddresses(configuration.mediaLicenseURLs)
            let pending = answer.transactionID.map {
                PendingAcknowledgement(transactionID: $0, url: service.url, forbidsLocalAddresses: isForbidden)
            }
            if !records.isEmpty || pending != nil {
                try await parts.store.transaction { transaction throws(LicenseStoreError) in
                    for record in records {
                        for keyID in record.keyIDs where now.isTrusted {
                            for old in try transaction.records(for: keyID, kind: .license)
                            where old.keySystem == .playReady && Self.isOver(old, at: now.time, in: transaction) {
                                _ = try transaction.delete(old.id)
                            }
                        }
                        try transaction.put(record)
                        for keyID in record.keyIDs { try Self.deleteSurplus(for: keyID, in: transaction) }
                    }
                    if let pending { try Self.acknowledgement(pending, in: transaction, at: now) }
                }
            }
        } catch {
            throw .init(error)
        }
        for license in installed where !license.isPersistent { remember(license) }
        return installed
    }

    /// Where the time is not known, no license is known to be over, and each acquisition would add one for ever. Of those
    /// for a key, the latest stays, and those that are good for longest.
    private static func deleteSurplus(
        for keyID: KeyID, in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) {
        let records = try transaction.records(for: keyID, kind: .license).filter { $0.keySystem == .playReady }
        let dated = records.filter { $0.ends != nil }.sorted { left, right in
            left.ends.flatMap { left in right.ends.map { left > $0 } } ?? false
        }
        let ordered = records.filter { $0.ends == nil } + dated
        // The latest one is what was asked for just now.
        let kept = Set(records.prefix(1).map(\.id) + ordered.prefix(licensesPerKey).map(\.id))
        for record in records where !kept.contains(record.id) { _ = try transaction.delete(record.id) }
    }

    /// Whether a license's end is past: its date, or the time after its first play. The mark of that play stays.
    private static func isOver(
        _ record: LicenseRecord, at now: UnixTime, in transaction: LicenseStoreTransaction
    ) -> Bool {
        if let ends = record.ends, ends <= now { return true }
        guard let terms = try? XMRTerms(XMRLicense(reading: Array(record.payload.dropFirst(5)))),
            let seconds = [terms.expirationAfterFirstPlay, terms.expirationAfterFirstUse].compactMap(\.self).min(),
            let mark = (try? LicenseStore.firstPlay(of: FirstPlays.Names(of: record), in: transaction)).flatMap(\.self)
        else { return false }
        return mark.advanced(bySeconds: Int64(seconds)) <= now
    }

    private func remember(_ license: InstalledLicense) {
        sessionLicenses.removeAll {
            $0.license.keyID == license.license.keyID && ($0.session == nil || $0.session == license.session)
        }
        if sessionLicenses.count >= Self.sessionLicenseLimit { sessionLicenses.removeFirst() }
        sessionLicenses.append(license)
    }
}

extension RecordID {
    /// The ids of licenses of one answer. A service may give several licenses one rights id: those for different keys
    /// differ by the KID, and those for one key by their place among each other.
    static func forLicenses(_ licenses: [(rightsID: GUID, keyID: KeyID)]) -> [RecordID] {
        var seen: [[UInt8]: UInt8] = [:]
        return licenses.map { license in
            let name = license.rightsID.uuidOrderBytes + license.keyID.bytes
            let place = seen[name, default: 0]
            seen[name] = place &+ 1
            return RecordID(prefixOf: (try? Digest.sha256(name + [place])) ?? license.rightsID.uuidOrderBytes)
        }
    }
}

extension HTTPRequest {
    fileprivate static func isDowngrade(from url: String, to other: String) -> Bool {
        url.lowercased().hasPrefix("https:") && !other.lowercased().hasPrefix("https:")
    }
}

extension TrustedTime {
    /// Seconds since 1970; nil where the clock is not to be trusted.
    var trustedSeconds: UInt32? { isTrusted ? UInt32(clamping: time.seconds) : nil }
}

extension InstalledLicense {
    /// What the store keeps, version 1 of Latchkey's own format: UInt8 version, UInt32 when it was stored (seconds since
    /// 1970, big-endian), and the license as it came.
    var record: LicenseRecord {
        var payload: [UInt8] = [1]
        payload.appendBigEndian(UInt64(stored ?? 0), size: 4)
        func date(_ seconds: UInt32?) -> UnixTime? { seconds.map { UnixTime(seconds: Int64($0)) } }
        return LicenseRecord(
            id: id, kind: .license, keySystem: .playReady, keyIDs: [license.keyID], begins: date(license.terms.begin),
            ends: date(license.terms.end), removal: date(license.terms.removalDate),
            payload: payload + license.xmr.bytes)
    }

    /// Throws as `PlayReadyLicense` does.
    init(_ record: LicenseRecord, keyring: PlayReadyKeyring) throws(PlayReadyError) {
        var reader = ByteReader(record.payload, structure: "stored license")
        do throws(FormatError) {
            guard try reader.readUInt8() == 1 else { throw .unsupported("another version of a stored license") }
            stored = try reader.readUInt32()
        } catch {
            throw .malformedResponse("\(error)")
        }
        license = try PlayReadyLicense(reading: Array(record.payload.dropFirst(5)), keyring: keyring)
        id = record.id
        nonce = nil
        session = nil
    }
}

extension PlayReadyClient {
    /// Joins a domain and keeps the membership, in the place of an older one of the same domain.
    ///
    /// With a delegate, that sends the challenge to `url`. Services that need a domain say so when a license is asked
    /// for, and it is joined then: this is for applications that join ahead. Throws the service's fault, an answer that
    /// is not genuine, the network's failure or the store's.
    public func joinDomain(
        _ parameters: PlayReadyDomainExchange.Parameters, at url: String, delegate: (any PlayReadyDelegate)? = nil
    ) async throws(PlayReadyAcquisitionError) {
        try await join(parameters, NamedService(url: url, namedBy: .settings), delegate)
    }

    /// The domains that this device is a member of. Throws where the store or the provisioning cannot be used.
    public func domains() async throws(PlayReadyAcquisitionError) -> [PlayReadyMembership] {
        do {
            return try await keyring(in: try await parts().store).memberships
        } catch let error as KeyError {
            throw .init(error)
        } catch {
            throw .init(KeyError.invalidConfiguration("\(error)"))
        }
    }

    /// Leaves a domain: notifies the service, then forgets the membership. Licenses of the domain are of no use any
    /// more. If the service knows no such member, the membership is forgotten all the same. Throws `domainRequired` if
    /// this device is no member; otherwise as `joinDomain` does, and the membership stays.
    public func leaveDomain(_ accountID: GUID, at url: String) async throws(PlayReadyAcquisitionError) {
        guard let membership = try await domains().first(where: { $0.accountID == accountID }) else {
            throw .init(PlayReadyError.domainRequired("this device is no member of \(accountID)"))
        }
        let parts: Parts
        do throws(LicenseStoreError) { parts = try await self.parts() } catch { throw .init(error) }
        do {
            let exchange = try PlayReadyDomainExchange.leave(
                membership, customData: customData, device: try await device(in: parts.store),
                provisioning: try await provisioning(in: parts.store), clientTime: clientTime)
            let body = try await send(
                .leaveDomain, exchange.request, to: NamedService(url: url, namedBy: .settings), nil)
            try exchange.confirmLeaving(response: body, now: parts.clock.now().trustedSeconds)
        } catch let error as PlayReadyError where error.fault?.code == PlayReadyFault.notAMember {
            // It was left before, and the answer was lost.
        } catch let error as PlayReadyError {
            throw .init(error.adding("from \(HTTPRequest(url: url).printableURL)"))
        } catch let error as KeyError {
            throw .init(error)
        } catch let error as PlayReadyAcquisitionError {
            throw error
        } catch let error as LicenseStoreError {
            throw .init(error)
        } catch {
            throw .init(KeyError.malformedRequest("\(error)"))
        }
        try await forgetDomain(accountID, parts)
    }

    func join(
        _ parameters: PlayReadyDomainExchange.Parameters, _ service: NamedService,
        _ delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        var parameters = parameters
        if parameters.friendlyName == nil, mayHaveFriendlyName(service) {
            parameters.friendlyName = configuration.friendlyName
        }
        let parts: Parts
        do throws(LicenseStoreError) { parts = try await self.parts() } catch { throw .init(error) }
        let device: PlayReadyDevice
        do throws(KeyError) { device = try await self.device(in: parts.store) } catch { throw .init(error) }
        let provisioning: PlayReadyProvisioning
        do throws(LicenseStoreError) { provisioning = try await self.provisioning(in: parts.store) } catch {
            throw .init(error)
        }
        let exchange: PlayReadyDomainExchange
        do throws(PlayReadyError) {
            exchange = try .join(
                parameters, device: device, provisioning: provisioning, clientTime: clientTime)
        } catch {
            throw .init(error)
        }
        let body = try await send(.joinDomain, exchange.request, to: service, delegate)
        do {
            let membership = try exchange.membership(response: body, now: parts.clock.now().trustedSeconds)
            var record = LicenseRecord(
                id: Self.recordID(of: membership.accountID), kind: .domain, keySystem: .playReady,
                contentID: membership.accountID.uuidOrderBytes, payload: try membership.serialized())
            defer { wipe(&record.payload) }
            try await parts.store.put(record)
        } catch let error as PlayReadyError {
            throw .init(error.adding("from \(HTTPRequest(url: service.url).printableURL)"))
        } catch let error as LicenseStoreError {
            throw .init(error)
        } catch {
            throw .init(KeyError.malformedResponse("\(error)"))
        }
    }

    private func forgetDomain(_ accountID: GUID, _ parts: Parts) async throws(PlayReadyAcquisitionError) {
        do throws(LicenseStoreError) {
            try await parts.store.delete(Self.recordID(of: accountID))
        } catch {
            throw .init(error)
        }
    }

    /// A membership's own id follows from the account, so that there is one at most.
    private static func recordID(of accountID: GUID) -> RecordID {
        RecordID(prefixOf: zip(accountID.uuidOrderBytes, Array("latchkey domain ".utf8)).map { $0 ^ $1 })
    }
}

extension PlayReadyClient {
    /// What was provisioned, with the newer revocation lists that services sent, to this process or another.
    nonisolated func provisioning(
        in store: LicenseStore
    ) async throws(LicenseStoreError) -> PlayReadyProvisioning {
        let lists = try await store.read { transaction throws(LicenseStoreError) in
            var lists: [RevocationList] = []
            for summary in try transaction.list(kind: .revocationList) where summary.keySystem == .playReady {
                guard let record = try transaction.record(summary.id) else { continue }
                if let list = try? RevocationList(reading: record.payload) { lists.append(list) }
            }
            return lists
        }
        return lists.isEmpty ? configuration.provisioning : configuration.provisioning.adding(lists)
    }

    /// Keeps lists that were checked, each in the place of an older one.
    func keep(_ lists: [RevocationList], in parts: Parts) async throws(LicenseStoreError) {
        guard !lists.isEmpty else { return }
        try await parts.store.transaction { transaction throws(LicenseStoreError) in
            for list in lists {
                let id = RecordID(
                    prefixOf: zip(list.id.uuidOrderBytes, Array("latchkey revoked".utf8)).map { $0 ^ $1 })
                let known = try transaction.record(id).flatMap { try? RevocationList(reading: $0.payload) }
                guard known.map({ $0.version < list.version }) ?? true else { continue }
                try transaction.put(
                    LicenseRecord(id: id, kind: .revocationList, keySystem: .playReady, payload: list.bytes))
            }
        }
    }

    /// What a device of this client declares.
    private nonisolated var deviceFeatures: [BCert.Feature] {
        let features = configuration.features
        guard !configuration.provisioning.revocations.lists.isEmpty, !features.contains(.revocationLists) else {
            return features
        }
        return features + [.revocationLists]
    }
}
