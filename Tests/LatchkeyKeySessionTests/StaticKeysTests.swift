// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite("Static keys")
struct StaticKeysTests {
    private static let iv = "000102030405060708090a0b0c0d0e0f"

    private func error(_ body: () throws(KeyError) -> StaticKeys) -> KeyError? {
        do throws(KeyError) {
            _ = try body()
            return nil
        } catch {
            return error
        }
    }

    @Test(
        arguments: [
            ("\(keyID(1)):\(keyHex(1))", "\(keyID(1))", nil),
            ("\(keyID(1).uuidString):\(keyHex(1))", "\(keyID(1))", nil),
            ("\(keyID(1)):\(keyHex(1).uppercased())", "\(keyID(1))", nil),
            ("  \(keyID(1)):\(keyHex(1)) ,", "\(keyID(1))", nil),
            ("\(keyID(1)):\(keyHex(1)):\(iv)", "\(keyID(1))", iv),
            ("\(keyID(1)):\(keyHex(1)):0x\(iv)", "\(keyID(1))", iv),
            ("*:\(keyHex(1))", "*", nil),
            ("*:\(keyHex(1)):\(iv)", "*", iv),
            ("skd://asset:\(keyHex(1))", "skd://asset", nil),
            ("skd://asset:\(keyHex(1)):\(iv)", "skd://asset", iv),
            ("skd:\(keyID(1)):\(keyHex(1))", "skd:\(keyID(1))", nil),
            ("https://host:8080/k?a=1:\(keyHex(1))", "https://host:8080/k?a=1", nil),
            ("https://[::1]:8080/k:\(keyHex(1)):\(iv)", "https://[::1]:8080/k", iv),
            ("urn:a:b:\(keyHex(1))", "urn:a:b", nil),
        ] as [(String, String, String?)])
    func aPropertyEntryIsRead(text: String, subject: String, iv: String?) throws {
        let keys = try StaticKeys.parse(property: text)
        #expect(keys.entries.count == 1)
        let entry = try #require(keys.entries.first)
        let expected: KeysFile.Subject =
            if subject == "*" { .unnamed } else if let id = KeyID(hex: subject) { .keyID(id) } else { .uri(subject) }
        #expect(entry.subject == expected)
        #expect(hex(entry.key) == keyHex(1))
        #expect(entry.key.initializationVector.map { Hex.encode($0.bytes) } == iv)
    }

    @Test func entriesOfAPropertyAreFoundBySubject() throws {
        let keys = try StaticKeys.parse(
            property: "\(keyID(1)):\(keyHex(1)),\(keyID(2)):\(keyHex(2)), *:\(keyHex(3)),"
                + "skd://a:\(keyHex(4)):\(Self.iv)")
        #expect(hex(keys.key(for: keyID(1))) == keyHex(1))
        #expect(hex(keys.key(for: keyID(2))) == keyHex(2))
        #expect(keys.key(for: keyID(3)) == nil)
        #expect(hex(keys.keyWithoutID) == keyHex(3))
        #expect(hex(keys.key(forURI: "skd://a")) == keyHex(4))
        #expect(hex(keys.key(forURI: "SKD://a")) == keyHex(4))
        #expect(keys.key(forURI: "skd://b") == nil)
    }

    @Test func anEmptyPropertyHasNoKeys() throws {
        #expect(try StaticKeys.parse(property: "").entries.isEmpty)
        #expect(try StaticKeys.parse(property: " ").entries.isEmpty)
        #expect(try StaticKeys.parse(property: "").keyWithoutID == nil)
    }

