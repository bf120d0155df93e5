// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyKeySystems
import Logging
import NIOCore
import NIOPosix
import LatchkeyProtection
import ServiceLifecycle
import Synchronization
import Testing

@testable import LatchkeyTestServer

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
        media: TemporaryFolder? = nil, playReadyAuthority: PlayReadyTestAuthority? = nil,
        fairPlayAuthorities: [FairPlayTestAuthority] = [], faults: [FaultRule] = [],
        idleTimeout: Duration = .seconds(60), requestTimeout: Duration = .seconds(60)
    ) throws {
        var keys: [KeyID: ContentKey] = [:]
        keys[try #require(Self.keyID)] = Self.key
        keys[try #require(Self.otherKeyID)] = Self.otherKey
        let waits = Pauses()
        self.waits = waits
        var settings = ServerSettings(
            keys: keys, fairPlayAuthorities: fairPlayAuthorities, mediaFolder: media?.media.path,
            playReadyAuthority: playReadyAuthority, faults: faults)
        settings.idleTimeout = idleTimeout
        settings.requestTimeout = requestTimeout
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

    /// Runs the server for as long as `body` needs it.
    func test<Value: Sendable>(_ body: @Sendable (TestClient) async throws -> Value) async throws -> Value {
        try await withTestClient(of: server, body)
    }
}

extension ServerSettings {
    /// For tests that are about something else than time: on a busy machine, a client may be late.
    var patient: ServerSettings {
        var settings = self
        (settings.idleTimeout, settings.requestTimeout) = (.seconds(60), .seconds(60))
        return settings
    }
}

/// Runs `server` on a free port for as long as `body` needs it.
func withTestClient<Value: Sendable>(
    of server: ServerApplication, _ body: @Sendable (TestClient) async throws -> Value
) async throws -> Value {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let (ports, port) = AsyncStream<Int>.makeStream()
    let application = server.application(logger: logger) { number in
        port.yield(number)
        port.finish()
    }
    let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(services: [application], logger: logger))
    return try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask {
            defer { port.finish() }
            try await group.run()
        }
        guard let number = await ports.first(where: { _ in true }) else {
            try await tasks.next()
            throw ServerDidNotListen()
        }
        let result: Result<Value, any Error>
        do { result = .success(try await body(TestClient(port: number))) } catch { result = .failure(error) }
        await group.triggerGracefulShutdown()
        try await tasks.waitForAll()
        return try result.get()
    }
}

struct ServerDidNotListen: Error {}

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
