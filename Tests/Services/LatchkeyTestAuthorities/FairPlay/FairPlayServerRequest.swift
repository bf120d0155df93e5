// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
public import LatchkeyProtection

/// An SPC that the key server has opened and found in order. Prints without keys.
public struct FairPlayServerRequest: Sendable {
    /// The version of the SPC container.
    public let version: SPCContainer.Version
    /// What the application asks for, 2 to 200 bytes.
    public let assetIdentifier: [UInt8]
    /// 8 random bytes that name the request in logs of both sides.
    public let transactionIdentifier: [UInt8]
    /// The anonymised device identifier (HU), 20 bytes.
    public let deviceIdentifier: [UInt8]
    /// The version of the protocol that the request is made with.
    public let protocolVersion: UInt32
    /// Absent where the client does not say; it then gets no durations.
    public let playback: MediaPlaybackState?
    /// Where the picture goes; absent where the client does not say.
    public let streamingIndicator: StreamingIndicator?
    /// What the client is and runs; absent where it does not say.
    public let deviceIdentity: DeviceIdentity?
    /// The KID that the media has, where the client says so.
    public let mediaKeyID: KeyID?
    /// Whether it has this project's code over the whole message, and that fits.
    public let hasIntegrity: Bool
    /// The blocks that go back.
    let returnedBlocks: [TLLV]
    let sessionKey: ContentKey
    let responseKey: ContentKey
    let r1: [UInt8]
}

extension FairPlayServerRequest: Redacted {
    /// Version and transaction, for a log of the key server. Never keys.
    public var description: String {
        "SPC version \(version.rawValue), transaction \(Hex.encode(transactionIdentifier))"
    }
}

extension FairPlayServerRequest {
    /// Opens and checks an SPC. See `FairPlayKeyServer` for the list of checks.
    init(
        opening bytes: [UInt8], authorities: [FairPlayTestAuthority], derivation: any DerivationFunction
    ) throws(FairPlayServerError) {
        let container = try Self.container(bytes)
        guard
            let authority = authorities.first(where: {
                $0.version == container.version && $0.certificateHash == container.certificateHash
            })
        else {
            throw .cryptography("the SPC is for another certificate than that of this server")
        }
        do {
            let key = try Self.payloadKey(container, authority)
            var clear = try AES.cbc(.decrypt, key: key, iv: container.initializationVector, container.payload)
            defer { wipe(&clear) }
            let payload = try TLLVPayload(reading: clear)
            try Self.checkStructure(payload)
            let hasIntegrity = try Self.checkIntegrity(of: payload, in: container, key: key)
            try self.init(
                container.version, payload: payload, authority: authority, derivation: derivation,
                hasIntegrity: hasIntegrity)
        } catch let error as FairPlayServerError {
            throw error
        } catch let error as FormatError {
            throw FairPlayServerError(error)
        } catch {
            throw .cryptography("the SPC cannot be decrypted")
        }
    }

    private static func container(_ bytes: [UInt8]) throws(FairPlayServerError) -> SPCContainer {
        do throws(FormatError) {
            return try SPCContainer(reading: bytes)
        } catch {
            if error.isSameKind(as: .unsupported("")) { throw .requestVersion(error.reason) }
            throw FairPlayServerError(error)
        }
    }

    private static func payloadKey(_ container: SPCContainer, _ authority: FairPlayTestAuthority) throws -> ContentKey {
        var bytes: [UInt8]
        do throws(CryptoError) {
            bytes = try authority.privateKey.unwrap(container.wrappedKey)
        } catch {
            throw FairPlayServerError.cryptography("the payload key cannot be unwrapped")
        }
        defer { wipe(&bytes) }
        guard let key = ContentKey(bytes) else {
            throw FairPlayServerError.cryptography("the payload key has not 16 bytes")
        }
        return key
    }