    @Test func theLastEntryOfASubjectCounts() throws {
        let keys = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1)),\(keyID(1)):\(keyHex(2))")
        #expect(hex(keys.key(for: keyID(1))) == keyHex(2))
    }

    @Test(arguments: [
        keyHex(1), ":", "::", ":::", ",", "\(keyID(1)):", ":\(keyHex(1))", "\(keyID(1)):\(keyHex(1).dropLast())",
        "\(keyID(1)):\(keyHex(1))0", "\(keyID(1)):\(keyHex(1)):", "\(keyID(1)):\(keyHex(1)):0011",
        "\(keyID(1)):\(keyHex(1).dropLast())g", "nonsense:\(keyHex(1))", "\(keyID(1)) \(keyHex(1))",
        "\(keyID(1)):\(keyHex(1)),,\(keyID(2)):\(keyHex(2))", "**:\(keyHex(1))", "\u{0}:\(keyHex(1))",
    ])
    func aWrongPropertyIsRefusedWithoutBeingQuoted(text: String) {
        let good = "\(keyID(8)):\(keyHex(8))"
        guard let error = error({ () throws(KeyError) in try StaticKeys.parse(property: "\(good),\(text),\(good)") })
        else {
            Issue.record("no error for \(text)")
            return
        }
        #expect(error.isSameKind(as: .invalidConfiguration("")))
        #expect(error.description.contains("entry "))
        #expect(!error.description.contains(keyHex(1).prefix(24)))
    }

    @Test func aPropertyErrorNamesTheEntry() {
        let error = error { () throws(KeyError) in try StaticKeys.parse(property: "*:\(keyHex(1)),*:\(keyHex(1)),*:x") }
        #expect(error?.description.contains("entry 3") == true)
    }

    @Test func aKeysFileIsRead() throws {
        let text =
            "\u{FEFF}# keys\r\n\r\n\(keyID(1)) \(keyHex(1))\r\n\(keyID(2).uuidString)\t\(keyHex(2)) \(Self.iv)\n"
            + "skd://host:1/a,b?c#d \(keyHex(3))\n* \(keyHex(4)) # the rest"
        let keys = try StaticKeys.parse(file: Array(text.utf8), name: "keys.txt")
        #expect(hex(keys.key(for: keyID(1))) == keyHex(1))
        #expect(hex(keys.key(for: keyID(2))) == keyHex(2))
        #expect(hex(keys.key(forURI: "skd://host:1/a,b?c#d")) == keyHex(3))
        #expect(hex(keys.keyWithoutID) == keyHex(4))
    }

    @Test func aKeysFileErrorNamesTheLineAndNotTheKey() {
        let text = "# one\n\(keyID(1)) \(keyHex(1))\n\n\(keyID(2)) \(keyHex(2).dropLast())\n"
        let error = error { () throws(KeyError) in try StaticKeys.parse(file: Array(text.utf8), name: "keys.txt") }
        #expect(error?.description.contains("keys.txt, line 4") == true)
        #expect(error?.description.contains(keyHex(2).dropLast()) == false)
    }

    @Test(arguments: 0..<8) func noBytesTrapTheParsers(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let seeds = [
            "\(keyID(1)) \(keyHex(1)) \(Self.iv)\n# x\r\n* \(keyHex(2))\nskd://a:b,c \(keyHex(3))\n",
            "\(keyID(1)):\(keyHex(1)):\(Self.iv),*:\(keyHex(2)),skd://a:1:\(keyHex(3)),urn:a:\(keyHex(4)):0x\(Self.iv)",
        ].map { Array($0.utf8) }
        let interesting = Array(":, \t\r\n#*x0aF-\u{0}".utf8) + [0x80, 0xC2, 0xEF, 0xFF]
        var refused = 0
        for round in 0..<1_500 {
            var bytes = seeds[round % 2]
            for _ in 0..<Int.random(in: 1...6, using: &random) where !bytes.isEmpty {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = interesting[Int.random(in: 0..<interesting.count, using: &random)]
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(interesting[Int.random(in: 0..<interesting.count, using: &random)], at: place)
                default: bytes.removeSubrange(place..<min(bytes.count, place + 40))
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            for result in [
                error({ () throws(KeyError) in try StaticKeys.parse(file: bytes, name: "f") }),
                error({ () throws(KeyError) in try StaticKeys.parse(property: text) }),
            ] {
                guard let result else { continue }
                refused += 1
                #expect(result.isSameKind(as: .invalidConfiguration("")))
                #expect(!result.description.lowercased().contains("c5c5c5c5"))
            }
        }
        #expect(refused > 500)
    }

    @Test func aMissingFileIsNamed() {
        let error = error { () throws(KeyError) in try StaticKeys.read(path: "/nonexistent/latchkey.keys") }
        #expect(error?.isSameKind(as: .invalidConfiguration("")) == true)
        #expect(error?.description.contains("/nonexistent/latchkey.keys: No such file") == true)
    }

    @Test func whatIsNoFileIsRefused() throws {
        let folder = TemporaryFolder()
        #expect(error { () throws(KeyError) in try StaticKeys.read(path: folder.path) } != nil)
        #expect(error { () throws(KeyError) in try StaticKeys.read(path: "") } != nil)
        let pipe = folder.path + "/pipe"
        #expect(mkfifo(pipe, 0o600) == 0)
        let failure = error { () throws(KeyError) in try StaticKeys.read(path: pipe) }
        #expect(failure?.description.contains("not a regular file") == true)
    }

    @Test(arguments: [(0o600, true), (0o644, true), (0o602, false), (0o666, false)] as [(mode_t, Bool)])
    func aFileThatOthersMayWriteIsRefused(mode: mode_t, isRead: Bool) throws {
        let folder = TemporaryFolder()
        let path = folder.write("* c685730e9039aa683a2b62218280f4c1\n", to: "keys")
        #expect(chmod(path, mode) == 0)
        let failure = error { () throws(KeyError) in try StaticKeys.read(path: path) }
        #expect((failure == nil) == isRead)
        #expect(
            isRead || failure?.description.contains("\(path): others may write to it; run chmod go-w on it") == true)
    }

    @Test func aFileThatIsTooLargeIsRefused() throws {
        let folder = TemporaryFolder()
        let path = folder.write(String(repeating: "#", count: KeysFile.maximumSize + 1), to: "keys")
        let failure = error { () throws(KeyError) in try StaticKeys.read(path: path) }
        #expect(failure?.description.contains("too many") == true)
        let fits = folder.write(String(repeating: "#", count: KeysFile.maximumSize), to: "keys")
        #expect(try StaticKeys.read(path: fits).entries.isEmpty)
    }
}

/// A folder that goes with the last reference.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        path = FileManager.default.temporaryDirectory.path + "/latchkey-" + UUID().uuidString
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Replaces the file in one step. Returns its path.
    @discardableResult
    func write(_ text: String, to name: String) -> String {
        let file = path + "/" + name
        try? text.write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }
}
