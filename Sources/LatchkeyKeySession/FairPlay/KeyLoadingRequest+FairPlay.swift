// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
public import LatchkeyKeySystems
public import LatchkeyProtection

extension KeyLoadingRequest {
    /// The server playback context (SPC) for a key server, as AVFoundation's
    /// `streamingContentKeyRequestData(forApp:contentIdentifier:options:)` makes it.
    ///
    /// `certificate` is the application certificate in DER; `contentIdentifier` has 2 to 200 bytes. Without options
    /// they are `defaultExchangeOptions`. The request remembers the exchange, so that `finishLoading(with:
    /// .license(ckc))` opens the answer; a second call begins another exchange, and only the last one counts.
    ///
    /// Throws `invalidConfiguration` where no key payload provider is set up or the certificate cannot be used, and
    /// `malformedRequest` where the content identifier or the options are not possible. Takes about a tenth of a
    /// millisecond.
    public func streamingContentKeyRequestData(
        forApp certificate: [UInt8], contentIdentifier: [UInt8], options: FairPlayExchange.Options? = nil
    ) throws(KeyError) -> [UInt8] {
        guard let configuration else { throw .sessionClosed("the session of \(description) is gone") }
        guard let provider = configuration.keyPayloadProvider else {
            throw .invalidConfiguration(
                "no key payload provider is set up, so no SPC can be made; give the session one, or for tests the key "
                    + "of the test derivation")
        }
        let exchange: FairPlayExchange
        do throws(FairPlayError) {
            exchange = try ExitGate.pass { () throws(FairPlayError) in
                try FairPlayExchange(
                    certificate: certificate, contentIdentifier: contentIdentifier,
                    options: options ?? defaultExchangeOptions, provider: provider)
            }
        } catch {
            throw error.keyError
        }
        setExchange(exchange)
        session?.note(exchange, ofRequest: id)
        do throws(KeyError) {
            try configuration.expiredSessionReports?.note(contentIdentifier, of: playbackSessionID, at: sessionDate)
        } catch {
            configuration.log(ExpiredSessionReports.complaint(error))
        }
        return exchange.request
    }

    /// For playback that starts, or whose lease is about to end where this is a renewal; with the session's time, its
    /// playback session, and its device identifier.
    public var defaultExchangeOptions: FairPlayExchange.Options {
        var options = FairPlayExchange.Options(
            state: isRenewal ? .playingAndLeaseExpires : .readyToStart, time: UInt64(clamping: sessionDate),
            sessionID: playbackSessionID)
        options.deviceIdentifier = configuration?.deviceIdentifier
        // A key server may look for the key under this KID alone.
        options.mediaKeyID = mediaKeyID
        return options
    }

    /// The KID that the media itself has for the key.
    var mediaKeyID: KeyID? { (missingKeyIDs.first ?? keyIDs.first).flatMap { session?.isMade($0) == true ? nil : $0 } }
}

extension KeyLoadingRequest {
    /// The key in a CKC, in a form to be stored, as AVFoundation's `persistableContentKey(fromKeyVendorResponse:
    /// options:)` makes it: sealed with the session's device secret. Answer this request and later ones with
    /// `.persistableKey`.
    ///
    /// Throws `malformedResponse` if the CKC cannot be opened or does not allow it, and `invalidConfiguration` if the session
    /// has no device secret, or its trusted clock is not to be trusted.
    public func persistableContentKey(fromKeyVendorResponse ckc: [UInt8]) throws(KeyError) -> [UInt8] {
        guard let exchange, let license = try open(keyVendorResponse: ckc) else {
            throw .malformedRequest("\(description) made no SPC, so no CKC can answer it")
        }
        guard let secret = configuration?.deviceSecret else {
            throw .invalidConfiguration("the session has no device secret, so no key can be stored")
        }
        let now = try storedKeyTime()
        do throws(FairPlayError) {
            let key = try ExitGate.pass { () throws(FairPlayError) in
                try FairPlayPersistableKey(
                    license: license, contentIdentifier: exchange.contentIdentifier, now: now)
            }
            return try secret.withCopy { bytes throws(FairPlayError) in try key.sealed(secret: bytes) }
        } catch {
            throw error.keyError
        }
    }

    /// Whether the key server allows the key in this CKC to be stored. Throws where it cannot be opened.
    public func canStoreContentKey(ofKeyVendorResponse ckc: [UInt8]) throws(KeyError) -> Bool {
        guard let license = try open(keyVendorResponse: ckc) else { return false }
        return license.persistence != .notAllowed && license.contentKey != nil
    }

