// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct HLSKeyTests {
    @Test func allAttributes() throws {
        let key = try HLSKey(
            attributeList: """
                METHOD=SAMPLE-AES,URI="skd://a?b=c,d",KEYID=0x000102030405060708090a0b0c0d0e0f,\
                IV=0x00112233445566778899AABBCCDDEEFF,KEYFORMATVERSIONS="1/2/5",KEYFORMAT="com.apple.streamingkeydelivery"
                """)
        #expect(key.method == .sampleAES)
        #expect(key.uri == "skd://a?b=c,d")
        #expect(key.keyID == KeyID(hex: "000102030405060708090a0b0c0d0e0f"))
        #expect(key.initializationVector?.bytes.first == 0)
        #expect(key.initializationVector?.bytes.last == 0xFF)
        #expect(key.keyFormat == HLSKeyFormat.fairPlay.name)
        #expect(key.keyFormatVersions == [1, 2, 5])
    }

    @Test func defaults() throws {
        let key = try HLSKey(attributeList: "METHOD=AES-128,URI=\"key.bin\"")
        #expect(key == HLSKey(method: .aes128, uri: "key.bin"))
        #expect(key.keyFormat == "identity")
        #expect(key.keyFormatVersions == [1])
        #expect(key.initializationVector == nil && key.keyID == nil)
    }

    @Test(arguments: [
        ("NONE", HLSKey.Method.none), ("AES-128", .aes128), ("SAMPLE-AES", .sampleAES),
        ("SAMPLE-AES-CTR", .sampleAESCTR),
        ("SAMPLE-AES-CENC", .sampleAESCTR), ("ISO-23001-7", .sampleAESCTR), ("AES-256-GCM", .aes256GCM),
        ("sample-aes", .other("sample-aes")), ("AES-4096", .other("AES-4096")),
    ])
    func methods(name: String, expected: HLSKey.Method) throws {
        #expect(try HLSKey(attributeList: "METHOD=\(name),URI=\"k\"").method == expected)
    }

    @Test func schemesOfFragmentedMP4() {
        #expect(HLSKey.Method.sampleAES.scheme == .cbcs)
        #expect(HLSKey.Method.sampleAESCTR.scheme == .cenc)
        #expect(HLSKey.Method.aes128.scheme == nil)
    }

    @Test func noneHasNothingElse() throws {
        #expect(try HLSKey(attributeList: "METHOD=NONE,URI=\"x\",IV=0xzz,KEYFORMAT=\"y\"") == .none)
        #expect(HLSKey.none.attributeList == "METHOD=NONE")
    }

    /// An IV is a number: the digits of a short one stand at the end.
    @Test(arguments: [
        ("0x3334353637383930", UInt64(0), UInt64(0x3334_3536_3738_3930)), ("0x1", 0, 1), ("0XfF", 0, 255),
        ("0x10000000000000000", 1, 0), ("0xffffffffffffffffffffffffffffffff", .max, .max),
    ])
    func initializationVectors(digits: String, high: UInt64, low: UInt64) throws {
        let key = try HLSKey(attributeList: "METHOD=AES-128,URI=\"k\",IV=\(digits)")
        #expect(key.initializationVector == InitializationVector(high: high, low: low))
    }

    @Test(arguments: [
        "URI=\"k\"", "METHOD=,URI=\"k\"", "METHOD=AES-128", "METHOD=AES-128,URI=\"\"",
        "METHOD=SAMPLE-AES,URI=\"skd://\"",
        "METHOD=SAMPLE-AES,URI=\"skd:\"", "METHOD=AES-128,URI=\"#x\"", "METHOD=AES-128,URI=\"k\",IV=0x",
        "METHOD=AES-128,URI=\"k\",IV=12", "METHOD=AES-128,URI=\"k\",IV=0xZZ", "METHOD=AES-128,URI=\"k\",IV=0x+1",
        "METHOD=AES-128,URI=\"k\",IV=0x000000000000000000000000000000000", "METHOD=AES-128,URI=\"k\",KEYID=0xx",
        "METHOD=AES-128,URI=\"k\",KEYFORMATVERSIONS=\"\"", "METHOD=AES-128,URI=\"k\",KEYFORMATVERSIONS=\"1//2\"",
        "METHOD=AES-128,URI=\"k\",KEYFORMATVERSIONS=\"a\"", "METHOD=AES-128,URI=\"k\",URI=\"l\"",
        "METHOD=AES-256-GCM,URI=\"k\",IV=0x00", "METHOD=AES-128,URI=\"k",
    ])
    func malformedKeys(text: String) {
        #expect {
            try HLSKey(attributeList: text)
        } throws: { ($0 as? FormatError)?.isSameKind(as: .malformed("")) == true }
    }

    @Test func counterModeHasNoInitializationVector() throws {
        let key = try HLSKey(attributeList: "METHOD=SAMPLE-AES-CTR,URI=\"k\",IV=0x01")
        #expect(key.initializationVector == nil)
    }

    /// Only an `identity` key without an IV takes the sequence number; FairPlay's answer brings the IV.
    @Test func initializationVectorsOfSegments() throws {
        var key = HLSKey(method: .aes128, uri: "k")
        let sequence: UInt64 = 0x1_0000_0002
        #expect(key.initializationVector(forSegment: sequence) == InitializationVector(high: 0, low: sequence))
        key.initializationVector = InitializationVector(high: 1, low: 2)
        #expect(key.initializationVector(forSegment: sequence) == InitializationVector(high: 1, low: 2))
        key = HLSKey(method: .sampleAES, uri: "skd://a", keyFormat: HLSKeyFormat.fairPlay.name)
        #expect(key.initializationVector(forSegment: sequence) == nil)
    }

    @Test func resolvedURIs() {
        let base = URIReference("https://h/a/b.m3u8")
        #expect(HLSKey(method: .aes128, uri: "../k").resolved(against: base).uri == "https://h/k")
        #expect(HLSKey(method: .sampleAES, uri: "skd://ü/../x").resolved(against: base).uri == "skd://ü/../x")
        #expect(HLSKey.none.resolved(against: base) == .none)
    }

    @Test(arguments: [
        (HLSKeyFormat.fairPlay, ProtectionSystem.fairPlay), (.identity, .common), (.playReady, .playReady),
        (.widevine, .widevine), (HLSKeyFormat("com.example"), .common),
    ])
    func initializationDataNamesTheKey(format: HLSKeyFormat, system: ProtectionSystem) throws {
        let key = HLSKey(
            method: .sampleAES, uri: "skd://asset/ü?x=%2F&y=,",
            initializationVector: InitializationVector(high: 3, low: 4),
            keyFormat: format.name, keyFormatVersions: [1, 2], keyID: KeyID(high: 5, low: 6))
        let keyID = KeyID(high: 7, low: 8)
        let box = key.initializationData(keyID: keyID)
        #expect(box.version == 1)
        #expect(box.system == system)
        #expect(box.keyIDs == [keyID])
        #expect(
            String(decoding: box.data, as: UTF8.self).hasPrefix("METHOD=SAMPLE-AES,URI=\"skd://asset/ü?x=%2F&y=,\""))
        let bytes = try #require(box.serialized())
        #expect(try PSSHBox.boxes(in: bytes).map(HLSKey.key(in:)) == [key])
    }

    @Test func otherBoxesNameNoKey() throws {
        let key = HLSKey(method: .sampleAES, uri: "skd://a", keyFormat: HLSKeyFormat.fairPlay.name)
        var box = key.initializationData(keyID: KeyID(high: 0, low: 1))
        #expect(HLSKey.key(in: box) == key)
        box.system = .playReady
        #expect(HLSKey.key(in: box) == nil)
        for data in ["", "METHOD=", "METHOD=NONE", "METHOD=SAMPLE-AES", "URI=\"skd://a\"", "{}"] {
            #expect(HLSKey.key(in: PSSHBox(system: .common, data: Array(data.utf8))) == nil)
        }
        #expect(HLSKey.key(in: PSSHBox(system: .common, data: Array("METHOD=".utf8) + [0xFF])) == nil)
        for bytes in try CorpusBoxes.all() {
            #expect(try PSSHBox.boxes(in: bytes).compactMap(HLSKey.key(in:)).isEmpty)
        }
    }

    @Test func descriptionsShowNoKeyInAURI() {
        let key = HLSKey(method: .aes128, uri: "data:text/plain;base64,c2VjcmV0")
        #expect("\(key)" == "AES-128 data:… (identity)")
        #expect("\(HLSKey(method: .aes128, uri: "https://u:p@h/k?token=1"))" == "AES-128 https://h/k (identity)")
    }

    @Test(arguments: [UInt64(1), 2])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let methods: [HLSKey.Method] = [.aes128, .sampleAES, .sampleAESCTR, .aes256GCM, .other("X-1")]
        for _ in 0..<400 {
            let method = methods.randomElement(using: &generator) ?? .aes128
            let takesIV = method != .sampleAESCTR && method != .aes256GCM
            let key = HLSKey(
                method: method, uri: ["skd://a/b", "https://h/k?x=1,2", "data:,x"].randomElement(using: &generator),
                initializationVector: takesIV && Bool.random(using: &generator)
                    ? InitializationVector(high: generator.next(), low: generator.next()) : nil,
                keyFormat: ["identity", "com.apple.streamingkeydelivery", "a b"].randomElement(using: &generator) ?? "",
                keyFormatVersions: [[1], [2], [1, 2, 5]].randomElement(using: &generator) ?? [1],
                keyID: Bool.random(using: &generator) ? KeyID(high: generator.next(), low: 1) : nil)
            #expect(try HLSKey(attributeList: key.attributeList) == key)
        }
    }
}
