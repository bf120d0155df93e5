// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

/// A licence that was opened, and how it is kept.
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
}

extension MediaPlace {
    init(_ request: KeyLoadingRequest) { self.init(suggestedURL: request.suggestedURL, mediaURL: request.mediaURL) }
}

/// A service's URL, and what it is known from.
struct NamedService: Sendable {
    enum Source: Sendable {
        /// Settings, or the application.
        case settings
        /// Content from this URL; nil: not known.
        case media(String?)
        /// The service at this URL, which no one signs.
        case service(String)
    }

    let url: String
    let namedBy: Source

    func check(_ rule: MediaLicenseURLs) -> PlayReadyServiceRequest.Check? {
        switch namedBy {
        case .settings: nil
        case .media(let mediaURL): { request throws(KeyError) in try rule.check(&request, mediaURL: mediaURL) }
        case .service(let url): { request throws(KeyError) in try rule.check(&request, serviceURL: url) }
        }
    }
}

extension PlayReadyClient {
    /// Acquires the licences for some content and keeps them, as the persistence of each allows.
    ///
    /// `initializationData` is a `pssh` box, a PlayReady object, or a header. With a delegate, that sends the challenges;
    /// without, the client does, to the configured address or the one in the header. Faults are answered as their number
    /// asks for: join the domain and ask once more, go where it redirects to, ask later, make the device anew. `mediaURL` is
    /// where the content came from, for `Configuration.mediaLicenseURLs`; nil: not known. Returns
    /// the KIDs of the licences. A licence that was acquired need not be valid now: see `rightsStatus`.
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
        delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        let need = try PlayReadyNeed(keyIDs: keyIDs, data: data)
        for header in try need.headers(for: need.keyIDs) {
            let place = MediaPlace(suggestedURL: suggestedURL, mediaURL: mediaURL)
            _ = try await acquire(header, place, session: nil, delegate: delegate)
        }
    }

    /// The same for what a pipeline asks for; licences that are for one session only are for that one.
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
                KeyError.invalidConfiguration("the media names no licence service; set license-url in [playready]"))
        }
        var service = NamedService(
            url: url, namedBy: configuration.licenseURL == nil ? .media(place.mediaURL) : .settings)
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
                    service = named(other, by: service.url)
                case .askLater(let pause):
                    guard (try? await sleep(pause)) != nil else { throw error }
                case .individualize:
                    // Nobody signs a fault, and licences for the old device are of no use any more.
                    guard service.url == configuration.licenseURL else {
                        throw .init(cause.adding("only the service of license-url may ask for that"))
                    }
                    do throws(KeyError) { try await individualize(in: parts.store) } catch { throw .init(error) }
                case .joinDomain(let fault):
                    let domain = domainURL(fault).map { named($0, by: service.url) } ?? service
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
    private func named(_ url: String, by service: String) -> NamedService {
        let isConfigured = [configuration.licenseURL, configuration.domainURL].contains(url)
        return NamedService(url: url, namedBy: isConfigured ? .settings : .service(service))
    }

    /// Custom data may tell who the user is, and is for services that the settings name.
    private func mayHaveCustomData(_ url: String) -> Bool {
        if [configuration.licenseURL, configuration.domainURL].contains(url) { return true }
        let origin = HTTPRequest(url: url).origin
        return configuration.customDataOrigins.contains {
            $0 == "*" || !origin.isEmpty && HTTPRequest(url: $0).origin == origin
        }
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
        // They count whatever else is in the answer, so that nobody who is revoked can hold them back.
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
        let installed = try await install(answer, from: url, nonce: exchange.nonce, session: session, parts)
        // The keys are usable now; the service hears of it meanwhile.
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
            customData: customData, check: service.check(configuration.mediaLicenseURLs), transport: transport)
        do throws(KeyError) {
            switch (delegate, operation) {
            case (let delegate?, .acquireLicense): return try await delegate.performLicenseAcquisition(request)
            case (let delegate?, .joinDomain): return try await delegate.performJoinDomain(request)
            default: break
            }
        } catch {
            throw .init(error)
        }
        // A lost connection is tried once more. A timeout has used up the time that there is.
        for isLast in [false, true] {
            do throws(KeyError) {
                return try await request.send()
            } catch {
                guard !isLast, error.isSameKind(as: .network("")), !Task.isCancelled else { throw .init(error) }
            }
        }
        throw .init(KeyError.network("\(request)"))
    }

    /// What may be stored is on disk when this returns. Licences for the same keys whose end is past go.
    private func install(
        _ answer: PlayReadyExchange.Answer, from url: String, nonce: [UInt8], session: UInt64?, _ parts: Parts
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
            let pending = answer.transactionID.map { PendingAcknowledgement(transactionID: $0, url: url) }
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

    /// Where the time is not known, no licence is known to be over, and each acquisition would add one for ever. Of those
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

    /// Whether a licence's end is past: its date, or the time after its first play. The mark of that play stays.
    private static func isOver(
        _ record: LicenseRecord, at now: UnixTime, in transaction: LicenseStoreTransaction
    ) -> Bool {
        if let ends = record.ends, ends <= now { return true }
        guard let terms = try? XMRTerms(XMRLicense(reading: Array(record.payload.dropFirst(5)))),
            let seconds = [terms.expirationAfterFirstPlay, terms.expirationAfterFirstUse].compactMap(\.self).min(),
            let mark = (try? LicenseStore.firstPlay(of: record.id, in: transaction)).flatMap(\.self)
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
    /// The ids of licences of one answer or one piece of content. A service may give several licences one rights id: those
    /// for different keys differ by the KID, and those for one key by their place among each other.
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
    /// 1970, big-endian), and the licence as it came.
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
        var reader = ByteReader(record.payload, structure: "stored licence")
        do throws(FormatError) {
            guard try reader.readUInt8() == 1 else { throw .unsupported("another version of a stored licence") }
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
