// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyCryptoTests {
    /// The test seed and five headers that Microsoft publishes.
    @Test(arguments: [
        ("AAAAEAAQABAQABAAAAAAAQ==", "5TzIYQ2hrOY="), ("4Rplb+TbNES8tGkNFWTEHA==", "KLj3QzQP/NA="),
        ("0IbHou/5s0yzM80yOkKEpQ==", "xNvWVxoWk04="), ("/qgG2xbs4k2SKCxx6bhWqw==", "GnKaQIRacPU="),
        ("q5HgCTj40kGeNVhTH9Gexw==", "w+OZVr8vzrQ="),
    ])
    func derivesTheKeysOfThePublishedHeaders(keyID: String, checksum: String) throws {
        let seed = try #require(Base64.decode("XVBovsmzhP9gRIZxWfFta3VVRPzVEWmJsazEJ46I"))
        let keyID = try #require(Base64.decode(keyID).flatMap { KeyID(guidOrder: $0) })
        let key = try PlayReadyChecksum.key(seed: seed, keyID: keyID)
        let made = try PlayReadyChecksum.checksum(of: key, keyID: keyID, algorithm: .aesCTR)
        #expect(Data(made).base64EncodedString() == checksum)
        #expect(try PlayReadyChecksum.checksum(of: key, keyID: keyID, algorithm: .aesCBC).isEmpty)
        #expect(try PlayReadyChecksum.checksum(of: key, keyID: keyID, algorithm: .cocktail).count == 7)
    }

    @Test func refusesAShortSeed() throws {
        let keyID = try #require(KeyID(hex: "00112233445566778899aabbccddeeff"))
        #expect(throws: PlayReadyError.self) { try PlayReadyChecksum.key(seed: [1, 2], keyID: keyID) }
    }

    /// RFC 4493, section 4.
    @Test(arguments: [
        (0, "bb1d6929e95937287fa37d129b756746"), (16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (40, "dfa66747de9ae63030ca32611497c827"), (64, "51f0bebf7e3b9d92fc49741779363cfe"),
    ])
    func computesThePublishedCodes(length: Int, code: String) throws {
        let key = try #require(ContentKey(hex: "2b7e151628aed2a6abf7158809cf4f3c"))
        let message = try #require(
            Hex.decode(
                "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df"
                    + "4f9b17ad2b417be66c3710"))
        #expect(Hex.encode(try AES.cmac(key: key, Array(message.prefix(length)))) == code)
    }

    /// RFC 6979, A.2.5.
    @Test func checksThePublishedSignature() throws {
        let scalar = try #require(
            Hex.decode("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"))
        let key = try P256PrivateKey.key(scalar: try #require(P256.Scalar(scalar)))
        #expect(Hex.encode(key.publicKey).hasPrefix("60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"))
        let signature = try #require(
            Hex.decode(
                "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
                    + "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"))
        #expect(P256.verify(signature, of: Array("sample".utf8), by: key.publicKey))
        #expect(!P256.verify(signature, of: Array("Sample".utf8), by: key.publicKey))
        #expect(!P256.verify([UInt8](repeating: 0, count: 64), of: Array("sample".utf8), by: key.publicKey))
        #expect(!P256.verify([], of: Array("sample".utf8), by: key.publicKey))
        #expect(P256.verify(try key.sign([1, 2]), of: [1, 2], by: key.publicKey))
        #expect(try key.scalarBytes() == scalar)
        #expect(try P256PrivateKey.key(pem: key.pem()).publicKey == key.publicKey)
        #expect("\(key)" == "<redacted>")
    }

    @Test func refusesWhatIsNotOnTheCurve() throws {
        let key = try P256PrivateKey.generate(.system)
        for bytes in [
            [], [UInt8](repeating: 0, count: 64), [UInt8](repeating: 0xFF, count: 64), Array(key.publicKey.dropLast()),
        ] {
            #expect(!P256.isPoint(bytes))
            #expect(throws: CryptoError.self) { try key.decrypt(bytes + bytes) { _ in true } }
        }
        #expect(P256.Scalar([UInt8](repeating: 0, count: 32)) == nil)
        #expect(P256.Scalar([UInt8](repeating: 0xFF, count: 32)) == nil)
        let point = try P256.Point(key.publicKey)
        let sealed = try P256.encrypt(point, for: key.publicKey, random: .system)
        #expect(try key.decrypt(sealed) { copy $0 } == Array(key.publicKey.prefix(32)))
        #expect(throws: CryptoError.self) { try P256PrivateKey.key(pem: Array("x".utf8)) }
    }

    /// NIST SP 800-38A, F.5.1, whose counter carries into nothing that the other counter rule would change.
    @Test func countsAsThePublishedVectorDoes() throws {
        let key = try #require(ContentKey(hex: "2b7e151628aed2a6abf7158809cf4f3c"))
        let counter = try #require(Hex.decode("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"))
        let clear = try #require(
            Hex.decode("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"))
        let expected = "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
        #expect(Hex.encode(try AES.counter(key: key, initial: counter, clear)) == expected)
        // The counter wraps within its 8 bytes.
        let last = [UInt8](repeating: 0xFF, count: 16)
        let stream = try AES.counter(key: key, initial: last, [UInt8](repeating: 0, count: 32))
        let wrapped = [UInt8](repeating: 0xFF, count: 8) + [UInt8](repeating: 0, count: 8)
        #expect(Array(stream.suffix(16)) == (try AES.ecb(.encrypt, key: key, wrapped)))
    }

    @Test func anEnvelopeIsSealedAndOpened() throws {
        let key = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        let object = try PlayReadyObject(reading: PlayReadyGolden.file("object-4.0.bin"))
        for size in [0, 1, 188, 4096, 4097, 20000] {
            let segment = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7) }
            let envelope = try LatchkeyEnvelope.seal(segment, object: object, key: key)
            let header = try #require(try LatchkeyEnvelope().header(of: envelope))
            #expect(header.playReadyObject == object && envelope.count == header.payloadOffset + size)
            #expect(try LatchkeyEnvelope.open(envelope, header: header, key: key) == segment)
            #expect(size < 100 || Array(envelope.suffix(size)) != segment)
            var short = header
            short.payloadOffset = envelope.count + 1
            #expect(throws: PlayReadyError.self) { try LatchkeyEnvelope.open(envelope, header: short, key: key) }
        }
    }

    @Test func theFillingOfBlocksIsChecked() throws {
        let key = try #require(ContentKey([UInt8](repeating: 1, count: 16)))
        let iv = [UInt8](repeating: 2, count: 16)
        for size in 0...33 {
            let sealed = try AES.cbcSeal(key: key, iv: iv, [UInt8](repeating: 7, count: size))
            #expect(sealed.count == (size / 16 + 1) * 16)
            #expect(try AES.cbcOpen(key: key, iv: iv, sealed) == [UInt8](repeating: 7, count: size))
        }
        let zeros = try AES.cbc(.encrypt, key: key, iv: iv, [UInt8](repeating: 0, count: 16))
        #expect(throws: CryptoError.self) { try AES.cbcOpen(key: key, iv: iv, zeros) }
        #expect(throws: CryptoError.self) { try AES.cbcOpen(key: key, iv: iv, []) }
    }
}
