// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// An authority, a device, a header and a key: what the PlayReady tests have in common.
struct PlayReadyTestKit {
    static let now: UInt32 = 1_700_000_000

    let authority: PlayReadyTestAuthority
    let provisioning: PlayReadyProvisioning
    let device: PlayReadyDevice
    let keyID: KeyID
    let key: ContentKey
    let header: WRMHeader

    init() throws {
        authority = try PlayReadyTestAuthority.generate()
        provisioning = try authority.provisioning()
        device = try provisioning.makeDevice()
        keyID = try #require(KeyID(hex: "00112233445566778899aabbccddeeff"))
        key = try #require(ContentKey(Array(0x60...0x6F)))
        header = try WRMHeader(
            version: .v4_2, keys: [.init(keyID)], details: .init(licenseAcquisitionURL: "https://example.com/"))
    }

    var server: PlayReadyLicenseServer { PlayReadyLicenseServer(authority: authority) }

    func exchange(
        options: PlayReadyExchange.Options = .init(), memberships: [PlayReadyMembership] = [], header: WRMHeader? = nil
    ) throws -> PlayReadyExchange {
        try PlayReadyExchange(
            header: header ?? self.header, keyring: PlayReadyKeyring(device: device, memberships: memberships),
            provisioning: provisioning, clientTime: Self.now, options: options)
    }

    func answer(
        _ exchange: PlayReadyExchange, _ query: String = "", domains: PlayReadyDomainController? = nil,
        from server: PlayReadyLicenseServer? = nil
    ) throws -> PlayReadyLicenseServer.Answer {
        let (keyID, key) = (keyID, key)
        return (server ?? self.server).respond(
            to: exchange.request, policy: try PlayReadyServerPolicy(query: query), now: Self.now, domains: domains
        ) { $0 == keyID ? key : nil }
    }
}

/// The files that Golden/PlayReady/golden.py puts together without Latchkey's code.
enum PlayReadyGolden {
    struct Known: Decodable {
        var scalars, publicKeys, certificateIDs: [String: String]
        var keyID, otherKeyID, contentKey, integrityKey, nonce, rightsID, transaction: String
    }

    static func file(_ name: String) throws -> [UInt8] { try Golden.file("PlayReady/\(name)") }

    static func text(_ name: String) throws -> String { String(decoding: try file(name), as: UTF8.self) }

    static func known() throws -> Known { try JSONDecoder().decode(Known.self, from: Data(file("known.json"))) }

    static func keyID(_ name: KeyPath<Known, String> = \.keyID) throws -> KeyID {
        try #require(KeyID(hex: try known()[keyPath: name]))
    }

    static func guid(_ text: String) throws -> GUID { try #require(GUID(text)) }

    static func bytes(_ digits: String) throws -> [UInt8] { try #require(Hex.decode(digits)) }

    static func scalarBytes(_ name: String) throws -> [UInt8] { try bytes(try #require(try known().scalars[name])) }

    static func privateKey(_ name: String) throws -> P256PrivateKey {
        try P256PrivateKey.key(scalar: try #require(P256.Scalar(scalarBytes(name))))
    }

    static func publicKey(_ name: String) throws -> [UInt8] { try bytes(try #require(try known().publicKeys[name])) }

    static func device() throws -> PlayReadyDevice {
        try PlayReadyDevice(
            chain: try BCertChain(reading: file("chain-device.bin")), signingKey: privateKey("device sign"),
            encryptionKey: privateKey("device encrypt"))
    }

    static func provisioning() throws -> PlayReadyProvisioning {
        let model = try BCertChain([try #require(device().chain.certificates.last)])
        return try PlayReadyProvisioning(
            modelCertificate: model.serialized, modelKey: privateKey("model"), rootKey: publicKey("root"),
            serverKey: publicKey("server encrypt"))
    }

    /// Gives out what it has for a size, in order, and then random bytes.
    static func random(_ draws: [[UInt8]]) -> RandomSource {
        let script = Script(draws)
        return RandomSource { script.next($0) }
    }

    private final class Script: Sendable {
        private let draws: Mutex<[[UInt8]]>
        init(_ draws: [[UInt8]]) { self.draws = Mutex(draws) }
        func next(_ count: Int) -> [UInt8]? {
            draws.withLock { $0.first?.count == count ? $0.removeFirst() : nil }
        }
    }

    /// The client that made the golden challenge.
    static func exchange(options: PlayReadyExchange.Options? = nil) throws -> PlayReadyExchange {
        var settings = options ?? .init()
        settings.customData = "User=<Jürgen> & co"
        settings.revocationLists = [
            .init(id: try #require(GUID("52D1FF11-D388-4EDD-82B7-68EA4C20A16C")), version: 31),
            .init(id: try #require(GUID("4E9D8C8A-B652-45A7-9791-6925A6B4791F")), version: 8),
        ]
        return try PlayReadyExchange(
            header: WRMHeader(reading: file("header-4.2.xml")), keyring: PlayReadyKeyring(device: device()),
            provisioning: provisioning(), clientTime: 1_446_224_160, options: settings,
            random: random([bytes(known().nonce), scalarBytes("session point"), scalarBytes("session k")]))
    }
}
