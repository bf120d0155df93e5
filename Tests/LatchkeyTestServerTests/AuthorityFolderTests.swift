// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyTestServer
import Testing

/// `latchkey-server --make-authority`.
@Suite struct AuthorityFolderTests {
    private let path = NSTemporaryDirectory() + "/latchkey-authority-" + UUID().uuidString

    private func contents() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: path)
        return try Dictionary(
            uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: URL(filePath: "\(path)/\($0)"))) })
    }

    private func remove() { try? FileManager.default.removeItem(atPath: path) }

    @Test func makesAllInAnEmptyFolder() throws {
        defer { remove() }
        let folder = try AuthorityFolder(makingAt: path)
        #expect(folder.kept.isEmpty)
        #expect(try folder.made == contents().keys.sorted())
        for name in ["playready-model.bcert", "playready-root.pub", "fairplay-v1.cer", "fairplay-ask.hex"] {
            #expect(folder.made.contains(name))
            #expect(folder.lines(for: path).contains("made  \(name)"))
        }
        #expect(folder.lines(for: path).last == "\(path): a new test authority")
    }

    @Test func saysThatAnAuthorityIsThereAndChangesNothing() throws {
        defer { remove() }
        _ = try AuthorityFolder(makingAt: path)
        let before = try contents()
        let folder = try AuthorityFolder(makingAt: path)
        #expect(folder.made.isEmpty && folder.kept == before.keys.sorted())
        #expect(try contents() == before)
        let lines = folder.lines(for: path)
        #expect(lines.dropLast().allSatisfy { $0.hasPrefix("kept  ") } && lines.count == before.count + 1)
        #expect(lines.last?.contains("was there already; nothing was made or changed") == true)
    }

    @Test func makesWhatIsMissing() throws {
        defer { remove() }
        _ = try AuthorityFolder(makingAt: path)
        let before = try contents()
        for name in before.keys where name.hasPrefix("fairplay-") {
            try FileManager.default.removeItem(atPath: "\(path)/\(name)")
        }
        let folder = try AuthorityFolder(makingAt: path)
        #expect(folder.made == before.keys.filter { $0.hasPrefix("fairplay-") }.sorted())
        #expect(folder.lines(for: path).last?.contains("the rest was made") == true)
        for name in folder.kept { #expect(try contents()[name] == before[name]) }
    }

    @Test(arguments: ["model.bcert", "root.pub", "server.pub"])
    func saysWhatClientsLack(_ name: String) throws {
        defer { remove() }
        _ = try AuthorityFolder(makingAt: path)
        try FileManager.default.removeItem(atPath: "\(path)/playready-\(name)")
        let error = #expect(throws: PlayReadyFolderError.self) { try AuthorityFolder(makingAt: path) }
        #expect(error?.description.contains("playready-\(name) is missing") == true)
    }

    @Test func refusesADamagedOneAndChangesNothing() throws {
        defer { remove() }
        _ = try AuthorityFolder(makingAt: path)
        try Data("no key".utf8).write(to: URL(filePath: "\(path)/playready-root-key.pem"))
        let before = try contents()
        #expect(throws: PlayReadyFolderError.self) { try AuthorityFolder(makingAt: path) }
        #expect(try contents() == before)
    }
}
