// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct PlayReadyFolderTests {
    private let folder: TemporaryFolder
    private var path: String { folder.root.appendingPathComponent("authority").path }

    init() throws { folder = try TemporaryFolder() }

    @Test func theSecondStartHasTheAuthorityOfTheFirst() throws {
        let first = try PlayReadyFolder.authority(at: path)
        let second = try PlayReadyFolder.authority(at: path)
        #expect(first.rootKey == second.rootKey && first.serverKey == second.serverKey)
        func file(_ name: String) throws -> [UInt8] {
            Array(try Data(contentsOf: URL(filePath: "\(path)/playready-\(name)")))
        }
        let provisioning = try PlayReadyProvisioning(
            modelCertificate: file("model.bcert"), modelPrivateKeyPEM: file("model-key.pem"), rootKey: file("root.pub"),
            serverKey: file("server.pub"))
        #expect(try provisioning.makeDevice().securityLevel == 2000)
        for name in try FileManager.default.contentsOfDirectory(atPath: path) where name.hasSuffix(".pem") {
            let mode = try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(name)")
        }
    }

    @Test func aPrivateKeyThatOthersMayWriteIsRefused() throws {
        _ = try PlayReadyFolder.authority(at: path)
        let key = "\(path)/playready-root-key.pem"
        #expect(chmod(key, 0o602) == 0)
        let error = #expect(throws: PlayReadyFolderError.self) { try PlayReadyFolder.authority(at: path) }
        #expect(error?.description.contains("\(key): others may write to it") == true)
    }

    @Test func aMissingFileIsNamed() throws {
        _ = try PlayReadyFolder.authority(at: path)
        try FileManager.default.removeItem(atPath: "\(path)/playready-root-key.pem")
        let error = #expect(throws: PlayReadyFolderError.self) { try PlayReadyFolder.authority(at: path) }
        #expect(error?.description.contains("root-key.pem") == true)
    }
}
