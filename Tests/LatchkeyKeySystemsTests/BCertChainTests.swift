// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct BCertChainTests {
    @Test func readsTheGoldenChain() throws {
        let chain = try BCertChain(reading: PlayReadyGolden.file("chain-device.bin"))
        #expect(chain.certificates.count == 2)
        #expect(chain.leaf.basic.kind == BCert.Kind.device.rawValue && chain.leaf.basic.securityLevel == 2000)
        #expect(chain.leaf.basic.expiry == BCert.Basic.noExpiry)
        #expect(chain.leaf.key(for: .sign) == (try PlayReadyGolden.publicKey("device sign")))
        #expect(chain.leaf.key(for: .encryptKey) == (try PlayReadyGolden.publicKey("device encrypt")))
        #expect(chain.leaf.key(for: .signResponse) == nil)
        #expect(chain.leaf.has(.secureClock) && chain.leaf.has(.playReady3) && !chain.leaf.has(.antiRollbackClock))
        #expect(chain.leaf.signature.issuerKey == (try PlayReadyGolden.publicKey("model")))
        #expect(chain.certificates[1].signature.issuerKey == (try PlayReadyGolden.publicKey("root")))
        #expect(try chain.leaf.domain() == nil)
    }

    @Test(arguments: ["chain-device", "chain-server"]) func writesTheGoldenChain(name: String) throws {
        let bytes = try PlayReadyGolden.file("\(name).bin")
        #expect(try BCertChain(reading: bytes).serialized == bytes)
    }

    /// From values, with the signature of the golden certificate.
    @Test func writesTheGoldenLeaf() throws {
        let golden = try BCertChain(reading: PlayReadyGolden.file("chain-device.bin")).leaf
        let made = try BCert.make(
            objects: [
                BCert.Basic(
                    id: golden.basic.id, securityLevel: 2000, kind: .device, keyDigest: golden.basic.keyDigest
                ).object,
                BCert.deviceObject(), BCert.featuresObject([.secureClock, .revocationLists, .playReady3]),
                BCert.Key.object([
                    .init(try PlayReadyGolden.publicKey("device sign"), usages: [.sign]),
                    .init(try PlayReadyGolden.publicKey("device encrypt"), usages: [.encryptKey]),
                ]),
                BCert.manufacturerObject(name: "Latchkey", model: "Golden", number: "1"),
            ], issuerKey: try PlayReadyGolden.publicKey("model")
        ) { signed in
            #expect(signed == Array(golden.signedBytes))
            return golden.signature.value
        }
        #expect(made == golden)
    }

    @Test func readsTheDomainThatItWrites() throws {
        let golden = try BCertChain(reading: PlayReadyGolden.file("chain-device.bin")).leaf
        let domain = BCert.Domain(
            serviceID: try PlayReadyGolden.guid("00000001-0002-0003-0004-000000000005"),
            accountID: try PlayReadyGolden.guid("10000001-0002-0003-0004-000000000005"), revision: 7,
            url: "https://example.com/d")
        let certificate = try BCert.make(
            objects: [golden.basic.object, domain.object], issuerKey: golden.signature.issuerKey
        ) { _ in [UInt8](repeating: 1, count: 64) }
        #expect(try certificate.domain() == domain)
        #expect(certificate.keys.isEmpty && certificate.features.isEmpty)
    }

    @Test func refusesBrokenChains() throws {
        let bytes = try PlayReadyGolden.file("chain-device.bin")
        for length in bytes.indices {
            #expect(throws: FormatError.self) { try BCertChain(reading: Array(bytes.prefix(length))) }
        }
        #expect(throws: FormatError.self) { try BCertChain(reading: bytes + [0]) }
        let chain = try BCertChain(reading: bytes)
        #expect(throws: FormatError.self) { try BCertChain([]) }
        #expect(throws: FormatError.self) { try BCertChain(Array(repeating: chain.leaf, count: 7)) }
        let many = try BCertChain(Array(repeating: chain.leaf, count: 6))
        #expect(try BCertChain(reading: many.serialized) == many)
    }

    @Test func refusesUnknownObjectsThatHaveToBeUnderstood() throws {
        let golden = try BCertChain(reading: PlayReadyGolden.file("chain-device.bin")).leaf
        func make(_ objects: [BCertObject]) throws -> BCert {
            try BCert.make(objects: [golden.basic.object] + objects, issuerKey: golden.signature.issuerKey) { _ in
                [UInt8](repeating: 1, count: 64)
            }
        }
        let error = #expect(throws: FormatError.self) { try make([BCertObject(.init(rawValue: 0x99), [1])]) }
        #expect(error?.isSameKind(as: .unsupported("")) == true)
        #expect(throws: Never.self) { try make([BCertObject(.init(rawValue: 0x99), [1], flags: 0)]) }
        #expect(throws: FormatError.self) { try make([golden.basic.object]) }
        #expect(throws: FormatError.self) { try make([BCertObject(.keys, [0, 0, 0, 9])]) }
        #expect(throws: FormatError.self) { try make([BCertObject(.features, [0xFF, 0xFF, 0xFF, 0xFF])]) }
    }

    @Test(arguments: [UInt64(1), 2, 3]) func damagedChainsThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bytes = try PlayReadyGolden.file("chain-device.bin")
        var readCount = 0
        for _ in 0..<1000 {
            guard let chain = try? BCertChain(reading: random.mutate(bytes)) else { continue }
            readCount += 1
            #expect(try BCertChain(reading: chain.serialized) == chain)
        }
        #expect(readCount > 50)
    }
}
