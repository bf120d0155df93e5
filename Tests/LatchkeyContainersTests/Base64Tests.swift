// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyTestSupport
import Testing

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
        ("foobar", "Zm9vYmFy"),
    ])
    func knowsTheVectorsOfRFC4648(plain: String, encoded: String) {
        #expect(Base64.encodeURLSafe(Array(plain.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
    }

    @Test(arguments: ["-_-_", "+/+/", "+_-/"])
    func readsBothAlphabets(text: String) {
        #expect(Base64.decode(text) == [0xFB, 0xFF, 0xBF])
        #expect(Base64.encodeURLSafe([0xFB, 0xFF, 0xBF] as [UInt8]) == "-_-_")
    }

    @Test func readsWithAndWithoutPadding() {
        #expect(Base64.decode("Zg==") == [0x66])
        #expect(Base64.decode("Zm8=") == [0x66, 0x6F])
    }

    @Test(arguments: ["Z", "Zg=", "Zg===", "Zm8==", "Zm9v=", "=", "Zg==Zg==", "Z g", "Zg\n", "Zé", "Zm9v!"])
    func refuses(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    @Test func whatIsWrittenIsReadAgain() {
        var generator = SeededGenerator(seed: 41)
        for _ in 0..<500 {
            let bytes = generator.bytes(Int.random(in: 0...64, using: &generator))
            #expect(Base64.decode(Base64.encodeURLSafe(bytes)) == bytes)
        }
    }
}
