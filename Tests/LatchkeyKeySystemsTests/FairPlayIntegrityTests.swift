// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

/// What a man in the middle without any key can do to a CKC, with the settings that ship.
@Suite struct FairPlayIntegrityTests {
    /// Every bit, also those in random padding, by which a changed cipher block could go unnoticed.
    @Test(arguments: SPCContainer.Version.allCases)
    func aFlippedBitAnywhereIsRefused(version: SPCContainer.Version) throws {
        let exchange = try FairPlayTestKit.exchange(version)
        let ckc = try FairPlayTestKit.answer(exchange, terms: FairPlayTerms(outputRequirement: .hdcpType1)).ckc
        #expect(try exchange.open(response: ckc).hasIntegrity)
        var accepted: [Int] = []
        for bit in 0..<ckc.count * 8 {
            var changed = ckc
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            if (try? exchange.open(response: changed)) != nil { accepted.append(bit) }
        }
        #expect(accepted == [])
    }

    /// A server that leaves the code out of its answer to `exchange`, as if it had been removed on the way; with these blocks
    /// in addition, or in the place of those with the same tags.
    private func answerWithoutCode(
        _ exchange: FairPlayExchange, adding values: [TLLV.Tag: [UInt8]] = [:]
    ) throws -> [UInt8] {
        let answer = try FairPlayTestKit.answer(exchange)
        let container = try CKCContainer(reading: answer.ckc)
        let key = answer.request.responseKey
        var payload = try TLLVPayload(
            reading: try AES.cbc(.decrypt, key: key, iv: container.initializationVector, container.payload))
        payload = try TLLVPayload(
            payload.blocks.filter { $0.tag != .responseIntegrity && values[$0.tag] == nil }
                + values.map { try TLLV($0.key, $0.value, random: RandomSource.system.bytes) })
        return try CKCContainer(
            version: container.version, initializationVector: container.initializationVector,
            payload: try AES.cbc(.encrypt, key: key, iv: container.initializationVector, payload.serialized())
        ).serialized()
    }

    @Test func aRemovedCodeIsRefused() throws {
        let exchange = try FairPlayTestKit.exchange()
        let error = #expect(throws: FairPlayError.self) { try exchange.open(response: answerWithoutCode(exchange)) }
        #expect(error?.code == -42668)
        #expect(error?.description.contains("the code over the whole message, is missing") == true)
    }

    @Test func aCodeThatIsNotRequiredMayBeMissing() throws {
        var options = FairPlayExchange.Options()
        options.requiresIntegrity = false
        let exchange = try FairPlayTestKit.exchange(options: options)
        #expect(try !exchange.open(response: answerWithoutCode(exchange)).hasIntegrity)
    }

    /// One that is unknown, and one that no key server sends: what a renamed block looks like.
    @Test(arguments: [TLLV.Tag(rawValue: 5), .mediaKeyID])
    func withoutTheCodeABlockOutOfPlaceIsRefused(tag: TLLV.Tag) throws {
        var options = FairPlayExchange.Options()
        (options.sendsIntegrity, options.requiresIntegrity) = (true, false)
        let exchange = try FairPlayTestKit.exchange(options: options)
        #expect(try exchange.open(response: answerWithoutCode(exchange)).contentKey != nil)
        let error = #expect(throws: FairPlayError.self) {
            try exchange.open(response: answerWithoutCode(exchange, adding: [tag: [1, 2, 3]]))
        }
        #expect(error?.code == -42668)
        // One that was asked back may come.
        options.additionalValues[tag] = [1, 2, 3]
        options.returnRequests = [tag]
        let asking = try FairPlayTestKit.exchange(options: options)
        #expect(try asking.open(response: answerWithoutCode(asking)).returnedBlocks.contains { $0.tag == tag })
        // A request without the code is for a key server that may send what it likes.
        options = FairPlayExchange.Options()
        options.sendsIntegrity = false
        let plain = try FairPlayTestKit.exchange(options: options)
        #expect(try plain.open(response: answerWithoutCode(plain, adding: [tag: [1, 2, 3]])).contentKey != nil)
    }

    /// A key server that does not know the code may bring back that of the request: its value alone shows that no other block was
    /// renamed to it.
    @Test func onlyTheCodeOfTheRequestMayComeBack() throws {
        var options = FairPlayExchange.Options()
        (options.sendsIntegrity, options.requiresIntegrity) = (true, false)
        let exchange = try FairPlayTestKit.exchange(options: options)
        let code = try #require(try FairPlayTestKit.payload(of: exchange)[.requestIntegrity]).value
        #expect(code.count == PayloadIntegrity.size)
        let answer = try answerWithoutCode(exchange, adding: [.requestIntegrity: code])
        #expect(try exchange.open(response: answer).contentKey != nil)
        var changed = code
        changed[31] ^= 1
        for value in [changed, [1, 2, 3], []] {
            let error = #expect(throws: FairPlayError.self) {
                try exchange.open(response: answerWithoutCode(exchange, adding: [.requestIntegrity: value]))
            }
            #expect(error?.code == -42668)
        }
    }

    /// Another's certificate: its key server need not know the code.
    @Test func aKeyServerOfAnotherNeedNotSendTheCode() throws {
        let authority = try FairPlayTestKit.authority()
        let other = try X509Certificate.selfSigned(
            key: authority.privateKey, commonName: "Another key server", random: .system)
        let exchange = try FairPlayExchange(
            certificate: other.der, contentIdentifier: FairPlayTestKit.contentIdentifier, provider: authority.provider)
        #expect(exchange.sendsIntegrity)
        #expect(!exchange.requiresIntegrity)
        #expect(try FairPlayTestKit.exchange().requiresIntegrity)
    }
}