    /// Which blocks there are, and their padding.
    private static func checkStructure(_ payload: TLLVPayload) throws {
        for tag in TLLV.Tag.requiredInRequest where payload[tag] == nil {
            throw FairPlayServerError.missingBlock("TLLV \(tag)")
        }
        for block in payload.blocks {
            guard !block.padding.isEmpty else {
                throw FairPlayServerError.malformedRequest("TLLV \(block.tag) has no padding")
            }
            guard !block.hasConstantPadding else {
                throw FairPlayServerError.malformedRequest("TLLV \(block.tag) has padding that is not random")
            }
        }
        let wanted = try payload.value(ReturnRequest.self)?.tags ?? []
        guard Set(wanted).count == wanted.count else {
            throw FairPlayServerError.duplicateBlock("the return request names a TLLV twice")
        }
        for tag in wanted where payload[tag] == nil {
            throw FairPlayServerError.missingBlock("TLLV \(tag), which the return request names")
        }
    }

    private static func checkIntegrity(
        of payload: TLLVPayload, in container: SPCContainer, key: ContentKey
    ) throws -> Bool {
        guard let block = payload[.requestIntegrity] else { return false }
        guard block.value.count == PayloadIntegrity.size else {
            throw FairPlayServerError.malformedRequest("TLLV \(block.tag) has \(block.value.count) bytes, not 32")
        }
        let message = try PayloadIntegrity.message(header: container.header, payload: payload, tag: block.tag)
        guard isEqualInConstantTime(try key.withBytes { try Digest.hmac(key: $0, message) }, block.value) else {
            throw FairPlayServerError.integrity("the code over the whole message does not fit")
        }
        return true
    }

    private init(
        _ version: SPCContainer.Version, payload: TLLVPayload, authority: FairPlayTestAuthority,
        derivation: any DerivationFunction, hasIntegrity: Bool
    ) throws {
        func bytes(_ tag: TLLV.Tag, _ size: ClosedRange<Int>) throws -> [UInt8] {
            let value = payload[tag]?.value ?? []
            guard size.contains(value.count) else {
                throw FairPlayServerError.malformedRequest("TLLV \(tag) has \(value.count) bytes")
            }
            return value
        }
        let integrity = try bytes(.sessionKeyAndR1Integrity, 16...16)
        let seed = try bytes(.antiReplaySeed, 16...16)
        let r2 = try bytes(.r2, SessionSecrets.r2Size...SessionSecrets.r2Size)
        let sealed = try bytes(.sessionKeyAndR1, SessionSecrets.sealedSize...SessionSecrets.sealedSize)
        let asset = payload[.assetIdentifier]?.value ?? []
        guard FairPlayExchange.contentIdentifierSizes.contains(asset.count) else {
            throw FairPlayServerError.invalidParameter("an asset identifier of \(asset.count) bytes; it has 2 to 200")
        }
        let playback = try payload.value(MediaPlaybackState.self)
        if let playback, !playback.state.isKnown {
            throw FairPlayServerError.invalidParameter("the media playback state is not known")
        }
        let secrets = try SessionSecrets(
            sealed: sealed, dask: try derivation.key(r2: r2, ask: authority.ask), integrity: integrity)
        guard var secrets else { throw FairPlayServerError.integrity("TLLV \(TLLV.Tag.sessionKeyAndR1Integrity)") }
        defer { secrets.wipeAll() }
        self.init(
            version: version, assetIdentifier: asset, transactionIdentifier: try bytes(.transactionIdentifier, 8...8),
            deviceIdentifier: secrets.deviceIdentifier, protocolVersion: try Self.protocolVersion(of: payload),
            playback: playback, streamingIndicator: try payload.value(StreamingIndicator.self),
            deviceIdentity: try payload.value(DeviceIdentity.self),
            mediaKeyID: payload[.mediaKeyID].flatMap { KeyID($0.value) }, hasIntegrity: hasIntegrity,
            returnedBlocks: try payload.value(ReturnRequest.self)?.tags.compactMap { payload[$0] } ?? [],
            sessionKey: try secrets.sessionKey(),
            responseKey: try SessionSecrets.responseKey(r1: secrets.r1, seed: seed), r1: secrets.r1)
    }

    private static func protocolVersion(of payload: TLLVPayload) throws -> UInt32 {
        let supported = try payload.value(ProtocolVersions.self)?.versions ?? []
        let used = try payload.value(ProtocolVersion.self)?.version ?? 0
        guard FairPlayExchange.knownProtocolVersions.contains(used) else {
            throw FairPlayServerError.protocolVersion("version \(used); 1 and 2 are known")
        }
        guard supported.contains(used) else {
            throw FairPlayServerError.protocolVersion("version \(used) is not among those that the client supports")
        }
        return used
    }
}
