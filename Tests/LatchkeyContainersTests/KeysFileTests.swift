// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct KeysFileTests {
    private let kid = "2a54856d33e557f486aa203a9eb94ca5"
    private let key = "c685730e9039aa683a2b62218280f4c1"
    private let iv = "000102030405060708090a0b0c0d0e0f"

    @Test func readsAllKindsOfLines() throws {
        let text = """
            # keys of the test content
            \(kid) \(key)
            \t2A54856D-33E5-57F4-86AA-203A9EB94CA5\t \(key.uppercased())   # the same as a UUID

            skd://asset/1?x=y#part \(key) 0x\(iv)
            https://keys.example:8443/k \(key) \(iv)
            * \(key)
            """
        let entries = try KeysFile(contents: Array(text.utf8), name: "keys.txt").entries
        let keyID = try #require(KeyID(hex: kid))
        #expect(
            entries.map(\.subject) == [
                .keyID(keyID), .keyID(keyID), .uri("skd://asset/1?x=y#part"), .uri("https://keys.example:8443/k"),
                .unnamed,
            ])
        #expect(entries.allSatisfy { $0.key.withBytes { Hex.encode($0) } == key })
        let vector = try #require(Hex.decode(iv).flatMap { InitializationVector($0) })
        #expect(entries.map(\.key.initializationVector) == [nil, nil, vector, vector, nil])
    }

    /// RFC 3986, section 3.1: schemes compare without case. Of the rest nothing is known to this library.
    @Test(arguments: [
        ("skd://Movie/A", true), ("SKD://Movie/A", true), ("sKd://Movie/A", true), ("skd://movie/A", false),
        ("skd:Movie/A", false), ("skd://Movie/A ", false), ("SKDS://Movie/A", false),
    ])
    func comparesSchemesWithoutCase(uri: String, isSame: Bool) throws {
        for line in ["SKD://Movie/A \(key)", "skd://Movie/A \(key)"] {
            let entries = try KeysFile(contents: Array(line.utf8), name: "keys").entries
            #expect((entries.first?.subject == KeysFile.Subject(uri: uri)) == isSame)
        }
        #expect(KeysFile.Subject(uri: "no scheme: A") == .uri("no scheme: A"))
    }

    @Test func toleratesAByteOrderMarkAndCRLFAndAnEndWithoutNewline() throws {
        let text = [0xEF, 0xBB, 0xBF] + Array("\r\n\(kid) \(key)\r\n\r\n* \(key) \(iv)\r".utf8)
        #expect(try KeysFile(contents: text, name: "keys").entries.count == 2)
    }

    @Test(arguments: ["", "\n", "# nothing\n", "\u{FEFF}", "  \t \r\n"])
    func aFileMayBeEmpty(text: String) throws {
        #expect(try KeysFile(contents: Array(text.utf8), name: "keys").entries.isEmpty)
    }

    @Test(arguments: [
        ("2a54856d33e557f486aa203a9eb94ca5", "1 field where “KID KEY”, “KID KEY IV”"),
        ("a b c d", "4 fields"),
        ("2a54856d33e557f486aa203a9eb94ca c685730e9039aa683a2b62218280f4c1", "first field"),
        ("asset c685730e9039aa683a2b62218280f4c1", "first field"),
        (":x c685730e9039aa683a2b62218280f4c1", "first field"),
        ("** c685730e9039aa683a2b62218280f4c1", "first field"),
        ("* c685730e9039aa683a2b62218280f4c", "the key"),
        ("* c685730e9039aa683a2b62218280f4c1aa", "the key"),
        ("* c685730e9039aa683a2b62218280f4cé", "the key"),
        ("* g685730e9039aa683a2b62218280f4c1", "the key"),
        ("* c685730e9039aa683a2b62218280f4c1 00", "the IV"),
        ("* c685730e9039aa683a2b62218280f4c1 0x0001020304050607", "the IV"),
    ])
    func namesTheLineAndNeverItsContent(line: String, reason: String) throws {
        let contents = Array("# first\n\(line)\n".utf8)
        let error = #expect(throws: KeyError.self) { try KeysFile(contents: contents, name: "my.keys") }
        #expect(error?.shortDescription == "invalid configuration")
        let text = try #require(error?.description)
        #expect(text.contains("my.keys, line 2: "))
        #expect(text.contains(reason))
        #expect(!text.contains("85730e9039"))
    }

    @Test func refusesAFileAboveTheLimit() throws {
        let contents = [UInt8](repeating: 0x0A, count: KeysFile.maximumSize + 1)
        #expect(throws: KeyError.self) { try KeysFile(contents: contents, name: "keys") }
    }

    @Test(arguments: [UInt64(51), 52])
    func damagedFilesThrowOrAreRead(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let source = Array("\(kid) \(key)\nskd://a \(key) \(iv)\n* \(key)\n".utf8)
        for _ in 0..<2000 {
            let bytes = generator.mutate(source)
            do throws(KeyError) {
                let file = try KeysFile(contents: bytes, name: "keys")
                #expect(file.entries.count <= 8)
            } catch {
                #expect(error.description.contains("keys, line "))
            }
        }
    }
}
