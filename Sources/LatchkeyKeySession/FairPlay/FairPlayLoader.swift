// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// Gets keys from a FairPlay-style key server over HTTP, in the form that one license service wants.
///
/// For each request: key URI → content identifier → application certificate → SPC → POST → answer → CKC. It takes
/// FairPlay requests that have a key URI. A lost connection is tried once more. When the key server refuses the request
/// and the certificate has changed since, the request is made again with the new one.
///
/// Thread-safe; exchanges run on tasks of their own.
public final class FairPlayLoader: StoredKeyLoader {
    /// Where the SPC goes, in place of the configured URL: for services that hand out a token first. Called for each
    /// request, also for renewals. It is trusted as the configured URL is.
    public typealias KeyServer =
        @Sendable (_ keyURI: KeyURI, _ contentIdentifier: [UInt8]) async throws(KeyError) ->
        String

    /// Names the loader in error texts: the preset of its service.
    public let name: String
    /// The key server, and how to talk to it.
    public let service: LicenseService
    /// What requests are encrypted for.
    public let certificate: ApplicationCertificate
    let persistableKeys: PersistableKeys?
    private let integrity: IntegrityRule?
    let transport: any HTTPTransport
    private let keyServer: KeyServer?
    private let hasWarned = Atomic(false)
    private let tasks = Mutex<[UInt64: Task<Void, Never>]>([:])

    /// With `persistableKeys`, keys that the server allows to store are stored, and found again without the server.
    /// Without `integrity`, this project's own test servers and servers that have sent the code before have to send it.
    public init(
        service: LicenseService, certificate: ApplicationCertificate, persistableKeys: PersistableKeys? = nil,
        integrity: IntegrityRule? = nil, transport: any HTTPTransport = CurlTransport.shared,
        keyServer: KeyServer? = nil
    ) {
        self.service = service
        self.certificate = certificate
        self.persistableKeys = persistableKeys
        self.integrity = integrity
        self.transport = transport
        self.keyServer = keyServer
        name = "FairPlay \(service.preset.name)"
    }

    /// FairPlay alone.
    public var keySystems: Set<KeySystem>? { [.fairPlay] }

    /// Takes FairPlay requests with a key URI, and answers on a task of its own.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard request.keySystem == .fairPlay, let text = request.keyURI ?? request.suggestedURL else { return false }
        let uri = KeyURI(text)
        tasks.withLock { tasks in
            // Made inside the lock, so that its end cannot come before its entry.
            tasks[request.id] = Task { [weak self] in
                guard let answer = await self?.answer(to: request, uri) else { return }
                switch answer {
                case .success(let answer): request.finishLoading(with: answer)
                case .failure(let error): request.finishLoading(with: error)
                }
                self?.forget(request)
            }
        }
        return true
    }

    /// Ends the exchange, if one is under way.
    public func didCancel(_ request: KeyLoadingRequest) { forget(request)?.cancel() }

    @discardableResult
    private func forget(_ request: KeyLoadingRequest) -> Task<Void, Never>? {
        tasks.withLock { $0.removeValue(forKey: request.id) }
    }

    private func answer(to request: KeyLoadingRequest, _ uri: KeyURI) async -> Result<KeyAnswer, KeyError> {
        do throws(KeyError) {
            let identifier = try contentIdentifier(of: uri)
            let keyID = request.mediaKeyID
            if !request.isRenewal, let persistableKeys,
                let record = try await stored(for: request, identifier, in: persistableKeys)
            {
                return .success(.persistableKey(try await begun(record, for: request, in: persistableKeys)))
            }
            // A license that cannot be kept would only cost the key server a place.
            guard persistableKeys != nil || !request.isForStorage else {
                throw .invalidConfiguration(
                    "no folder for stored keys is configured; set stored-keys in [fairplay]")
            }
            try await request.establishViewing()
            let ckc = try await ckc(for: request, uri, identifier)
            guard let persistableKeys, try request.canStoreContentKey(ofKeyVendorResponse: ckc) else {
                guard !request.isForStorage else {
                    throw .denied("the key server does not allow the key to be stored")
                }
                return .success(.license(ckc))
            }
            let key = try request.persistableContentKey(fromKeyVendorResponse: ckc)
            // What another session has stored meanwhile may know of a first playback.
            let record = try await persistableKeys.store(key, for: identifier, keyID: keyID) { other in
                !request.isRenewal && request.canUse(persistableKey: other, for: identifier)
            }
            return .success(.persistableKey(try await begun(record, for: request, in: persistableKeys)))
        } catch {
            return .failure(error)
        }
    }

    /// It may have a parameter in it if the application names the key server, too.
    private func contentIdentifier(of uri: KeyURI) throws(KeyError) -> [UInt8] {
        var service = service
        if keyServer != nil { service.preset.url.base = .configured }
        return try service.contentIdentifier(of: uri)
    }

    /// Nil if the server is to be asked: no key is stored, or its time is over. Such a key is dropped.
    private func stored(
        for request: KeyLoadingRequest, _ identifier: [UInt8], in keys: PersistableKeys
    ) async throws(KeyError) -> LicenseRecord? {
        guard let record = try await keys.record(for: identifier, keyID: request.mediaKeyID) else {
            if keys.hasEarlierKey(for: identifier) {
                request.log(
                    "warning: a key that an earlier version of Latchkey stored is not used, and the server is asked for "
                        + "another; latchkey licenses reset removes such keys")
            }
            return nil
        }
        guard request.isOver(persistableKey: record.payload) else { return record }
        do throws(KeyError) {
            try await keys.remove(record.id)
            return nil
        } catch {
            request.didNotStore(
                .invalidConfiguration(
                    "a stored key whose time is over cannot be removed, so the server is not asked for another: "
                        + "\(error.reason); remove it, or make its folder one that can be written"))
            return record
        }
    }

    /// Writes down that playback begins before the key is usable. Throws if that fails: each playback would be the first.
    private func begun(
        _ record: LicenseRecord, for request: KeyLoadingRequest, in keys: PersistableKeys
    ) async throws(KeyError) -> [UInt8] {
        guard request.beginPlayback(ofPersistableKey: record.payload) != nil else { return record.payload }
        do throws(KeyError) {
            return try await keys.update(record.id) { request.beginPlayback(ofPersistableKey: $0) ?? $0 }
                ?? record.payload
        } catch {
            throw .invalidConfiguration(
                "the first playback of a stored key cannot be recorded: \(error.reason); make its folder one that can "
                    + "be written and has room")
        }
    }

    private func ckc(
        for request: KeyLoadingRequest, _ uri: KeyURI, _ identifier: [UInt8]
    ) async throws(KeyError) -> [UInt8] {
        var service = service
        if let keyServer {
            service.url = try await keyServer(uri, identifier)
            service.preset.url.base = .configured
        }
        let first = try await certificate.der()
        do throws(KeyError) {
            return try await exchange(request, uri, identifier, first, service)
        } catch {
            // A server that does not know the certificate says so in its own words; most use one of these statuses.
            guard error.isSameKind(as: .serverStatus("")), !Task.isCancelled,
                let second = try await certificate.der(insteadOf: first)
            else { throw error }
            return try await exchange(request, uri, identifier, second, service)
        }
    }

    private func exchange(
        _ request: KeyLoadingRequest, _ uri: KeyURI, _ identifier: [UInt8], _ certificate: [UInt8],
        _ service: LicenseService
    ) async throws(KeyError) -> [UInt8] {
        var options = request.defaultExchangeOptions
        options.requestsPersistableKey = persistableKeys != nil
        if let integrity {
            options.requiresIntegrity = integrity == .required
            if integrity == .required { options.sendsIntegrity = true }
        }
        warn(request)
        let (sent, response) = try await transport.exchange { () throws(KeyError) in
            let spc = try request.streamingContentKeyRequestData(
                forApp: certificate, contentIdentifier: identifier, options: options)
            var message = try service.request(
                for: uri, contentIdentifier: identifier, spc: spc, isPersistent: options.requestsPersistableKey,
                mediaURL: request.mediaURL)
            message.cookies = request.cookies
            message.toleratesCompression = true
            return message
        }
        guard 200..<300 ~= response.status else {
            // What is not allowed is so under each KID that media may say later.
            if response.status == 401 || response.status == 403 { request.noteSaysNoKeyID() }
            let refusal = response.refusal(of: sent, hiding: Array(service.parameters.values))
            throw .serverStatus(refusal + (service.advice.map { "; \($0)" } ?? ""))
        }
        // A server that a playlist names may be anyone's, so the certificate alone decides what it has to send.
        if service.isNamedBySettings { request.noteKeyServer(sent.origin) }
        do throws(KeyError) {
            return try service.ckc(in: response.body, for: uri)
        } catch {
            throw .malformedResponse("\(response.printableURL): \(error.reason)")
        }
    }

    /// Says once what the service may need beside what is configured.
    private func warn(_ request: KeyLoadingRequest) {
        guard let advice = service.advice, !hasWarned.exchange(true, ordering: .relaxed) else { return }
        request.log("warning: \(advice)")
    }
}

