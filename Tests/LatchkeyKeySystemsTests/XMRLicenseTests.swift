// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct XMRLicenseTests {
    /// The values that the golden license was made of; the wrapped key is taken from it.
    private func terms(_ golden: XMRLicense) throws -> XMRTerms {
        var terms = XMRTerms()
        terms.allowsPlayback = true
        terms.outputLevels = .init(
            compressedDigitalVideo: 500, uncompressedDigitalVideo: 250, analogVideo: 150, compressedDigitalAudio: 100,
            uncompressedDigitalAudio: 100)
        terms.analogProtections = [
            .init(try PlayReadyGolden.guid("C3FD11C6-F8B7-4D20-B008-1DB17D61F2DA"), data: [0, 0, 0, 2])
        ]
        terms.digitalVideoProtections = [
            .init(
                try PlayReadyGolden.guid("9645E831-E01D-4FFF-8342-0A720E3E028F"), data: [0, 0, 4, 0x38, 0, 0, 7, 0x80])
        ]
        terms.playEnablers = [try PlayReadyGolden.guid("786627D8-C2A6-44BE-8F88-08AE255B01A7")]
        terms.begin = 0
        terms.end = 1_446_224_230
        terms.issueDate = 1_446_224_170
        terms.revocationInformationVersion = 30
        terms.minimumSecurityLevel = 2000
        terms.embeddingBehavior = 1
        let material = try #require(golden.outer.first(.keyMaterial))
        let wrapped = try #require(material.first(.contentKey)?.data.suffix(128))
        terms.key = .init(keyID: try PlayReadyGolden.keyID(), data: Array(wrapped))
        terms.boundKey = try PlayReadyGolden.publicKey("device encrypt")
        return terms
    }

    @Test func readsTheGoldenLicense() throws {
        let golden = try XMRLicense(reading: PlayReadyGolden.file("license.bin"))
        var expected = try terms(golden)
        expected.expirationAfterFirstPlay = 3600
        #expect(try XMRTerms(golden) == expected)
        #expect(golden.rightsID.uuidOrderBytes == (try PlayReadyGolden.bytes(PlayReadyGolden.known().rightsID)))
        #expect(golden.signedBytes.count == golden.bytes.count - 28)
        #expect(!expected.cannotPersist)
    }

    @Test(arguments: ["license", "license-temporary"]) func writesTheGoldenLicense(name: String) throws {
        let golden = try XMRLicense(reading: PlayReadyGolden.file("\(name).bin"))
        var terms = try terms(golden)
        if name == "license" { terms.expirationAfterFirstPlay = 3600 } else { terms.cannotPersist = true }
        let made = try XMRLicense.make(rightsID: golden.rightsID, objects: terms.objects) { signed in
            #expect(signed == Array(golden.signedBytes))
            return golden.signature
        }
        #expect(made == golden)
    }

    @Test(arguments: [UInt64(1), 2]) func whatIsWrittenReadsTheSame(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            let terms = try Self.randomTerms(&random)
            let license = try XMRLicense.make(
                rightsID: try #require(GUID(uuidOrder: random.bytes(16))), objects: terms.objects
            ) { _ in random.bytes(16) }
            #expect(try XMRTerms(license) == terms)
            #expect(try XMRLicense(reading: license.bytes) == license)
        }
    }

    static func randomTerms(_ random: inout SeededGenerator) throws -> XMRTerms {
        func maybe<Value>(_ value: @autoclosure () throws -> Value) rethrows -> Value? {
            Bool.random(using: &random) ? try value() : nil
        }
        func number() -> UInt32 { .random(in: 0...UInt32.max - 1, using: &random) }
        func guid() throws -> GUID { try #require(GUID(uuidOrder: random.bytes(16))) }
        func protections() throws -> [XMRTerms.ExplicitProtection] {
            try (0..<Int.random(in: 0...2, using: &random)).map { _ in .init(try guid(), data: random.bytes(8)) }
        }
        var terms = XMRTerms()
        if let begin = maybe(number()) { (terms.begin, terms.end) = (begin, maybe(number())) }
        terms.issueDate = maybe(number())
        terms.removalDate = maybe(number())
        terms.gracePeriod = maybe(number())
        terms.expirationAfterFirstPlay = maybe(number())
        terms.expirationAfterFirstUse = maybe(number())
        terms.expirationAfterFirstStore = maybe(number())
        terms.hasRealTimeExpiration = .random(using: &random)
        terms.minimumSecurityLevel = maybe(2000)
        terms.settings = maybe(1)
        terms.embeddingBehavior = maybe(3)
        terms.revocationInformationVersion = maybe(number())
        terms.sourceID = maybe(number())
        terms.domain = try maybe(.init(accountID: try guid(), revision: number()))
        terms.meteringID = try maybe(try guid())
        terms.secureStopID = try maybe(try guid())
        terms.policyMetadata = try protections()
        terms.allowsPlayback = .random(using: &random)
        if terms.allowsPlayback {
            terms.outputLevels = maybe(.init(compressedDigitalVideo: 1, analogVideo: 300))
            terms.analogProtections = try protections()
            terms.digitalVideoProtections = try protections()
            terms.digitalAudioProtections = try protections()
            terms.playEnablers = try protections().map(\.id)
        }
        terms.key = .init(keyID: try #require(KeyID(random.bytes(16))), type: .aesCBC, data: random.bytes(128))
        terms.boundKey = maybe(random.bytes(64))
        terms.uplink = try maybe(.init(keyID: try #require(KeyID(random.bytes(16))), checksum: random.bytes(8)))
        terms.auxiliaryKeys = (0..<Int.random(in: 0...3, using: &random)).map {
            .init(location: UInt32($0), key: random.bytes(16))
        }
        return terms
    }

    private func license(global: [XMRObject]) throws -> XMRLicense {
        try XMRLicense.make(
            rightsID: try PlayReadyGolden.guid("00000000-0000-0000-0000-000000000000"),
            objects: [XMRObject(.globalPolicy, global)]
        ) { _ in [UInt8](repeating: 0, count: 16) }
    }

    /// Every object whose layout is not public, and one that nobody knows.
    @Test(arguments: [UInt16(0x43), 0x44, 0x4F, 0x54, 0x5C, 0x5D, 0x52, 0x0FFF])
    func refusesUnknownObjectsThatHaveToBeUnderstood(type: UInt16) throws {
        let kind = XMRObject.Kind(rawValue: type)
        let license = try license(global: [XMRObject(kind, [1, 2, 3])])
        let error = #expect(throws: FormatError.self) { try XMRTerms(license) }
        #expect(error?.isSameKind(as: .unsupported("")) == true)
        let optional = try self.license(global: [XMRObject(kind, [1, 2, 3], flags: [])])
        #expect(try XMRTerms(optional) == XMRTerms())
    }

    @Test(arguments: [UInt16(0x37), 0x38, 0x3A, 0x3C, 0x3D, 0x3F, 0x40, 0x41])
    func leavesOutRightsThatOnlyAllowMore(type: UInt16) throws {
        let license = try license(global: [XMRObject(.init(rawValue: type), [1, 2, 3])])
        #expect(try XMRTerms(license) == XMRTerms())
    }

    @Test func refusesObjectsThatStandThereTwiceOrHaveAnotherSize() throws {
        for objects in [
            [XMRObject(.issueDate, [0, 0, 0, 1]), XMRObject(.issueDate, [0, 0, 0, 2])],
            [XMRObject(.expiration, [0, 0, 0, 1])], [XMRObject(.securityLevel, [0, 1, 2])],
            [XMRObject(.domain, [UInt8](repeating: 0, count: 19))],
        ] {
            let license = try license(global: objects)
            #expect(throws: FormatError.self) { try XMRTerms(license) }
        }
    }

    @Test func refusesTwoEndsInDifferentContainers() throws {
        let end = XMRObject(.expiration, [0, 0, 0, 0, 0, 0, 0, 9])
        let license = try XMRLicense.make(
            rightsID: try PlayReadyGolden.guid("00000000-0000-0000-0000-000000000000"),
            objects: [XMRObject(.playbackPolicy, [end]), XMRObject(.globalPolicy, [end])]
        ) { _ in [UInt8](repeating: 0, count: 16) }
        let error = #expect(throws: FormatError.self) { try XMRTerms(license) }
        #expect(error?.isSameKind(as: .duplicate("")) == true)
    }

    @Test func refusesBrokenLicenses() throws {
        let bytes = try PlayReadyGolden.file("license.bin")
        for length in bytes.indices {
            #expect(throws: FormatError.self) { try XMRLicense(reading: Array(bytes.prefix(length))) }
        }
        #expect(throws: FormatError.self) { try XMRLicense(reading: bytes + [0]) }
        for position in 0..<8 {
            var changed = bytes
            changed[position] ^= 1
            #expect(throws: FormatError.self) { try XMRLicense(reading: changed) }
        }
        let nested = (0..<20).reduce(XMRObject(.issueDate, [UInt8]())) { inner, _ in XMRObject(.globalPolicy, [inner]) }
        #expect(throws: FormatError.self) { try license(global: [nested]) }
        #expect(throws: FormatError.self) { try XMRLicense(reading: [UInt8](repeating: 0, count: 1 << 20)) }
        // A signature that is not the last object would leave the rest unsigned.
        let signature = XMRObject(.signature, [0, 1, 0, 16] + [UInt8](repeating: 0, count: 16))
        let outer = XMRObject(.outer, [signature, XMRObject(.globalPolicy, [XMRObject]())])
        #expect(throws: FormatError.self) { try XMRLicense(reading: bytes.prefix(24) + outer.serialized) }
    }

    @Test(arguments: [UInt64(1), 2, 3]) func damagedLicensesThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bytes = try PlayReadyGolden.file("license.bin")
        var readCount = 0
        for _ in 0..<1000 {
            guard let license = try? XMRLicense(reading: random.mutate(bytes)) else { continue }
            readCount += 1
            _ = try? XMRTerms(license)
        }
        #expect(readCount > 50)
    }
}
