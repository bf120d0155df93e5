// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

@Suite("Device secret")
struct DeviceSecretTests {
    let folder: StoreFolder
    private var path: String { folder.path + "/secret" }

    init() throws { folder = try StoreFolder() }

    private func hex(_ key: SealingKey) -> String { key.withBytes { Hex.encode($0) } }

    private func kind(_ body: () throws(LicenseStoreError) -> SealingKey) -> String? {
        do {
            _ = try body()
            return nil
        } catch {
            return error.shortDescription
        }
    }

    @Test func theFileIsMadeOnceAndOnlyWhenAskedFor() throws {
        let secret = FileDeviceSecret(path: path, machine: [1])
        #expect(kind { () throws(LicenseStoreError) in try secret.key(for: "a", creating: false) } == "secret missing")
        let key = hex(try secret.key(for: "a", creating: true))
        #expect(hex(try secret.key(for: "a", creating: false)) == key)
        #expect(hex(try secret.key(for: "b", creating: true)) != key)
        #expect(hex(try FileDeviceSecret(path: path, machine: [2]).key(for: "a", creating: false)) != key)
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(attributes[.size] as? Int == 32)
        #expect(try folder.contents("secret").map { $0 } != Hex.decode(key))
    }

    @Test func whoMakesItAtOnceSharesIt() async throws {
        let secret = FileDeviceSecret(path: path, machine: [])
        let keys = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<16 { group.addTask { hex(try secret.key(for: "a", creating: true)) } }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(keys.count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["secret"])
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o666, 0o700 | 0o010]) func widerPermissionsAreRefused(mode: Int) throws {
        let secret = FileDeviceSecret(path: path, machine: [])
        _ = try secret.key(for: "a", creating: true)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        #expect(kind { () throws(LicenseStoreError) in try secret.key(for: "a", creating: true) } == "secret exposed")
    }

    /// Others could exchange it, or make it first. With the sticky bit, they cannot.
    @Test(arguments: [true, false]) func aFolderThatOthersMayWriteIsRefused(isThere: Bool) throws {
        let secret = FileDeviceSecret(path: path, machine: [])
        if isThere { _ = try secret.key(for: "a", creating: true) }
        #expect(chmod(folder.path, 0o702) == 0)
        let error = #expect(throws: LicenseStoreError.self) { try secret.key(for: "a", creating: true) }
        #expect(error?.isSameKind(as: .secretUnusable("")) == true)
        #expect(error?.description.contains("its folder \(folder.path): others may write to it") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty != isThere)
        for mode in [0o1777, 0o700] as [mode_t] {
            #expect(chmod(folder.path, mode) == 0)
            _ = try secret.key(for: "a", creating: true)
        }
    }

    @Test func whatIsNoSecretIsRefused() throws {
        let secret = FileDeviceSecret(path: path, machine: [])
        func attempt() -> String? {
            kind { () throws(LicenseStoreError) in try secret.key(for: "a", creating: true) }
        }
        for size in [0, 31, 33] {
            #expect(
                FileManager.default.createFile(
                    atPath: path, contents: Data(repeating: 1, count: size), attributes: [.posixPermissions: 0o600]))
            #expect(attempt() == "secret unusable")
            try folder.remove("secret")
        }
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        #expect(attempt() == "secret unusable")
        try folder.remove("secret")
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/etc/passwd")
        #expect(attempt() == "secret unusable")
        try folder.remove("secret")
        let nowhere = FileDeviceSecret(path: folder.path + "/none/secret", machine: [])
        #expect(kind { () throws(LicenseStoreError) in try nowhere.key(for: "a", creating: true) } == "secret unusable")
    }

    @Test func theKernelsKeyringKeepsItOrSaysThatItCannot() throws {
        let secret = KeyringDeviceSecret(name: "latchkey:test:\(UUID().uuidString)")
        let first = kind { () throws(LicenseStoreError) in try secret.key(for: "a", creating: false) }
        if first == "keyring unavailable" { return }
        #expect(first == "secret missing")
        let key = hex(try secret.key(for: "a", creating: true))
        #expect(hex(try secret.key(for: "a", creating: false)) == key)
        #expect(hex(try secret.key(for: "b", creating: false)) != key)
        try secret.remove()
        try secret.remove()
        #expect(kind { () throws(LicenseStoreError) in try secret.key(for: "a", creating: false) } == "secret missing")
        #expect(
            kind { () throws(LicenseStoreError) in
                try KeyringDeviceSecret(name: "a\0b").key(for: "a", creating: true)
            } == "secret unusable")
    }

    @Test func aTokenGivesDerivedKeysOnly() async throws {
        let secret = TokenDeviceSecret { purpose, _ in [UInt8](repeating: UInt8(purpose.utf8.count), count: 32) }
        var configuration = folder.configuration
        configuration.secret = secret
        let store = try await LicenseStore.open(configuration)
        try await store.put(license(1))
        #expect(try await store.record(recordID(1)) == license(1))
        let short = TokenDeviceSecret { _, _ in [1] }
        #expect(kind { () throws(LicenseStoreError) in try short.key(for: "a", creating: true) } == "secret unusable")
        let none = TokenDeviceSecret { _, _ throws(LicenseStoreError) in throw .secretMissing("no token") }
        #expect(kind { () throws(LicenseStoreError) in try none.key(for: "a", creating: true) } == "secret missing")
    }

    /// RFC 5869, A.3, the first 32 bytes.
    @Test func keysAreDerivedAsTheStandardSays() throws {
        let key = try [UInt8](repeating: 0x0B, count: 22).withUnsafeBytes { bytes in
            try KeyDerivation.key(from: bytes, salt: [], info: "")
        }
        #expect(hex(key) == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")
        #expect("\(key)" == "<redacted>")
    }

    /// Test case 16 of “The Galois/Counter Mode of Operation (GCM)”, McGrew and Viega.
    @Test func theSealIsAES256GCM() throws {
        let bytes = { (text: String) in try #require(Hex.decode(text)) }
        let key = try #require(
            SealingKey(
                try bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")))
        let seal = try Seal(key: key)
        let header = try bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        let clear = try bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
                + "b16aedf5aa0de657ba637b39")
        let sealed = try bytes(
            "cafebabefacedbaddecaf888"
                + "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
                + "c5f61e6393ba7a0abcc9f662" + "76fc6ece0f4e1768cddf8853bb2d551b")
        #expect(try seal.open(sealed, authenticating: header) == clear)
        #expect(try seal.open(sealed, authenticating: header + [0]) == nil)
        for place in sealed.indices {
            var altered = sealed
            altered[place] ^= 1
            #expect(try seal.open(altered, authenticating: header) == nil)
        }
        for clear in [[], [1], clear] {
            let once = try seal.seal(clear, authenticating: header)
            #expect(try seal.open(once, authenticating: header) == clear)
            #expect(try seal.seal(clear, authenticating: header) != once)
        }
        #expect(try seal.open([UInt8](repeating: 0, count: 27), authenticating: header) == nil)
    }
}
