// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import ArgumentParser
import Foundation
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import latchkey

/// `latchkey provision`.
@Suite struct ProvisionTests {
    private let scratch = ScratchFolder()

    /// The folder of a new test authority, as `latchkey-server --make-authority` writes it.
    private func authority(_ name: String = "authority") throws -> String {
        let folder = scratch.path(name)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (name, bytes) in try PlayReadyTestAuthority.generate().files() {
            try Data(bytes).write(to: URL(fileURLWithPath: "\(folder)/playready-\(name)"))
        }
        return folder
    }

    private func provision(_ arguments: String...) throws {
        var command = try LatchkeyCommand.parseAsRoot(["provision"] + arguments)
        try command.run()
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test func makesAFolderAndADevice() throws {
        let folder = scratch.path("provisioning")
        try provision("--authority", try authority(), folder)
        let target = ProvisioningFolder(path: folder)
        let device = try #require(try target.device())
        #expect(device.isMade(by: try target.provisioning()))
        #expect(try mode(folder) == 0o700)
        for file in [ProvisioningFolder.File.modelKey, .deviceSigningKey, .deviceEncryptionKey] {
            #expect(try mode(target.path(of: file)) == 0o600)
        }
    }

    /// The lines that it prints make a client.
    @Test func saysWhatPlayersNeed() throws {
        let folder = scratch.path("provisioning")
        try provision("--authority", try authority(), folder)
        let lines = ProvisionCommand.configuration(of: ProvisioningFolder(path: folder))
        #expect(lines.first == "[playready]" && lines.count == 5)
        var entries = Dictionary(
            uniqueKeysWithValues: lines.dropFirst().map { line in
                let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
                return (parts[0], parts[1])
            })
        #expect(entries.values.allSatisfy { $0.hasPrefix("/") })
        entries["store"] = scratch.path("store")
        let configuration = try PlayReadySettings(entries).makeConfiguration()
        let bundle = try ProvisioningFolder(path: folder).provisioning()
        #expect(configuration.provisioning.rootKey == bundle.rootKey)
    }

    /// Nor by players, whose settings are the lines that it prints.
    @Test func filesThatOthersMayWriteAreNotUsed() throws {
        let folder = scratch.path("provisioning")
        try provision("--authority", try authority(), folder)
        let target = ProvisioningFolder(path: folder)
        var entries = ["store": scratch.path("store")]
        for line in ProvisionCommand.configuration(of: target).dropFirst() {
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            entries[parts[0]] = parts[1]
        }
        for path in entries.values where path != scratch.path("store") {
            let wanted = try mode(path)
            #expect(chmod(path, 0o602) == 0)
            let error = #expect(throws: KeyError.self) { try PlayReadySettings(entries).makeConfiguration() }
            #expect(error?.description.contains("\(path): others may write to it") == true)
            #expect(throws: ProvisioningError.self, "\(path)") { try target.provisioning() }
            #expect(chmod(path, mode_t(wanted)) == 0)
        }
        _ = try PlayReadySettings(entries).makeConfiguration()
        _ = try target.provisioning()
    }

    @Test func keepsTheDeviceOfTheSameModel() throws {
        let (folder, authority) = (scratch.path("provisioning"), try authority())
        try provision("--authority", authority, folder)
        let first = try ProvisioningFolder(path: folder).device()?.chain
        try provision("--authority", authority, folder)
        try provision(folder)
        #expect(try ProvisioningFolder(path: folder).device()?.chain == first)
    }

    @Test func makesADeviceAnewForAnotherModel() throws {
        let folder = scratch.path("provisioning")
        try provision("--authority", try authority("one"), folder)
        let first = try ProvisioningFolder(path: folder).device()?.chain
        try provision("--authority", try authority("two"), folder)
        let target = ProvisioningFolder(path: folder)
        #expect(try target.device()?.chain != first)
        #expect(try target.device()?.isMade(by: target.provisioning()) == true)
    }

    @Test func takesFilesOfAnyName() throws {
        let (folder, authority) = (scratch.path("provisioning"), try authority())
        let root = try Data(contentsOf: URL(fileURLWithPath: "\(authority)/playready-root.pub"))
        let hexadecimal = scratch.path("root.txt")
        try Data("\(Hex.encode(Array(root)))\n".utf8).write(to: URL(fileURLWithPath: hexadecimal))
        try provision(
            "--model-certificate", "\(authority)/playready-model.bcert", "--model-key",
            "\(authority)/playready-model-key.pem", "--root-key", hexadecimal, "--server-key",
            "\(authority)/playready-server.pub", folder)
        #expect(try ProvisioningFolder(path: folder).provisioning().rootKey == Array(root))
    }

    @Test func takesATimeKeyAndARevocationList() throws {
        let folder = scratch.path("provisioning")
        let issuer = try PlayReadyTestAuthority.generate()
        let authority = scratch.path("authority")
        try FileManager.default.createDirectory(atPath: authority, withIntermediateDirectories: true)
        for (name, bytes) in try issuer.files() {
            try Data(bytes).write(to: URL(fileURLWithPath: "\(authority)/playready-\(name)"))
        }
        let list = try issuer.revocationList(version: 2, revoking: ["license-signer"])
        let listFile = scratch.path("list.crl")
        try Data(list.bytes).write(to: URL(fileURLWithPath: listFile))
        try provision(
            "--authority", authority, "--time-key", "\(authority)/playready-root.pub", "--revocation-list", listFile,
            folder)
        let bundle = try ProvisioningFolder(path: folder).provisioning()
        #expect(bundle.timeKey == issuer.rootKey && bundle.revocations.lists == [list])
        // A new bundle without them takes them away.
        try provision("--authority", authority, folder)
        let plain = try ProvisioningFolder(path: folder).provisioning()
        #expect(plain.timeKey == nil && plain.revocations.lists.isEmpty)
        let foreign = try PlayReadyTestAuthority.generate().revocationList(version: 2, revoking: [])
        try Data(foreign.bytes).write(to: URL(fileURLWithPath: listFile))
        let error = #expect(throws: ProvisioningError.self) {
            try provision("--authority", authority, "--revocation-list", listFile, folder)
        }
        #expect(error?.path == listFile)
        #expect(throws: (any Error).self) { try provision("--revocation-list", listFile, folder) }
    }