    /// Nil where this request made no SPC. Throws `malformedResponse` also if the code over the whole CKC is missing though
    /// the key server has sent it before (`IntegritySenders`).
    func open(keyVendorResponse ckc: [UInt8]) throws(KeyError) -> FairPlayLicense? {
        guard let exchange else { return nil }
        let license: FairPlayLicense
        do throws(FairPlayError) {
            license = try ExitGate.pass { () throws(FairPlayError) in try exchange.open(response: ckc) }
        } catch {
            throw error.keyError
        }
        let senders = IntegritySenders(
            memory: configuration?.integrityMemory ?? .process, store: configuration?.integrityStore)
        if license.hasIntegrity {
            senders.add(exchange) { log($0) }
        } else if exchange.options.requiresIntegrity == nil, senders.contains(exchange) {
            throw .malformedResponse(
                "the code over the whole CKC is missing, though the key server has sent it before: the answer was "
                    + "changed on its way")
        }
        return license
    }

    /// Notes the origin that the last SPC went to.
    func noteKeyServer(_ origin: String) {
        guard var exchange else { return }
        exchange.keyServer = origin
        setExchange(exchange)
    }

    /// Whether it is a stored key of this content that opens here, and whose time is not over. No playback begins.
    func canUse(persistableKey stored: [UInt8], for contentIdentifier: [UInt8]) -> Bool {
        guard let secret = configuration?.deviceSecret, let now = try? storedKeyTime() else { return false }
        let key = secret.withCopy { bytes in
            try? FairPlayPersistableKey(
                opening: stored, secret: bytes, contentIdentifier: contentIdentifier, now: now)
        }
        return key != nil
    }

    /// Whether it is a stored key that opens here, and whose time is over.
    func isOver(persistableKey stored: [UInt8]) -> Bool {
        guard let secret = configuration?.deviceSecret, let now = try? storedKeyTime() else { return false }
        return secret.withCopy { bytes in
            do throws(FairPlayError) {
                _ = try FairPlayPersistableKey(opening: stored, secret: bytes, now: now)
                return false
            } catch {
                return error.keyError.isSameKind(as: .leaseExpired(""))
            }
        }
    }

    /// The stored key as it is from its first playback on; nil if that changes nothing, or the key cannot be used.
    func beginPlayback(ofPersistableKey stored: [UInt8]) -> [UInt8]? {
        guard !isForStorage, let secret = configuration?.deviceSecret, let now = try? storedKeyTime() else {
            return nil
        }
        return secret.withCopy { bytes in
            guard var key = try? FairPlayPersistableKey(opening: stored, secret: bytes, now: now),
                (try? key.beginPlayback(now: now)) == true
            else { return nil }
            return try? key.sealed(secret: bytes)
        }
    }

    /// Playback with a stored key begins, unless it is only to be stored.
    func open(persistableKey stored: [UInt8]) throws(KeyError) -> KeySessionState.Keys {
        guard let secret = configuration?.deviceSecret else {
            throw .invalidConfiguration("the session has no device secret, so no stored key can be opened")
        }
        let now = try storedKeyTime()
        do throws(FairPlayError) {
            return try secret.withCopy { bytes throws(FairPlayError) in
                var key = try FairPlayPersistableKey(opening: stored, secret: bytes, now: now)
                let isChanged = isForStorage ? false : try key.beginPlayback(now: now)
                noteStoredKey()
                var keys = KeySessionState.Keys(
                    withoutID: key.contentKey,
                    terms: KeyTerms(
                        expiry: key.expiry.map { .seconds(Int64(clamping: $0 > now ? $0 - now : 0)) },
                        outputRequirement: key.outputRequirement))
                if isChanged { keys.updatedPersistableKey = try key.sealed(secret: bytes) }
                return keys
            }
        } catch {
            throw error.keyError
        }
    }
}

extension FairPlayLicense {
    /// The key for the one KID of the request, on the license's terms.
    func keys() throws(KeyError) -> KeySessionState.Keys {
        guard let contentKey else { throw .malformedResponse("the CKC has no content key") }
        return KeySessionState.Keys(
            withoutID: contentKey,
            terms: KeyTerms(lease: leaseDuration, rental: rentalDuration, outputRequirement: outputRequirement))
    }
}

extension SealingKey {
    /// Lends a copy of the bytes for the time of the call.
    fileprivate func withCopy<Result, Failure: Error>(
        _ body: ([UInt8]) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var bytes = withBytes { Array($0) }
        defer { wipe(&bytes) }
        return try ExitGate.pass { () throws(Failure) in try body(bytes) }
    }
}
