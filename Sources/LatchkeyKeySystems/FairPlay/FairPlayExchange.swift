// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// One question for a content key and its answer, as FairPlay-style key servers expect them: SPC out, CKC in.
///
/// The formats are public (see `TLLV`); the derivation is pluggable (see `DerivationFunction`, `KeyPayloadProvider`).
/// Make one for each request: no two requests share a random number. A value without side effects; `open` may be
/// called from any thread, and again for another answer. Prints without keys.
public struct FairPlayExchange: Sendable {
    /// In bytes, of a content identifier.
    public static let contentIdentifierSizes = 2...200
    /// The versions of the exchange that are known here.
    public static let knownProtocolVersions: [UInt32] = [1, 2]

    /// The SPC, for the body of a request to the key server.
    public let request: [UInt8]
    /// What the application asks for, as it is in the SPC: 2 to 200 bytes.
    public let contentIdentifier: [UInt8]
    /// What the SPC was made with.
    public let options: Options
    /// 8 random bytes that name the request in the key server's log.
    public let transactionIdentifier: [UInt8]
    /// Whether the SPC has this project's code over the whole message.
    public let sendsIntegrity: Bool
    /// Whether a CKC without the code is refused.
    let requiresIntegrity: Bool
    /// SHA-256 of the certificate that the SPC is encrypted for.
    package let certificateDigest: [UInt8]
    /// The origin of the key server that got the SPC. Nil: not known here.
    package var keyServer: String?
    let keyPayload: any KeyPayload
    /// Those that the CKC has to bring back.
    let returnedBlocks: [TLLV]
    /// The SPC's code over the whole message. A key server that does not know it may bring it back. Nil where there is none.
    private let requestCode: [UInt8]?

    /// Makes the SPC.
    ///
    /// `certificate` is the application certificate in DER, with an RSA key of 1024 bits (SPC version 1) or 2048 bits
    /// (version 2). Takes about a tenth of a millisecond. OpenSSL draws the random seed of RSA-OAEP by itself; all
    /// other random bytes come from `random`.
    ///
    /// Throws the errors from `noCertificate` to `invalidProtocolVersions` of `FairPlayError`.
    public init(
        certificate: [UInt8], contentIdentifier: [UInt8], options: Options = Options(),
        provider: any KeyPayloadProvider, random: RandomSource = .system
    ) throws(FairPlayError) {
        let certificate = try Self.read(certificate: certificate)
        guard !contentIdentifier.isEmpty else {
            throw .noAssetIdentifier("the key's URI gives none; set the content identifier")
        }
        guard Self.contentIdentifierSizes.contains(contentIdentifier.count) else {
            throw .invalidAssetIdentifier("\(contentIdentifier.count) bytes; 2 to 200 are possible")
        }
        try Self.check(options)
        sendsIntegrity = options.sendsIntegrity ?? provider.isOfTestAuthority
        requiresIntegrity =
            options.requiresIntegrity
            ?? (sendsIntegrity && certificate.certificate.isNamed(FairPlayCertificate.testAuthorityName))
        do {
            let deviceIdentifier = try options.deviceIdentifier ?? random.bytes(SessionSecrets.deviceIdentifierSize)
            let transactionIdentifier = try random.bytes(8)
            let keyPayload = try provider.makeKeyPayload(deviceIdentifier: deviceIdentifier, random: random)
            let blocks = try Self.blocks(
                contentIdentifier: contentIdentifier, transactionIdentifier: transactionIdentifier, options: options,
                sendsIntegrity: sendsIntegrity, random: random)
            let payload = try TLLVPayload(try random.shuffle(keyPayload.requestBlocks + blocks))
            (request, requestCode) = try Self.seal(payload, for: certificate, random: random)
            certificateDigest = try Digest.sha256(certificate.certificate.der)
            let wanted = try payload.value(ReturnRequest.self)?.tags ?? []
            returnedBlocks = wanted.compactMap { payload[$0] }.filter { $0.tag != .requestIntegrity }
            guard wanted.allSatisfy({ payload[$0] != nil }) else {
                throw FairPlayError.requestCreationFailed("the options ask for the return of a block that is not sent")
            }
            self.transactionIdentifier = transactionIdentifier
            self.keyPayload = keyPayload
        } catch let error as FairPlayError {
            throw error
        } catch let error as FormatError {
            throw .requestCreationFailed(error.description)
        } catch let error as CryptoError {
            throw .requestCreationFailed(error.description)
        } catch {
            // The text of a provider's own error might hold a secret.
            throw .requestCreationFailed("the key payload provider failed")
        }
        self.contentIdentifier = contentIdentifier
        self.options = options
    }

