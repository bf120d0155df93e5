// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
public import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyStorage

/// PlayReady-style licences on this device: acquires them, keeps them, and says what they allow.
///
/// It has what an application calls; `PlayReadyLoader` does the same for pipelines that ask for keys. Device, domains,
/// persistent licences and clock are in the licence store, which is opened at the first use and which several processes
/// may share. Nothing blocks a thread; everything ends soon after its task is cancelled.
public actor PlayReadyClient {
    /// What a client is made with. Prints without addresses' queries.
    public struct Configuration: Sendable {
        /// Who the device is made by, and whom it trusts.
        public var provisioning: PlayReadyProvisioning
        /// Where licences are kept.
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
        /// What the domain service calls this device.
        public var friendlyName: String?
        /// How strict the trusted clock is.
        public var clockPolicy = TrustedClockPolicy()
        /// How answers are checked, and what challenges say of the client.
        public var exchange = PlayReadyExchange.Options()
        /// What the device has; a secure clock among them is a promise of whoever sets it. Revocation lists are added
        /// where some are provisioned.
        public var features: [BCert.Feature] = [.antiRollbackClock, .playReady3]
        /// Gets a line for what failed and stops nothing, as an acknowledgement. No secret is in it.
        public var log: @Sendable (String) -> Void = { _ in }
        /// Hears that the system clock was set back, once each time, and that the clock can be trusted, the first time or
        /// again. Called on any thread; must not block.
        public var onClockEvent: @Sendable (TrustedClock.Event) -> Void = { _ in }

        /// Licences come from the URLs that media names, and services get no custom data.
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

    /// Licences for the session alone that are remembered at most.
    static let sessionLicenseLimit = 4096
    /// Licences in the store that one key has at most, and one more where all of them have no end.
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
            // The next call may make a new store: nobody is to find that out by licences that are gone.
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

    /// Makes the device anew. Licences for the old one are of no use any more, and are acquired again.
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

    /// Whoever made it; nil where there is none that can be read.
    private static func storedDevice(
        in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> PlayReadyDevice? {
        guard var record = try transaction.record(deviceID) else { return nil }
        defer { wipe(&record.payload) }
        return try? PlayReadyDevice(stored: record.payload)
    }

    /// The keys of a store whoever provisioned its device; nil where it has no device.
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

    /// The keys that open licences. A membership that cannot be read does not count.
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

extension PlayReadyClient.Configuration: CustomStringConvertible, CustomReflectable {
    /// The URL of the licence service without its query. Never keys or custom data.
    public var description: String {
        "PlayReady-style client" + (licenseURL.map { " of \(HTTPRequest(url: $0).printableURL)" } ?? "")
    }
    /// Empty: the configuration holds the model's private key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
