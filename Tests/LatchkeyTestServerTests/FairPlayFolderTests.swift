// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct FairPlayFolderTests {
    private let folder: TemporaryFolder
    private var path: String { folder.root.appendingPathComponent("authority").path }

    init() throws { folder = try TemporaryFolder() }

    @Test func theSecondStartHasTheAuthorityOfTheFirst() throws {
        let first = try FairPlayFolder.authorities(at: path)
        #expect(first.map(\.version) == [.v1, .v2])
        let files = try FileManager.default.contentsOfDirectory(atPath: path).sorted()
        #expect(
            files == [
                "fairplay-ask.hex", "fairplay-v1.cer", "fairplay-v1.key.pem", "fairplay-v2.cer", "fairplay-v2.key.pem",
            ])
        for name in files where !name.hasSuffix(".cer") {
            let mode = try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(name)")
        }
        let second = try FairPlayFolder.authorities(at: path)
        #expect(second.map(\.certificate) == first.map(\.certificate))
        #expect(try #require(second.first).ask == (try #require(first.first)).ask)
        // An SPC for the first is one that the second opens.
        for (client, authority) in zip(first, second) {
            let exchange = try FairPlayExchange(
                certificate: client.certificate, contentIdentifier: [1, 2], provider: client.provider)
            _ = try FairPlayKeyServer(authorities: [authority]).open(exchange.request)
        }
    }

    @Test(arguments: ["fairplay-v1.key.pem", "fairplay-v2.key.pem", "fairplay-ask.hex", "fairplay-v1.cer"])
    func aFileThatOthersMayWriteIsRefused(name: String) throws {
        _ = try FairPlayFolder.authorities(at: path)
        #expect(chmod("\(path)/\(name)", 0o602) == 0)
        let error = #expect(throws: FairPlayFolderError.self) { try FairPlayFolder.authorities(at: path) }
        #expect(error?.description.contains("\(path)/\(name): others may write to it") == true)
    }

    @Test func aFileThatIsMissingOrBrokenIsNamed() throws {
        _ = try FairPlayFolder.authorities(at: path)
        func expectError(about name: String, _ sourceLocation: SourceLocation = #_sourceLocation) {
            let error = #expect(throws: FairPlayFolderError.self, sourceLocation: sourceLocation) {
                try FairPlayFolder.authorities(at: path)
            }
            #expect(error?.description.contains("\(path)/\(name): ") == true, sourceLocation: sourceLocation)
        }
        let key = try #require(FileManager.default.contents(atPath: "\(path)/fairplay-v2.key.pem"))
        let other = try #require(FileManager.default.contents(atPath: "\(path)/fairplay-v1.key.pem"))
        try FileManager.default.removeItem(atPath: "\(path)/fairplay-v2.key.pem")
        expectError(about: "fairplay-v2.key.pem")
        for contents in [Data(), Data("no key".utf8), other] {
            try contents.write(to: URL(fileURLWithPath: "\(path)/fairplay-v2.key.pem"))
            expectError(about: "fairplay-v2.cer")
        }
        try key.write(to: URL(fileURLWithPath: "\(path)/fairplay-v2.key.pem"))
        _ = try FairPlayFolder.authorities(at: path)
        try Data("00".utf8).write(to: URL(fileURLWithPath: "\(path)/fairplay-ask.hex"))
        expectError(about: "fairplay-ask.hex")
    }

    @Test func aFolderThatCannotBeMadeIsAnError() throws {
        try folder.write("", to: "file")
        #expect(throws: FairPlayFolderError.self) {
            try FairPlayFolder.authorities(at: folder.root.appendingPathComponent("file/x").path)
        }
    }
}