    private static func read(
        certificate der: [UInt8]
    ) throws(FairPlayError) -> (certificate: X509Certificate, version: SPCContainer.Version) {
        guard !der.isEmpty else { throw .noCertificate("set the application certificate") }
        guard let certificate = X509Certificate(der: der) else {
            throw .invalidCertificate("the bytes are no X.509 certificate in DER with an RSA key")
        }
        switch certificate.publicKey.bits {
        case 1024: return (certificate, .v1)
        case 2048: return (certificate, .v2)
        case let bits: throw .invalidCertificate("an RSA key of \(bits) bits; 1024 and 2048 are possible")
        }
    }

    private static func check(_ options: Options) throws(FairPlayError) {
        guard !options.protocolVersions.isEmpty else { throw .noProtocolVersions("give at least one, usually 1") }
        guard options.protocolVersions.contains(where: knownProtocolVersions.contains) else {
            throw .invalidProtocolVersions("none of the versions is known; 1 and 2 are")
        }
        guard options.protocolVersions.count <= 64 else {
            throw .invalidProtocolVersions("\(options.protocolVersions.count) versions; at most 64 are possible")
        }
        if let identifier = options.deviceIdentifier, identifier.count != SessionSecrets.deviceIdentifierSize {
            throw .requestCreationFailed("a device identifier of \(identifier.count) bytes; it has 20")
        }
        guard !options.requestsPersistableKey || options.playback != nil else {
            throw .requestCreationFailed("a persistable key needs the client's time: set the playback state")
        }
    }

    /// All blocks but those with keys.
    private static func blocks(
        contentIdentifier: [UInt8], transactionIdentifier: [UInt8], options: Options, sendsIntegrity: Bool,
        random: RandomSource
    ) throws -> [TLLV] {
        var values: [(TLLV.Tag, [UInt8])] = [
            (.assetIdentifier, contentIdentifier), (.transactionIdentifier, transactionIdentifier),
            (.protocolVersionsSupported, ProtocolVersions(options.protocolVersions).tllvValue),
            (
                .protocolVersionUsed,
                ProtocolVersion(options.protocolVersions.filter(knownProtocolVersions.contains).max() ?? 1).tllvValue
            ),
        ]
        if let playback = options.playback { values.append((.mediaPlaybackState, playback.tllvValue)) }
        if let indicator = options.streamingIndicator { values.append((.streamingIndicator, indicator.tllvValue)) }
        if let identity = options.deviceIdentity { values.append((.deviceIdentity, identity.tllvValue)) }
        for (tag, value) in options.additionalValues.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            values.append((tag, value))
        }
        var wanted: [TLLV.Tag] = [.transactionIdentifier]
        for tag in options.returnRequests where !wanted.contains(tag) { wanted.append(tag) }
        if sendsIntegrity {
            if let keyID = options.mediaKeyID { values.append((.mediaKeyID, keyID.bytes)) }
            values.append((.requestIntegrity, [UInt8](repeating: 0, count: PayloadIntegrity.size)))
            if !wanted.contains(.requestIntegrity) { wanted.append(.requestIntegrity) }
        }
        values.append((.returnRequest, ReturnRequest(wanted).tllvValue))
        return try values.map { try TLLV($0.0, $0.1, random: random.bytes) }
    }

    /// Encrypts the payload with a new key, and that key for the certificate. Gives the code over the whole message too.
    private static func seal(
        _ payload: TLLVPayload, for receiver: (certificate: X509Certificate, version: SPCContainer.Version),
        random: RandomSource
    ) throws -> (request: [UInt8], code: [UInt8]?) {
        var keyBytes = try random.bytes(16)
        defer { wipe(&keyBytes) }
        guard let key = ContentKey(keyBytes) else { throw CryptoError(reason: 0) }
        func container(_ payload: [UInt8], iv: [UInt8], wrapped: [UInt8]) throws -> SPCContainer {
            try SPCContainer(
                version: receiver.version, initializationVector: iv, wrappedKey: wrapped,
                certificateHash: try Digest.sha1(receiver.certificate.der), payload: payload)
        }
        let iv = try random.bytes(16)
        let wrapped = try receiver.certificate.publicKey.wrap(keyBytes)
        var payload = payload
        var clear = try payload.serialized()
        defer { wipe(&clear) }
        if payload[.requestIntegrity] != nil {
            // The header does not depend on what the payload says, only on its size.
            let header = try container(clear, iv: iv, wrapped: wrapped).header
            let message = try PayloadIntegrity.message(header: header, payload: payload, tag: .requestIntegrity)
            let code = try key.withBytes { try Digest.hmac(key: $0, message) }
            payload = try payload.replacingValue(of: .requestIntegrity, with: code)
            clear = try payload.serialized()
        }
        let request = try container(AES.cbc(.encrypt, key: key, iv: iv, clear), iv: iv, wrapped: wrapped).serialized()
        return (request, payload[.requestIntegrity]?.value)
    }
}

