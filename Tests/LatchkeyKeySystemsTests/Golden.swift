// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// The files of `Golden`, which golden.py puts together without Latchkey's code, and what is known of them.
enum Golden {
    struct Known: Decodable, Sendable {
        struct Request: Decodable, Sendable {
            var sk, hu, r1, integrity, seed, r2, spck, transaction, asset, dask, responseKey, encryptedKey: String
        }

        var ask, contentKey, contentIV: String
        var requests: [String: Request]
    }

    static let requests = ["spc-v1", "spc-v1-full", "spc-v2", "spc-v2-full"]
    static let responses = [
        "ckc-v1", "ckc-v1-nopadding", "ckc-v1-lease", "ckc-v1-rental", "ckc-v1-rental-persistent", "ckc-v1-persistent",
        "ckc-v1-full", "ckc-v2",
    ]

    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Golden")

    static func file(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(name)))
    }

    static func known() throws -> Known {
        try JSONDecoder().decode(Known.self, from: Data(file("known.json")))
    }

    static func values(_ request: String) throws -> Known.Request { try #require(try known().requests[request]) }

    static func bytes(_ digits: String) throws -> [UInt8] { try #require(Hex.decode(digits)) }

    static func version(_ name: String) -> SPCContainer.Version { name.contains("v2") ? .v2 : .v1 }

    static func authority(_ version: SPCContainer.Version) throws -> FairPlayTestAuthority {
        try FairPlayTestAuthority.read(
            certificate: file("certificate-v\(version.rawValue).cer"),
            privateKeyPEM: file("key-v\(version.rawValue).pem"),
            ask: try #require(ContentKey(hex: try known().ask)))
    }

    /// A new server that remembers nothing.
    static func server() throws -> FairPlayKeyServer {
        FairPlayKeyServer(authorities: try SPCContainer.Version.allCases.map { try authority($0) })
    }

    static func key() throws -> FairPlayKeyServer.Key {
        let known = try known()
        return FairPlayKeyServer.Key(
            key: try #require(ContentKey(hex: known.contentKey)),
            initializationVector: try #require(InitializationVector(try bytes(known.contentIV))))
    }

    /// The client that made a golden SPC: one that drew the same random numbers.
    static func exchange(
        _ name: String, options: FairPlayExchange.Options = .init()
    ) throws -> FairPlayExchange {
        let values = try values(name)
        let script = Script(
            try [
                8: [values.transaction], 21: [values.r2], 44: [values.r1],
                16: [values.sk, values.seed, values.integrity],
            ].mapValues { try $0.map(bytes) })
        var options = options
        options.deviceIdentifier = try bytes(values.hu)
        let authority = try authority(version(name))
        return try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: try bytes(values.asset), options: options,
            provider: authority.provider, random: RandomSource { script.next($0) })
    }

    /// Gives out what it has for a size, in order, and then something else.
    private final class Script: Sendable {
        private let state: Mutex<(queues: [Int: [[UInt8]]], rest: SeededGenerator)>

        init(_ queues: [Int: [[UInt8]]]) { state = Mutex((queues, SeededGenerator(seed: 1))) }

        func next(_ count: Int) -> [UInt8] {
            state.withLock { state in
                guard state.queues[count]?.isEmpty == false, let first = state.queues[count]?.removeFirst() else {
                    return state.rest.bytes(count)
                }
                return first
            }
        }
    }
}

/// A golden SPC taken apart, to be changed and put together again.
struct ForgedRequest {
    var blocks: [TLLV]
    let container: SPCContainer
    private let key: ContentKey

    init(_ name: String) throws {
        container = try SPCContainer(reading: Golden.file("\(name).bin"))
        key = try #require(ContentKey(hex: try Golden.values(name).spck))
        blocks = try TLLVPayload(
            reading: try AES.cbc(.decrypt, key: key, iv: container.initializationVector, container.payload)
        ).blocks
    }

    subscript(tag: TLLV.Tag) -> TLLV? {
        get { blocks.first { $0.tag == tag } }
        set {
            if let position = blocks.firstIndex(where: { $0.tag == tag }) { blocks.remove(at: position) }
            if let newValue { blocks.append(newValue) }
        }
    }

    /// A block with random padding, as a client makes it.
    mutating func set(_ tag: TLLV.Tag, _ value: [UInt8]) {
        var generator = SeededGenerator(seed: tag.rawValue & 0xFFFF)
        self[tag] = TLLV(tag, value) { generator.bytes($0) }
    }

    func serialized() throws -> [UInt8] {
        // By hand: TLLVPayload would refuse two blocks with one tag.
        let clear = try blocks.flatMap { try TLLVPayload([$0]).serialized() }
        return try SPCContainer(
            version: container.version, reserved: container.reserved,
            initializationVector: container.initializationVector, wrappedKey: container.wrappedKey,
            certificateHash: container.certificateHash,
            payload: try AES.cbc(.encrypt, key: key, iv: container.initializationVector, clear)
        ).serialized()
    }
}

/// A golden CKC taken apart.
struct ForgedResponse {
    var blocks: [TLLV]
    let container: CKCContainer
    private let key: ContentKey

    init(_ name: String, to request: String) throws {
        container = try CKCContainer(reading: Golden.file("\(name).bin"))
        key = try #require(ContentKey(hex: try Golden.values(request).responseKey))
        blocks = try TLLVPayload(
            reading: try AES.cbc(.decrypt, key: key, iv: container.initializationVector, container.payload)
        ).blocks
    }

    mutating func set(_ tag: TLLV.Tag, _ value: [UInt8]?) {
        blocks.removeAll { $0.tag == tag }
        var generator = SeededGenerator(seed: tag.rawValue & 0xFFFF)
        if let value { blocks.append(TLLV(tag, value) { generator.bytes($0) }) }
    }

    func serialized() throws -> [UInt8] {
        let clear = try blocks.flatMap { try TLLVPayload([$0]).serialized() }
        return try CKCContainer(
            version: container.version, reserved: container.reserved,
            initializationVector: container.initializationVector,
            payload: try AES.cbc(.encrypt, key: key, iv: container.initializationVector, clear)
        ).serialized()
    }
}
