// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// Client and server together.
@Suite struct FairPlayExchangeTests {
    @Test(arguments: SPCContainer.Version.allCases)
    func theKeyComesOverUnchanged(version: SPCContainer.Version) throws {
        let exchange = try FairPlayTestKit.exchange(version)
        #expect(try SPCContainer(reading: exchange.request).version == version)
        let answer = try FairPlayTestKit.answer(exchange)
        #expect(answer.request.assetIdentifier == FairPlayTestKit.contentIdentifier)
        #expect(answer.request.transactionIdentifier == exchange.transactionIdentifier)
        #expect(answer.request.hasIntegrity)
        let license = try exchange.open(response: answer.ckc)
        #expect(try #require(license.contentKey) == (try FairPlayTestKit.contentKey()))
        #expect(license.initializationVector?.bytes == FairPlayTestKit.ivBytes)
        #expect(license.leaseDuration == nil)
        #expect(license.rentalDuration == nil)
        #expect(license.persistence == .notAllowed)
        #expect(license.outputRequirement == nil)
        #expect(license.returnedBlocks.map(\.tag).contains(.transactionIdentifier))
        #expect(license.otherBlocks.isEmpty)
    }

    @Test func everyOptionReachesTheServer() throws {
        var options = FairPlayExchange.Options(state: .readyToStart, time: 1_700_000_000, sessionID: 42)
        options.protocolVersions = [1, 2, 77]
        options.streamingIndicator = .airPlay
        options.deviceIdentifier = Array(1...20)
        options.deviceIdentity = DeviceIdentity(deviceClass: 1, vendorHash: 2, productHash: 3)
        options.returnRequests = [.streamingIndicator, TLLV.Tag(rawValue: 99), .transactionIdentifier]
        options.additionalValues = [TLLV.Tag(rawValue: 99): [9, 9, 9]]
        let exchange = try FairPlayTestKit.exchange(options: options)
        let answer = try FairPlayTestKit.answer(exchange)
        #expect(answer.request.protocolVersion == 2)
        #expect(answer.request.deviceIdentifier == Array(1...20))
        #expect(answer.request.streamingIndicator == .airPlay)
        #expect(answer.request.deviceIdentity == options.deviceIdentity)
        #expect(answer.request.playback == options.playback)
        let license = try exchange.open(response: answer.ckc)
        let returned = Dictionary(uniqueKeysWithValues: license.returnedBlocks.map { ($0.tag, $0.value) })
        #expect(
            returned == [
                .streamingIndicator: StreamingIndicator.airPlay.tllvValue, TLLV.Tag(rawValue: 99): [9, 9, 9],
                .transactionIdentifier: exchange.transactionIdentifier,
            ])
    }

    @Test func theTermsReachTheClient() throws {
        for (terms, lease, rental, persistence): (FairPlayTerms, Duration?, Duration?, FairPlayLicense.Persistence) in [
            (FairPlayTerms(lease: 60), .seconds(60), nil, .notAllowed),
            (FairPlayTerms(rental: 61), nil, .seconds(61), .notAllowed),
            (FairPlayTerms(lease: 60, rental: 61), .seconds(60), .seconds(61), .notAllowed),
            (FairPlayTerms(persistence: .unlimited), nil, nil, .unlimited),
            (FairPlayTerms(rental: 61, persistence: .forRentalDuration), nil, .seconds(61), .forRentalDuration),
            (FairPlayTerms(persistence: .forRentalDuration), nil, nil, .forRentalDuration),
            (FairPlayTerms(lease: .max), nil, nil, .notAllowed),
        ] {
            let exchange = try FairPlayTestKit.exchange(options: .init(state: .readyToStart, time: 1, sessionID: 2))
            let license = try exchange.open(response: try FairPlayTestKit.answer(exchange, terms: terms).ckc)
            #expect(license.leaseDuration == lease)
            #expect(license.rentalDuration == rental)
            #expect(license.persistence == persistence)
        }
    }

    @Test func anAnswerThatGrantsNoTimeIsAnEnd() throws {
        for terms in [FairPlayTerms(lease: 0), FairPlayTerms(rental: 0), FairPlayTerms(lease: 1, rental: 0)] {
            let exchange = try FairPlayTestKit.exchange(options: .init(state: .playing, time: 1, sessionID: 2))
            let answer = try FairPlayTestKit.answer(exchange, terms: terms)
            let error = #expect(throws: FairPlayError.self) { try exchange.open(response: answer.ckc) }
            #expect(error?.code == -42656)
        }
    }

    /// The first request of a playback, its renewals, and the return of the lease.
    @Test func aLeaseIsRenewed() throws {
        let server = FairPlayTestKit.server()
        let key = try FairPlayTestKit.key()
        for (state, hasKey) in [
            (MediaPlaybackState.State.readyToStart, true), (.playing, false), (.playingAndLeaseExpires, true),
            (.stopped, false),
        ] {
            let exchange = try FairPlayTestKit.exchange(options: .init(state: state, time: 1, sessionID: 7))
            let answer = try server.respond(
                to: exchange.request, now: .zero, terms: { _ in FairPlayTerms(lease: 60) }, key: { _ in key })
            #expect(answer.request.playback?.sessionID == 7)
            let license = try exchange.open(response: answer.ckc)
            #expect((license.contentKey != nil) == hasKey)
            #expect(license.leaseDuration == .seconds(60))
        }
    }

    @Test func theAnswerToAnotherRequestIsRefused() throws {
        let (first, second) = (try FairPlayTestKit.exchange(), try FairPlayTestKit.exchange())
        let answer = try FairPlayTestKit.answer(first)
        let error = #expect(throws: FairPlayError.self) { try second.open(response: answer.ckc) }
        #expect(error?.code == -42668)
        _ = try first.open(response: answer.ckc)
    }

    @Test func noTwoRequestsShareARandomNumber() throws {
        let requests = try (0..<20).map { _ in try FairPlayTestKit.exchange() }
        let opened = try requests.map { try FairPlayTestKit.server().open($0.request) }
        #expect(Set(opened.map(\.transactionIdentifier)).count == 20)
        #expect(Set(opened.map(\.r1)).count == 20)
        #expect(Set(opened.map(\.deviceIdentifier)).count == 20)
        let containers = try requests.map { try SPCContainer(reading: $0.request) }
        #expect(Set(containers.map(\.initializationVector)).count == 20)
        #expect(Set(containers.map(\.wrappedKey)).count == 20)
    }

    /// As the tables want it: a block of padding more than is needed, random, and the blocks in no fixed order.
    @Test func paddingAndOrderAreRandom() throws {
        var orders: Set<[TLLV.Tag]> = []
        for seed in 0..<10 {
            let exchange = try FairPlayTestKit.exchange(random: FairPlayTestKit.random(seed: UInt64(seed)))
            let payload = try FairPlayTestKit.payload(of: exchange)
            for block in payload.blocks {
                #expect(block.padding.count == (16 - block.value.count % 16) % 16 + 16)
                #expect(!block.hasConstantPadding)
            }
            #expect(Set(payload.blocks.map(\.padding)).count == payload.blocks.count)
            orders.insert(payload.blocks.map(\.tag))
        }
        #expect(orders.count == 10)
    }

    @Test func withoutTheCodeItIsTheTablesAlone() throws {
        var options = FairPlayExchange.Options()
        options.sendsIntegrity = false
        let exchange = try FairPlayTestKit.exchange(options: options)
        #expect(
            Set(try FairPlayTestKit.payload(of: exchange).blocks.map(\.tag)) == Set(TLLV.Tag.requiredInRequest))
        let answer = try FairPlayTestKit.answer(exchange)
        #expect(!answer.request.hasIntegrity)
        #expect(try exchange.open(response: answer.ckc).contentKey != nil)
        // A client that insists refuses the answer.
        options.requiresIntegrity = true
        let strict = try FairPlayTestKit.exchange(options: options)
        let second = try FairPlayTestKit.answer(strict)
        let error = #expect(throws: FairPlayError.self) { try strict.open(response: second.ckc) }
        #expect(error?.code == -42668)
    }

    @Test(arguments: [UInt64(1), 2])
    func anyIdentifierAndOptionsComeOver(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let key = try FairPlayTestKit.key()
        for _ in 0..<40 {
            let version = SPCContainer.Version.allCases.randomElement(using: &generator) ?? .v1
            let authority = try FairPlayTestKit.authority(version)
            let identifier = generator.bytes(Int.random(in: 2...200, using: &generator))
            var options = FairPlayExchange.Options()
            if Bool.random(using: &generator) { options.streamingIndicator = .digitalAVAdapter }
            options.sendsIntegrity = Bool.random(using: &generator)
            for number in 0..<Int.random(in: 0...5, using: &generator) {
                let tag = TLLV.Tag(rawValue: 1000 + UInt64(number))
                options.additionalValues[tag] = generator.bytes(Int.random(in: 0...300, using: &generator))
                if Bool.random(using: &generator) { options.returnRequests.append(tag) }
            }
            let exchange = try FairPlayExchange(
                certificate: authority.certificate, contentIdentifier: identifier, options: options,
                provider: authority.provider)
            let answer = try FairPlayTestKit.server().respond(to: exchange.request, now: .zero, key: { _ in key })
            #expect(answer.request.assetIdentifier == identifier)
            let license = try exchange.open(response: answer.ckc)
            #expect(try #require(license.contentKey) == (try FairPlayTestKit.contentKey()))
            #expect(license.returnedBlocks.count == 1 + options.returnRequests.count)
        }
    }

    @Test func showsNoSecret() throws {
        let exchange = try FairPlayTestKit.exchange(options: .init(state: .readyToStart, time: 1, sessionID: 2))
        let terms = FairPlayTerms(lease: 60, rental: 61, outputRequirement: .hdcpType0)
        let answer = try FairPlayTestKit.answer(exchange, terms: terms)
        let license = try exchange.open(response: answer.ckc)
        let authority = try FairPlayTestKit.authority()
        var text = "\(exchange) \(license) \(answer.request) \(authority) \(authority.provider)"
        for value in [exchange, license, answer.request, authority, authority.provider] as [Any] {
            dump(value, to: &text)
        }
        #expect(text.contains("lease 60.0 seconds") && text.contains("hdcpType0"))
        for secret in [
            FairPlayTestKit.keyBytes, answer.request.r1, authority.ask.withBytes { Array($0) },
            answer.request.sessionKey.withBytes { Array($0) },
        ] {
            #expect(!text.contains(Hex.encode(secret)))
            #expect(!text.contains(secret.prefix(4).map(String.init).joined(separator: ", ")))
        }
    }
}