extension FairPlayExchange: Redacted {
    /// The size of the SPC alone.
    public var description: String { "FairPlay-style exchange, SPC of \(request.count) bytes" }
}

extension FairPlayExchange {
    /// Opens the key server's answer, which is the CKC as it is: not in Base64, XML or JSON.
    ///
    /// Throws `invalidResponse` where the bytes are no CKC, are damaged, or are not the answer to this request: R1 does
    /// not come back, a block that was asked for is missing or changed, a block stands there twice or has a wrong
    /// length, the code over the whole message does not fit or is missing though it is required, or there is no content
    /// key though the request needs one. If the request offered the code and the answer lacks it, a block that no CKC has
    /// is refused too: it may be one that was renamed on its way. Throws `leaseExpired` where the answer grants no time at
    /// all.
    public func open(response: [UInt8]) throws(FairPlayError) -> FairPlayLicense {
        do {
            let container = try CKCContainer(reading: response)
            var clear = try decrypt(container)
            defer { wipe(&clear) }
            let payload = try TLLVPayload(reading: clear)
            try check(payload, of: container)
            return try license(of: payload)
        } catch let error as FairPlayError {
            throw error
        } catch let error as FormatError {
            throw .invalidResponse(error.description)
        } catch {
            // The text of a provider's own error might hold a secret.
            throw .invalidResponse("the payload cannot be decrypted")
        }
    }

    private func decrypt(_ container: CKCContainer) throws -> [UInt8] {
        let clear = try keyPayload.decryptResponse(container.payload, iv: container.initializationVector)
        guard clear.count == container.payload.count else {
            throw FairPlayError.invalidResponse("the payload cannot be decrypted")
        }
        return clear
    }

    /// Whether the payload answers this request and is as the key server made it.
    private func check(_ payload: TLLVPayload, of container: CKCContainer) throws {
        guard let r1 = payload[.r1] else { throw FairPlayError.invalidResponse("TLLV \(TLLV.Tag.r1) is missing") }
        guard keyPayload.isEcho(ofR1: r1.value) else {
            throw FairPlayError.invalidResponse("R1 is not that of the request: the answer belongs to another one")
        }
        for block in returnedBlocks {
            guard let answer = payload[block.tag] else {
                throw FairPlayError.invalidResponse("TLLV \(block.tag) does not come back")
            }
            guard answer.value == block.value else {
                throw FairPlayError.invalidResponse("TLLV \(block.tag) comes back changed")
            }
        }
        guard let integrity = payload[.responseIntegrity] else {
            guard !requiresIntegrity else {
                throw FairPlayError.invalidResponse(
                    "TLLV \(TLLV.Tag.responseIntegrity), the code over the whole message, is missing: the answer was "
                        + "changed on its way, or the key server does not send the code")
            }
            if sendsIntegrity { try checkTags(of: payload) }
            return
        }
        let message = try PayloadIntegrity.message(
            header: container.header, payload: payload, tag: .responseIntegrity)
        guard integrity.value.count == PayloadIntegrity.size,
            let code = try keyPayload.authenticationCode(of: message), isEqualInConstantTime(integrity.value, code)
        else { throw FairPlayError.invalidResponse("the code over the whole message does not fit") }
    }