extension FairPlayLoader: Redacted {
    /// The name of the preset.
    public var description: String { name }
    /// The service without values of headers and parameters.
    public var shown: KeyValuePairs<String, Any> { ["service": service.description] }
}

extension FairPlayLoader {
    /// How the stored key for a key URI stands, and of several the one that ends first; nil where none is stored. Reads the
    /// store, and begins no playback.
    ///
    /// `session` is where it will be used: its device secret opens the key, and its clock counts.
    public func rightsStatus(ofStoredKeyFor uri: String, in session: KeySession) async -> RightsStatus? {
        guard let persistableKeys, let secret = session.configuration.deviceSecret else { return nil }
        do throws(KeyError) {
            let identifier = try contentIdentifier(of: KeyURI(uri))
            let records = try await persistableKeys.records(for: identifier)
            guard !records.isEmpty else { return nil }
            await session.configuration.storedKeyClock?.prepare()
            let now = try session.storedKeyTime()
            return records.map { rights(ofStored: $0.payload, secret, now) }
                .min { left, right in
                    left.kind == right.kind
                        ? (left.ends?.seconds ?? .max) < (right.ends?.seconds ?? .max) : left.kind < right.kind
                }
        } catch {
            return RightsStatus(kind: .none, reason: "the stored key: \(error)")
        }
    }

    private func rights(ofStored stored: [UInt8], _ secret: SealingKey, _ now: UInt64) -> RightsStatus {
        do {
            var bytes = secret.withBytes { Array($0) }
            defer { wipe(&bytes) }
            let key = try ExitGate.pass { () throws(FairPlayError) in
                try FairPlayPersistableKey(opening: stored, secret: bytes, now: now)
            }
            let end = key.expiry.map { UnixTime(seconds: Int64(clamping: $0)) }
            return RightsStatus(
                kind: .valid, ends: end, stops: end,
                rightsExpireAfterFirstUse: key.playbackDuration != nil && key.firstPlayback == nil,
                reason: "the key is stored")
        } catch let error as FairPlayError {
            let isExpired = error.keyError.isSameKind(as: .leaseExpired(""))
            return RightsStatus(kind: isExpired ? .expired : .none, reason: "the stored key: \(error)")
        } catch {
            return RightsStatus(kind: .none, reason: "the stored key: \(error)")
        }
    }
}
