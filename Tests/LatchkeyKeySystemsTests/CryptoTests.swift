// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// OpenSSL, as it is called here, against the published vectors.
@Suite struct CryptoTests {
    private func bytes(_ digits: String) throws -> [UInt8] { try #require(Hex.decode(digits)) }

    /// FIPS 197, appendix C.1.
    @Test func aesECB() throws {
        let key = try #require(ContentKey(hex: "000102030405060708090a0b0c0d0e0f"))
        let clear = try bytes("00112233445566778899aabbccddeeff")
        let secret = try bytes("69c4e0d86a7b0430d8cdb78070b4c55a")
        #expect(try AES.ecb(.encrypt, key: key, clear) == secret)
        #expect(try AES.ecb(.decrypt, key: key, secret) == clear)
    }

    /// NIST SP 800-38A, F.2.1, the first two blocks.
    @Test func aesCBC() throws {
        let key = try #require(ContentKey(hex: "2b7e151628aed2a6abf7158809cf4f3c"))
        let iv = try bytes("000102030405060708090a0b0c0d0e0f")
        let clear = try bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
        let secret = try bytes("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2")
        #expect(try AES.cbc(.encrypt, key: key, iv: iv, clear) == secret)
        #expect(try AES.cbc(.decrypt, key: key, iv: iv, secret) == clear)
        #expect(throws: CryptoError.self) { try AES.cbc(.encrypt, key: key, iv: [1], clear) }
        #expect(throws: CryptoError.self) { try AES.cbc(.encrypt, key: key, iv: iv, [1, 2, 3]) }
        #expect(try AES.cbc(.encrypt, key: key, iv: iv, []).isEmpty)
    }

    /// "abc" of FIPS 180-4's examples, and RFC 4231, test case 2.
    @Test func digests() throws {
        let text = Array("abc".utf8)
        #expect(try Digest.sha1(text) == (try bytes("a9993e364706816aba3e25717850c26c9cd0d89d")))
        #expect(
            try Digest.sha256(text)
                == (try bytes("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")))
        #expect(
            try Digest.hmac(key: Array("Jefe".utf8), Array("what do ya want for nothing?".utf8))
                == (try bytes("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")))
    }

    /// Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega).
    @Test func aesGCM() throws {
        let key = try bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
        let nonce = try bytes("cafebabefacedbaddecaf888")
        let header = try bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        let clear = try bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39")
        let sealed = try bytes(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662" + "76fc6ece0f4e1768cddf8853bb2d551b")
        let cipher = try AESGCM(try #require(SealingKey(key)))
        #expect(try cipher.seal(clear, nonce: nonce, authenticating: header) == sealed)
        #expect(try cipher.open(sealed, nonce: nonce, authenticating: header) == clear)
        for position in sealed.indices {
            var changed = sealed
            changed[position] ^= 1
            #expect(try cipher.open(changed, nonce: nonce, authenticating: header) == nil)
        }
        #expect(try cipher.open(sealed, nonce: nonce, authenticating: []) == nil)
        #expect(try cipher.open([1, 2, 3], nonce: nonce, authenticating: header) == nil)
        #expect(throws: CryptoError.self) { try cipher.seal(clear, nonce: [1], authenticating: header) }
    }

    @Test(arguments: [1024, 2048])
    func rsa(bits: Int) throws {
        let key = try RSAKey.generate(bits: bits)
        #expect(key.bits == bits)
        let wrapped = try key.wrap([1, 2, 3])
        #expect(wrapped.count == bits / 8)
        #expect(try key.unwrap(wrapped) == [1, 2, 3])
        #expect(try key.wrap([1, 2, 3]) != wrapped)
        let again = try RSAKey.key(privateKeyPEM: try key.privateKeyPEM())
        #expect(again.isSame(as: key))
        #expect(try again.unwrap(wrapped) == [1, 2, 3])
        #expect(throws: CryptoError.self) { try key.unwrap(wrapped.dropLast()) }
        #expect(throws: CryptoError.self) { try key.unwrap([UInt8](repeating: 1, count: bits / 8)) }
        #expect(throws: CryptoError.self) { try key.wrap([UInt8](repeating: 1, count: bits / 8)) }
        // The public half alone wraps, and unwraps nothing.
        let certificate = try X509Certificate.selfSigned(key: key, commonName: "test", random: .system)
        #expect(try key.unwrap(certificate.publicKey.wrap([7])) == [7])
        #expect(throws: CryptoError.self) { try certificate.publicKey.unwrap(wrapped) }
    }

    @Test func theAuthorityIsReadAsItWasWritten() throws {
        let authority = try FairPlayTestKit.authority()
        let pem = try authority.privateKeyPEM()
        let again = try FairPlayTestAuthority.read(
            certificate: authority.certificate, privateKeyPEM: pem, ask: authority.ask)
        #expect(again.version == .v1 && again.certificate == authority.certificate)
        let other = try FairPlayTestKit.authority(.v2)
        for (certificate, key) in [
            (authority.certificate, try other.privateKeyPEM()), (other.certificate, pem), ([], pem),
            (authority.certificate, []), (authority.certificate, Array("no key".utf8)),
            (try Golden.file("certificate-rsa3072.cer"), pem),
        ] {
            let error = #expect(throws: FairPlayError.self) {
                try FairPlayTestAuthority.read(certificate: certificate, privateKeyPEM: key, ask: authority.ask)
            }
            #expect(error?.code == -42679)
        }
        var generator = SeededGenerator(seed: 5)
        for _ in 0..<200 {
            _ = try? FairPlayTestAuthority.read(
                certificate: authority.certificate, privateKeyPEM: generator.mutate(pem), ask: authority.ask)
        }
    }

    @Test func randomBytesAreThatMany() throws {
        #expect(try RandomSource.system.bytes(0).isEmpty)
        #expect(try RandomSource.system.bytes(1000).count == 1000)
        #expect(Set(try (0..<100).map { _ in try RandomSource.system.number() }).count == 100)
        #expect(Set(try RandomSource.system.shuffle(Array(0..<100))) == Set(0..<100))
        #expect(try RandomSource.system.shuffle(Array(0..<100)) != Array(0..<100))
    }

    @Test func comparesEveryByte() {
        #expect(isEqualInConstantTime([], []))
        #expect(isEqualInConstantTime([1, 2], [1, 2]))
        #expect(!isEqualInConstantTime([1, 2], [1, 3]))
        #expect(!isEqualInConstantTime([1, 2], [1, 2, 0]))
    }
}
