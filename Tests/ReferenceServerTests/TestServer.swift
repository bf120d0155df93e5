// SPDX-License-Identifier: MPL-2.0

import Foundation
import Hummingbird
import HummingbirdTesting
import KeySystems
import Logging
import NIOCore
import NIOPosix
import ProtectionModel
import Synchronization
import Testing

@testable import ReferenceServer

/// A server on a free port, with a clock that does not wait and says what it was asked for.
final class TestServer: Sendable {
    static let keyID = KeyID(hex: "2a54856d33e557f486aa203a9eb94ca5")
    static let otherKeyID = KeyID(hex: "00112233445566778899aabbccddeeff")
    static let key = ContentKey(hex: "c685730e9039aa683a2b62218280f4c1")
    static let otherKey = ContentKey(hex: "0f0e0d0c0b0a09080706050403020100")

    let server: ServerApplication
    private let waits: Pauses

    private final class Pauses: Sendable {
        let durations = Mutex<[Duration]>([])
        let begun: AsyncStream<Void>
        let source: AsyncStream<Void>.Continuation

        init() { (begun, source) = AsyncStream.makeStream() }
    }

    /// The pauses that faults made so far.
    var pauses: [Duration] { waits.durations.withLock { $0 } }

    var state: ServerState { server.state }

    init(
        media: TemporaryFolder? = nil, playReadyAuthority: PlayReadyTestAuthority? = nil, faults: [FaultRule] = []
    ) throws {
        var keys: [KeyID: ContentKey] = [:]
        keys[try #require(Self.keyID)] = Self.key
        keys[try #require(Self.otherKeyID)] = Self.otherKey
        let waits = Pauses()
        self.waits = waits
        let settings = ServerSettings(
            keys: keys, mediaFolder: media?.media.path, playReadyAuthority: playReadyAuthority, faults: faults)
        server = try #require(
            ServerApplication(settings: settings) { duration in
                waits.durations.withLock { $0.append(duration) }
                waits.source.yield()
            })
    }

    /// Returns when a fault begins its first pause.
    func waitForPause() async {
        for await _ in waits.begun { return }
    }

    func test<Value>(
        _ setup: TestingSetup = .live, _ body: @Sendable (any TestClientProtocol) async throws -> Value
    ) async throws -> Value {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return try await server.application(logger: logger).test(setup, body)
    }
}

/// Everything that comes back for `request`, sent as it is, until the server closes.
func exchange(_ request: String, port: Int) async throws -> [UInt8] {
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .connect(host: "127.0.0.1", port: port) { channel in
            channel.eventLoop.makeCompletedFuture {
                try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
            }
        }
    return try await channel.executeThenClose { inbound, outbound in
        try await outbound.write(ByteBuffer(string: request))
        var bytes: [UInt8] = []
        for try await buffer in inbound { bytes += Array(buffer: buffer) }
        return bytes
    }
}

extension TestResponse {
    var text: String { String(buffer: body) }
    var bytes: [UInt8] { Array(buffer: body) }
}