    /// A man in the middle who renames a block leaves one with a tag that no CKC has.
    private func checkTags(of payload: TLLVPayload) throws(FairPlayError) {
        let known = Self.responseTags.union(returnedBlocks.map(\.tag))
        let unknown = payload.blocks.first {
            !known.contains($0.tag) && !($0.tag == .requestIntegrity && $0.value == requestCode)
        }
        guard let block = unknown else { return }
        throw .invalidResponse(
            "TLLV \(block.tag) has no place in a CKC without the code over the whole message: the answer was changed on "
                + "its way")
    }

    /// What key servers put into a CKC, beside what was asked back.
    private static let responseTags: Set<TLLV.Tag> = [
        .r1, .encryptedContentKey, .contentKeyDuration, .hdcp, .offlineKey,
    ]

    private func license(of payload: TLLVPayload) throws -> FairPlayLicense {
        let duration = try payload.value(ContentKeyDuration.self)
        let (lease, rental, persistence) = try Self.terms(of: duration)
        let key = try contentKey(in: payload)
        if key == nil, options.playback?.state.requiresContentKey ?? true {
            throw FairPlayError.invalidResponse("TLLV \(TLLV.Tag.encryptedContentKey) is missing")
        }
        let returned = Set(returnedBlocks.map(\.tag))
        return FairPlayLicense(
            contentKey: key, hasIntegrity: payload[.responseIntegrity] != nil, leaseDuration: lease,
            rentalDuration: rental,
            persistence: persistence, outputRequirement: try payload.value(HDCPRequirement.self)?.requirement,
            offlineKey: try payload.value(OfflineKeyTerms.self),
            returnedBlocks: payload.blocks.filter { returned.contains($0.tag) },
            otherBlocks: payload.blocks.filter { $0.tag.name == nil && !returned.contains($0.tag) })
    }

    private func contentKey(in payload: TLLVPayload) throws -> ContentKey? {
        guard let block = payload[.encryptedContentKey] else { return nil }
        guard block.value.count == 32, let iv = InitializationVector(block.value.prefix(16)) else {
            throw FairPlayError.invalidResponse("TLLV \(block.tag) has \(block.value.count) bytes, not 32")
        }
        let key = try keyPayload.decryptContentKey(Array(block.value.suffix(16)), iv: iv)
        guard let result = key.withBytes({ ContentKey($0, initializationVector: iv) }) else {
            throw FairPlayError.invalidResponse("no memory for a key is left")
        }
        return result
    }

    /// Which durations count, by the kind.
    private static func terms(
        of duration: ContentKeyDuration?
    ) throws -> (lease: Duration?, rental: Duration?, persistence: FairPlayLicense.Persistence) {
        guard let duration else { return (nil, nil, .notAllowed) }
        func seconds(_ count: UInt32) throws -> Duration? {
            guard count != 0 else { throw FairPlayError.leaseExpired("the key server grants no time") }
            return count == ContentKeyDuration.unlimited ? nil : .seconds(Int64(count))
        }
        switch duration.kind {
        case .lease: return (try seconds(duration.lease), nil, .notAllowed)
        case .rental: return (nil, try seconds(duration.rental), .notAllowed)
        case .leaseAndRental: return (try seconds(duration.lease), try seconds(duration.rental), .notAllowed)
        case .persistent: return (nil, nil, .unlimited)
        case .persistentForRental: return (nil, try seconds(duration.rental), .forRentalDuration)
        }
    }
}

extension FairPlayExchange {
    /// What a request says besides the content identifier.
    public struct Options: Sendable {
        /// The versions of the exchange that may be used. The highest that is known here is taken: 1 or 2.
        public var protocolVersions: [UInt32] = [1]
        /// What the player is doing, and what time it has. Key servers give leases, rentals and storable keys only to
        /// requests that say it.
        public var playback: MediaPlaybackState?
        /// Whether the key is to be stored. Needs `playback`. The key server decides; see `FairPlayLicense.persistence`.
        public var requestsPersistableKey = false
        /// Where the picture goes; nil says nothing.
        public var streamingIndicator: StreamingIndicator?
        /// The anonymised device identifier (HU), 20 bytes; nil takes random ones, so that no request can be told to
        /// come from the device of another.
        public var deviceIdentifier: [UInt8]?
        /// What the client is and runs; nil says nothing.
        public var deviceIdentity: DeviceIdentity?
        /// Further blocks whose values the key server is to send back unchanged. The transaction identifier always is.
        public var returnRequests: [TLLV.Tag] = []
        /// Further blocks: tag and value.
        public var additionalValues: [TLLV.Tag: [UInt8]] = [:]
        /// Whether the SPC has this project's code over the whole message. Key servers that do not know it ignore it, by
        /// the rules. Nil sends it only where the provider says that it is of the test authority.
        public var sendsIntegrity: Bool?
        /// The KID that the media has. Sent where the code over the message is sent: only this project's key server knows
        /// what it means.
        public var mediaKeyID: KeyID?
        /// Whether a CKC without such a code is refused. Only this project's key server sends one. Nil requires it if the
        /// request has the code and is for a certificate of this project's test authority.
        public var requiresIntegrity: Bool?