    /// What is wrong, and the file that the error has to name.
    @Test(arguments: [
        ("playready-model.bcert", "cut"), ("playready-model.bcert", "missing"), ("playready-model-key.pem", "cut"),
        ("playready-model-key.pem", "other"), ("playready-root.pub", "cut"), ("playready-root.pub", "noPoint"),
        ("playready-server.pub", "noPoint"), ("playready-server.pub", "missing"),
    ])
    func namesTheFileThatIsWrong(file: String, problem: String) throws {
        let (folder, authority) = (scratch.path("provisioning"), try authority())
        let url = URL(fileURLWithPath: "\(authority)/\(file)")
        switch problem {
        case "cut": try Data(try Data(contentsOf: url).dropLast(30)).write(to: url)
        case "missing": try FileManager.default.removeItem(at: url)
        case "other": try Data(contentsOf: URL(fileURLWithPath: "\(authority)/playready-root-key.pem")).write(to: url)
        default: try Data(repeating: 1, count: 64).write(to: url)
        }
        let error = #expect(throws: ProvisioningError.self) { try provision("--authority", authority, folder) }
        #expect(error?.path == url.path, "\(String(describing: error))")
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test func aForeignRootIsNoRoot() throws {
        let (folder, one, two) = (scratch.path("provisioning"), try authority("one"), try authority("two"))
        let error = #expect(throws: ProvisioningError.self) {
            try provision(
                "--model-certificate", "\(one)/playready-model.bcert", "--model-key", "\(one)/playready-model-key.pem",
                "--root-key", "\(two)/playready-root.pub", "--server-key", "\(one)/playready-server.pub", folder)
        }
        #expect(error?.path == "\(one)/playready-model.bcert")
        #expect(error?.reason.contains("root") == true, "\(String(describing: error))")
    }

    @Test func anEmptyFolderIsNamed() throws {
        let error = #expect(throws: ProvisioningError.self) { try provision(scratch.path("nothing")) }
        #expect(error?.path.hasSuffix("nothing/playready-model.bcert") == true)
    }

    @Test func errorsHaveNoKeyInThem() throws {
        let (folder, authority) = (scratch.path("provisioning"), try authority())
        let url = URL(fileURLWithPath: "\(authority)/playready-model-key.pem")
        let text = try #require(String(bytes: try Data(contentsOf: url), encoding: .utf8))
        let secret = text.split(separator: "\n")[1]
        try Data(text.replacing("BEGIN", with: "BEGI").utf8).write(to: url)
        let error = #expect(throws: ProvisioningError.self) { try provision("--authority", authority, folder) }
        #expect(error.map { !"\($0)".contains(secret) } == true)
    }
}
