// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

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
            request = try Self.seal(payload, for: certificate, random: random)
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

    /// Encrypts the payload with a new key, and that key for the certificate.
    private static func seal(
        _ payload: TLLVPayload, for receiver: (certificate: X509Certificate, version: SPCContainer.Version),
        random: RandomSource
    ) throws -> [UInt8] {
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
        return try container(AES.cbc(.encrypt, key: key, iv: iv, clear), iv: iv, wrapped: wrapped).serialized()
    }
}

extension FairPlayExchange: CustomStringConvertible, CustomReflectable {
    /// The size of the SPC alone.
    public var description: String { "FairPlay-style exchange, SPC of \(request.count) bytes" }
    /// Empty: the exchange holds the session key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
