// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// Files that were put together by hand from the tables: the server takes those SPCs, the client those CKCs.
@Suite struct FairPlayGoldenTests {
    @Test(arguments: Golden.requests)
    func theServerReadsTheRequest(name: String) throws {
        let values = try Golden.values(name)
        let request = try Golden.server().open(try Golden.file("\(name).bin"))
        #expect(request.version == Golden.version(name))
        #expect(request.assetIdentifier == (try Golden.bytes(values.asset)))
        #expect(request.transactionIdentifier == (try Golden.bytes(values.transaction)))
        #expect(request.deviceIdentifier == (try Golden.bytes(values.hu)))
        #expect(request.protocolVersion == Golden.version(name).rawValue)
        #expect(request.r1 == (try Golden.bytes(values.r1)))
        #expect(request.sessionKey == (try #require(ContentKey(hex: values.sk))))
        #expect(request.responseKey == (try #require(ContentKey(hex: values.responseKey))))
        let isFull = name.hasSuffix("full")
        #expect(request.hasIntegrity == isFull)
        #expect(request.streamingIndicator == (isFull ? .digitalAVAdapter : nil))
        #expect(request.deviceIdentity?.rest == (isFull ? Array("rest".utf8) : nil))
        #expect(
            request.playback
                == (isFull
                    ? MediaPlaybackState(
                        referenceTime: 1_700_000_000, state: .readyToStart, sessionID: 0x1122334455667788)
                    : nil))
        #expect(request.returnedBlocks.count == (isFull ? 4 : 1))
    }

    /// The answer is checked with the values that golden.py computed, not with those of the server.
    @Test(arguments: Golden.requests)
    func theServersAnswerIsTheOneThatTheTablesAskFor(name: String) throws {
        let values = try Golden.values(name)
        let key = try Golden.key()
        let answer = try Golden.server().respond(
            to: try Golden.file("\(name).bin"), now: .zero,
            terms: { _ in FairPlayTerms(outputRequirement: .hdcpType1) },
            key: { _ in key })
        let container = try CKCContainer(reading: answer.ckc)
        #expect(container.version == Golden.version(name).rawValue)
        #expect(container.reserved == 0)
        let payload = try TLLVPayload(
            reading: try AES.cbc(
                .decrypt, key: try #require(ContentKey(hex: values.responseKey)), iv: container.initializationVector,
                container.payload))
        #expect(payload[.encryptedContentKey]?.value == (try Golden.bytes(values.encryptedKey)))
        #expect(payload[.encryptedContentKey]?.size == 64)
        #expect(payload[.r1]?.value == (try Golden.bytes(values.r1)))
        #expect(payload[.transactionIdentifier]?.value == (try Golden.bytes(values.transaction)))
        #expect(
            payload[.hdcp]?.value == [0x28, 0x5A, 0x08, 0x63, 0xBB, 0xA8, 0xE1, 0xD3] + [UInt8](repeating: 0, count: 8))
        #expect(payload[.contentKeyDuration] == nil)
        // What the request wanted back, padding included.
        let sent = try ForgedRequest(name)
        for tag in try ReturnRequest(tllvValue: try #require(sent[.returnRequest]).value).tags {
            #expect(payload[tag] == sent[tag])
        }
        #expect((payload[.responseIntegrity] != nil) == name.hasSuffix("full"))
    }

    @Test(arguments: Golden.responses)
    func theClientOpensTheResponse(name: String) throws {
        let exchange = try Golden.exchange("spc-\(Golden.version(name))")
        let license = try exchange.open(response: try Golden.file("\(name).bin"))
        let key = try Golden.key()
        #expect(try #require(license.contentKey).withBytes { Array($0) } == key.key.withBytes { Array($0) })
        #expect(license.initializationVector == key.initializationVector)
        #expect(license.returnedBlocks.map(\.tag) == [.transactionIdentifier])
    }

    @Test func theTermsAreThoseOfTheFile() throws {
        let exchange = try Golden.exchange("spc-v1")
        func license(_ name: String) throws -> FairPlayLicense {
            try exchange.open(response: try Golden.file("\(name).bin"))
        }
        let plain = try license("ckc-v1")
        #expect(plain.leaseDuration == nil && plain.rentalDuration == nil && plain.persistence == .notAllowed)
        #expect(plain.outputRequirement == nil && plain.offlineKey == nil && plain.otherBlocks.isEmpty)
        let lease = try license("ckc-v1-lease")
        #expect(lease.leaseDuration == .seconds(60) && lease.rentalDuration == nil)
        #expect(lease.outputRequirement == .unprotected)
        let rental = try license("ckc-v1-rental")
        #expect(rental.leaseDuration == nil && rental.rentalDuration == .seconds(7200))
        #expect(rental.outputRequirement == .hdcpType0 && rental.persistence == .notAllowed)
        let stored = try license("ckc-v1-rental-persistent")
        #expect(stored.persistence == .forRentalDuration && stored.rentalDuration == .seconds(3600))
        let persistent = try license("ckc-v1-persistent")
        #expect(persistent.persistence == .unlimited && persistent.rentalDuration == nil)
        #expect(persistent.offlineKey?.version == 1)
        let full = try license("ckc-v1-full")
        #expect(full.leaseDuration == .seconds(60) && full.rentalDuration == .seconds(7200))
        #expect(full.outputRequirement == .hdcpType1)
        #expect(full.offlineKey?.version == 2)
        #expect(full.offlineKey?.storage == 86400 && full.offlineKey?.playback == 3600)
        #expect(full.otherBlocks.map(\.tag) == [TLLV.Tag(rawValue: 0x0123_4567_89AB_CDEF)])
    }

    @Test func withoutAContentKeyOnlyARenewalIsAnswered() throws {
        let response = try Golden.file("ckc-v1-nokey.bin")
        for state in [nil, MediaPlaybackState.State.readyToStart, .playingAndLeaseExpires] {
            var options = FairPlayExchange.Options()
            options.playback = state.map { MediaPlaybackState(referenceTime: 1, state: $0, sessionID: 1) }
            let exchange = try Golden.exchange("spc-v1", options: options)
            #expect(throws: FairPlayError.invalidResponse("TLLV \(TLLV.Tag.encryptedContentKey) is missing")) {
                try exchange.open(response: response)
            }
        }
        for state in [MediaPlaybackState.State.playing, .stopped] {
            let options = FairPlayExchange.Options(state: state, time: 1, sessionID: 1)
            let license = try Golden.exchange("spc-v1", options: options).open(response: response)
            #expect(license.contentKey == nil)
            #expect(license.initializationVector == nil)
        }
    }

    @Test func theDerivationIsTheOneOfTheScript() throws {
        let known = try Golden.known()
        for (_, values) in known.requests {
            let key = try TestDerivationFunction().derive(
                r2: try Golden.bytes(values.r2), ask: try Golden.bytes(known.ask))
            #expect(key == (try Golden.bytes(values.dask)))
        }
    }
}
