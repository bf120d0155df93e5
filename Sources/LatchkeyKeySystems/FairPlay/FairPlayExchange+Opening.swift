// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

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
        let known = Self.responseTags.union(returnedBlocks.map(\.tag) + [.requestIntegrity])
        guard let block = payload.blocks.first(where: { !known.contains($0.tag) }) else { return }
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