        /// What a request for streaming on this device says.
        public init() {}

        /// For playback that begins, or goes on. `time` is in seconds since 1970-01-01 00:00 UTC; `sessionID` is
        /// random and the same for all requests of one playback.
        public init(state: MediaPlaybackState.State, time: UInt64, sessionID: UInt64) {
            playback = MediaPlaybackState(
                referenceTime: UInt32(clamping: time), state: state, sessionID: sessionID)
        }
    }
}

/// This project's own addition to SPC and CKC: a code over the whole message, so that no change goes unnoticed.
///
/// The formats protect little by themselves. The payload is encrypted with AES-CBC and has no code, so that a flipped
/// byte in random padding changes random bytes into other random bytes, and one in the encrypted content key makes
/// another key. The optional block closes this: its value is HMAC-SHA-256 over the container's header and the clear
/// payload, with the 32 bytes of this value as zeros in it. The key is the payload's: the wrapped key for an SPC, the
/// derived one for a CKC. Peers that do not know the tag ignore it.
///
/// So that the block cannot be made to vanish by changing its tag, an SPC that has it names it in its return request: a
/// return request for a block that is not there is an error.
package enum PayloadIntegrity {
    /// In bytes.
    package static let size = 32

    /// What the code is over.
    package static func message(header: [UInt8], payload: TLLVPayload, tag: TLLV.Tag) throws(FormatError) -> [UInt8] {
        let zeros = [UInt8](repeating: 0, count: size)
        return header + (try payload.replacingValue(of: tag, with: zeros).serialized())
    }
}

/// What a CKC grants. Prints without the key.
public struct FairPlayLicense: Sendable {
    /// Whether the key may be stored.
    public enum Persistence: Hashable, Sendable {
        /// In memory only, as long as the session.
        case notAllowed
        /// Without an end of its own.
        case unlimited
        /// As long as the rental duration.
        case forRentalDuration
    }

    /// With the IV of the content. Nil only where the request did not need a key: a lease that is renewed while it has
    /// time left, or given back.
    public let contentKey: ContentKey?
    /// Whether it came with this project's code over the whole message, so that it was not changed on its way.
    public let hasIntegrity: Bool
    /// The key is to be used no longer than this from the request on, unless the lease is renewed. Nil: no lease.
    public let leaseDuration: Duration?
    /// Playback is to start no later than this from the request on; with `.forRentalDuration`, a stored key ends then.
    /// Nil: no end.
    public let rentalDuration: Duration?
    /// Whether the key may be stored.
    public let persistence: Persistence
    /// What the output needs. Nil where the key server says nothing; Apple's players take HDCP type 0 then.
    public let outputRequirement: OutputRequirement?
    /// How long a stored key lasts, where storage and playback have ends of their own.
    public let offlineKey: OfflineKeyTerms?
    /// The blocks that the request wanted back.
    public let returnedBlocks: [TLLV]
    /// Blocks that are not known here.
    public let otherBlocks: [TLLV]

    /// The IV of the content, which comes with the key.
    public var initializationVector: InitializationVector? { contentKey?.initializationVector }
}

extension FairPlayLicense: Redacted {
    /// What is granted, with the key as `<redacted>`.
    public var description: String {
        var parts = [contentKey == nil ? "no content key" : "content key <redacted>"]
        if let leaseDuration { parts.append("lease \(leaseDuration)") }
        if let rentalDuration { parts.append("rental \(rentalDuration)") }
        if persistence != .notAllowed { parts.append("may be stored") }
        if let outputRequirement { parts.append("output \(outputRequirement)") }
        return parts.joined(separator: ", ")
    }
}
