// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// What the client refuses to send and to open, and with which number.
@Suite struct FairPlayExchangeErrorTests {
    private func code(
        certificate: [UInt8]? = nil, identifier: [UInt8] = [1, 2, 3],
        provider: (any KeyPayloadProvider)? = nil, random: RandomSource = .system,
        _ change: (inout FairPlayExchange.Options) -> Void = { _ in }
    ) throws -> Int? {
        let authority = try FairPlayTestKit.authority()
        var options = FairPlayExchange.Options()
        change(&options)
        do throws(FairPlayError) {
            _ = try FairPlayExchange(
                certificate: certificate ?? authority.certificate, contentIdentifier: identifier, options: options,
                provider: provider ?? authority.provider, random: random)
            return nil
        } catch {
            #expect(error.description.contains("\(error.code)"))
            #expect(!error.shortDescription.isEmpty && !error.keyError.description.isEmpty)
            return error.code
        }
    }

    @Test func aCertificateThatIsMissingOrNone() throws {
        #expect(try code() == nil)
        #expect(try code(certificate: []) == -42672)
        #expect(try code(certificate: [1, 2, 3]) == -42679)
        let certificate = try FairPlayTestKit.authority().certificate
        #expect(try code(certificate: certificate + [0]) == -42679)
        #expect(try code(certificate: certificate.dropLast()) == -42679)
        #expect(try code(certificate: Array("-----BEGIN CERTIFICATE-----".utf8)) == -42679)
        #expect(try code(certificate: [UInt8](repeating: 0x30, count: 100_000)) == -42679)
        // An RSA key of another size, and a key that is not RSA.
        #expect(try code(certificate: Golden.file("certificate-rsa3072.cer")) == -42679)
        #expect(try code(certificate: Golden.file("certificate-ec.cer")) == -42679)
    }

