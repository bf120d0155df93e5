// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
@testable import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

/// A test authority for each version, a server for them, and a content key: what the FairPlay tests have in common.
enum FairPlayTestKit {
    static let contentIdentifier = Array("skd://example/asset-1?é=ä".utf8)
    static let keyBytes: [UInt8] = Array(0x60...0x6F)
    static let ivBytes: [UInt8] = Array(0xA0...0xAF)

    /// Made once: a key pair takes a while.
    static let authorities: [SPCContainer.Version: FairPlayTestAuthority] = {
        var result: [SPCContainer.Version: FairPlayTestAuthority] = [:]
        for version in SPCContainer.Version.allCases { result[version] = try? .generate(version) }
        return result
    }()

    static func authority(_ version: SPCContainer.Version = .v1) throws -> FairPlayTestAuthority {
        try #require(authorities[version])
    }

    static func server() -> FairPlayKeyServer { FairPlayKeyServer(authorities: Array(authorities.values)) }

    /// As a client gets it, with the IV.
    static func contentKey() throws -> ContentKey {
        try #require(ContentKey(keyBytes, initializationVector: InitializationVector(ivBytes)))
    }

    static func key() throws -> FairPlayKeyServer.Key {
        FairPlayKeyServer.Key(
            key: try #require(ContentKey(keyBytes)),
            initializationVector: try #require(InitializationVector(ivBytes)))
    }

    /// The same bytes in every run.
    static func random(seed: UInt64) -> RandomSource {
        let generator = SharedGenerator(seed: seed)
        return RandomSource { generator.bytes($0) }
    }

    private final class SharedGenerator: Sendable {
        private let generator: Mutex<SeededGenerator>
        init(seed: UInt64) { generator = Mutex(SeededGenerator(seed: seed)) }
        func bytes(_ count: Int) -> [UInt8] { generator.withLock { $0.bytes(count) } }
    }

    static func exchange(
        _ version: SPCContainer.Version = .v1, options: FairPlayExchange.Options = .init(),
        random: RandomSource = .system
    ) throws -> FairPlayExchange {
        let authority = try authority(version)
        return try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: contentIdentifier, options: options,
            provider: authority.provider, random: random)
    }

    /// Asks a new server.
    static func answer(
        _ exchange: FairPlayExchange, terms: FairPlayTerms = FairPlayTerms()
    ) throws -> FairPlayKeyServer.Answer {
        let key = try key()
        return try server().respond(to: exchange.request, now: .zero, terms: { _ in terms }, key: { _ in key })
    }
}

extension FairPlayTestKit {
    /// The clear blocks of a request for the authority of version 1.
    static func payload(of exchange: FairPlayExchange) throws -> TLLVPayload {
        let container = try SPCContainer(reading: exchange.request)
        let key = try #require(ContentKey(try authority().privateKey.unwrap(container.wrappedKey)))
        return try TLLVPayload(
            reading: try AES.cbc(.decrypt, key: key, iv: container.initializationVector, container.payload))
    }
}