    @Test(arguments: [UInt64(1), 2])
    func damagedCertificatesThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let certificate = try FairPlayTestKit.authority().certificate
        var refused = 0
        for _ in 0..<500 where try code(certificate: generator.mutate(certificate)) != nil { refused += 1 }
        #expect(refused > 0)
    }

    @Test func anIdentifierOfAWrongLength() throws {
        #expect(try code(identifier: []) == -42673)
        #expect(try code(identifier: [1]) == -42675)
        #expect(try code(identifier: [UInt8](repeating: 1, count: 201)) == -42675)
        #expect(try code(identifier: [UInt8](repeating: 1, count: 200)) == nil)
    }

    @Test func optionsThatMakeNoSense() throws {
        #expect(try code { $0.protocolVersions = [] } == -42674)
        #expect(try code { $0.protocolVersions = [3, 0] } == -42681)
        #expect(try code { $0.protocolVersions = [UInt32](repeating: 1, count: 65) } == -42681)
        #expect(try code { $0.deviceIdentifier = [1] } == -42676)
        #expect(try code { $0.requestsPersistableKey = true } == -42676)
        #expect(try code { $0.returnRequests = [.streamingIndicator] } == -42676)
        #expect(try code { $0.additionalValues = [.r2: [1]] } == -42676)
        #expect(
            try code { $0.additionalValues = [TLLV.Tag(rawValue: 1): [UInt8](repeating: 1, count: 70_000)] } == -42676)
        #expect(try code(random: RandomSource { _ in nil }) == -42676)
        #expect(try code(random: RandomSource { [UInt8](repeating: 1, count: $0 - 1) }) == -42676)
    }

    @Test func aProviderThatFails() throws {
        struct Failure: Error, CustomStringConvertible { var description: String { "secret" } }
        struct Failing: DerivationFunction {
            func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8] { throw Failure() }
        }
        struct Short: DerivationFunction {
            func derive(r2: [UInt8], ask: [UInt8]) throws -> [UInt8] { [1, 2, 3] }
        }
        let authority = try FairPlayTestKit.authority()
        for derivation in [Failing(), Short()] as [any DerivationFunction] {
            let provider = DerivedKeyPayloadProvider(derivation: derivation, ask: authority.ask)
            #expect(try code(provider: provider) == -42676)
            let error = #expect(throws: FairPlayError.self) {
                try FairPlayExchange(
                    certificate: authority.certificate, contentIdentifier: [1, 2], provider: provider)
            }
            #expect(error?.description.contains("secret") == false)
        }
    }

    /// A kit that hides everything: the exchange only carries what it makes.
    @Test func anOpaqueProviderSeesNothingButItsOwnBlocks() throws {
        struct Payload: KeyPayload {
            let inner: any KeyPayload
            var requestBlocks: [TLLV] { inner.requestBlocks }
            func decryptResponse(_ payload: [UInt8], iv: [UInt8]) throws -> [UInt8] {
                try inner.decryptResponse(payload, iv: iv)
            }
            func isEcho(ofR1 bytes: [UInt8]) -> Bool { inner.isEcho(ofR1: bytes) }
            func decryptContentKey(_ bytes: [UInt8], iv: InitializationVector) throws -> ContentKey {
                try inner.decryptContentKey(bytes, iv: iv)
            }
        }
        struct Kit: KeyPayloadProvider {
            let inner: any KeyPayloadProvider
            func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload {
                Payload(inner: try inner.makeKeyPayload(deviceIdentifier: deviceIdentifier, random: random))
            }
        }
        let authority = try FairPlayTestKit.authority()
        let kit = Kit(inner: authority.provider)
        let exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], provider: kit)
        #expect(try FairPlayTestKit.payload(of: exchange)[.requestIntegrity] == nil)
        let license = try exchange.open(response: try FairPlayTestKit.answer(exchange).ckc)
        #expect(try #require(license.contentKey) == (try FairPlayTestKit.contentKey()))
        // It gives no code, so that an answer with one cannot be believed.
        var options = FairPlayExchange.Options()
        options.sendsIntegrity = true
        let coded = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], options: options, provider: kit)
        let answer = try FairPlayTestKit.answer(coded)
        #expect(throws: FairPlayError.self) { try coded.open(response: answer.ckc) }
    }

    @Test func aResponseThatIsNone() throws {
        let exchange = try Golden.exchange("spc-v1")
        let good = try Golden.file("ckc-v1.bin")
        var version = good
        version[3] = 3
        for response in [[], Array("<ckc>AAAA</ckc>".utf8), version, Array(good.prefix(28)), good + good] {
            let error = #expect(throws: FairPlayError.self) { try exchange.open(response: response) }
            #expect(error?.code == -42668)
        }
        #expect(throws: FairPlayError.self) { try exchange.open(response: [UInt8](repeating: 0, count: 100_000)) }
    }

    /// One change to a golden CKC each.
    @Test(arguments: [
        (TLLV.Tag.r1, nil), (.r1, 43), (.r1, 44), (.transactionIdentifier, nil), (.transactionIdentifier, 8),
        (.encryptedContentKey, nil), (.encryptedContentKey, 31), (.encryptedContentKey, 48), (.contentKeyDuration, 15),
        (.contentKeyDuration, 16), (.hdcp, 12), (.hdcp, 16), (.offlineKey, 32), (.responseIntegrity, 32),
        (.responseIntegrity, 31),
    ])
    func aBlockThatIsMissingOrWrong(tag: TLLV.Tag, size: Int?) throws {
        let exchange = try Golden.exchange("spc-v1")
        var response = try ForgedResponse("ckc-v1", to: "spc-v1")
        _ = try exchange.open(response: try response.serialized())
        response.set(tag, size.map { [UInt8](repeating: 0x7E, count: $0) })
        let forged = try response.serialized()
        let error = #expect(throws: FairPlayError.self) { try exchange.open(response: forged) }
        #expect(error?.code == -42668)
    }

    @Test func aBlockThatStandsThereTwice() throws {
        let exchange = try Golden.exchange("spc-v1")
        var response = try ForgedResponse("ckc-v1", to: "spc-v1")
        let blocks = response.blocks
        for block in blocks + [TLLV(TLLV.Tag(rawValue: 5), [], padding: [])] {
            response.blocks = blocks + (blocks.contains(block) ? [block] : [block, block])
            let forged = try response.serialized()
            let error = #expect(throws: FairPlayError.self) { try exchange.open(response: forged) }
            #expect(error?.code == -42668 && error?.description.contains("duplicate") == true)
        }
    }

    @Test func unknownBlocksAreKeptAndDoNoHarm() throws {
        // With the code offered, they would be refused where it is missing.
        var options = FairPlayExchange.Options()
        options.sendsIntegrity = false
        let exchange = try Golden.exchange("spc-v1", options: options)
        var response = try ForgedResponse("ckc-v1", to: "spc-v1")
        response.set(TLLV.Tag(rawValue: 5), [1])
        response.set(TLLV.Tag(rawValue: 6), [])
        response.blocks.shuffle()
        let license = try exchange.open(response: try response.serialized())
        #expect(Set(license.otherBlocks.map(\.tag.rawValue)) == [5, 6])
    }

    @Test func everyErrorHasItsNumber() {
        let numbers: [(FairPlayError, Int)] = [
            (.leaseExpired("x"), -42656), (.invalidResponse("x"), -42668), (.noCertificate("x"), -42672),
            (.noAssetIdentifier("x"), -42673), (.noProtocolVersions("x"), -42674),
            (.invalidAssetIdentifier("x"), -42675), (.requestCreationFailed("x"), -42676),
            (.invalidCertificate("x"), -42679), (.invalidProtocolVersions("x"), -42681),
            (.revokedCertificate("x"), -42783), (.persistableKeyFormat("x"), -42799),
            (.persistableKeyExpired("x"), -42800), (.invalidPersistableKey("x"), -42803),
        ]
        for (error, number) in numbers {
            #expect(error.code == number)
            #expect(error.description == "\(error.shortDescription) (\(number)): x")
            #expect(error.keyError.description.contains("(\(number)): x"))
            #expect(numbers.filter { $0.0.isSameKind(as: error) }.count == 1)
        }
        #expect(FairPlayError.leaseExpired("").description == "lease expired (-42656)")
        #expect(FairPlayError.leaseExpired("").keyError.isSameKind(as: .leaseExpired("")))
        #expect(FairPlayError.invalidResponse("").keyError.isSameKind(as: .malformedResponse("")))
    }

    @Test func everyErrorOfTheServerHasItsNumber() {
        let numbers: [(FairPlayServerError, Int)] = [
            (.requestVersion("x"), -42580), (.malformedRequest("x"), -42581), (.responseNotMade("x"), -42582),
            (.missingBlock("x"), -42583), (.keyNotFound("x"), -42584), (.invalidParameter("x"), -42585),
            (.replay("x"), -42585), (.cryptography("x"), -42588), (.integrity("x"), -42589),
            (.protocolVersion("x"), -42590), (.duplicateBlock("x"), -42591),
        ]
        for (error, number) in numbers {
            #expect(error.code == number)
            #expect(error.description == "\(error.shortDescription) (\(number)): x")
            #expect(numbers.filter { $0.0.isSameKind(as: error) }.count == 1)
        }
    }
}
