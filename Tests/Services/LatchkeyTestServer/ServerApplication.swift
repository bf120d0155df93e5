// SPDX-License-Identifier: MPL-2.0

import Dispatch
import Glibc
import HTTPTypes
public import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
import NIOHTTPTypes
import ServiceLifecycle
import UnixSignals

/// The reference server: ClearKey and PlayReady-style license services, a FairPlay-style key server, viewing sessions,
/// static media, and faults on demand.
///
/// For tests and demonstrations. It hands its keys to anybody who asks and speaks plain HTTP: it belongs on a loopback
/// address.
public struct ServerApplication: Sendable {
    /// As the server was made with; a change takes a new one.
    public let settings: ServerSettings
    /// The faults and the log, shared by every application that is made of this value.
    public let state: ServerState
    private let media: MediaFolder?
    private let fairPlay: FairPlayEndpoint
    private let entitlement: EntitlementEndpoints
    private let playReady: PlayReadyService?
    private let sessions: SessionEndpoints
    private let pause: @Sendable (Duration) async throws -> Void

    /// Nil where the media folder is none, or OpenSSL refuses.
    ///
    /// `pause` waits for faults; tests give one that does not.
    public init?(
        settings: ServerSettings,
        pause: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.init(settings: settings, pause: pause, sessionTime: nil)
    }

    /// `sessionTime` is the time that viewing sessions live by, since some start; nil for that of the machine.
    init?(
        settings: ServerSettings, pause: @escaping @Sendable (Duration) async throws -> Void,
        sessionTime: (@Sendable () -> Duration)?
    ) {
        media = settings.mediaFolder.flatMap { MediaFolder(path: $0) }
        if settings.mediaFolder != nil, media == nil { return nil }
        playReady = settings.playReadyAuthority.flatMap { PlayReadyService(authority: $0) }
        if settings.playReadyAuthority != nil, playReady == nil { return nil }
        self.settings = settings
        self.pause = pause
        state = ServerState(faults: settings.faults)
        fairPlay = FairPlayEndpoint(settings: settings, state: state)
        entitlement = EntitlementEndpoints(settings: settings, state: state)
        sessions = SessionEndpoints(settings: settings.sessions, now: sessionTime)
    }

    /// The application for Hummingbird to run or to test. `onListening` is called with the port, once connections are
    /// accepted.
    public func application(
        logger: Logger, onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) -> some ApplicationProtocol {
        Application(
            router: router,
            server: .http1(
                configuration: HTTP1Channel.Configuration(
                    additionalChannelHandlers: [
                        RequestDeadlineHandler(timeout: TimeAmount(settings.requestTimeout)), OwnDateHandler(),
                    ],
                    idleTimeout: TimeAmount(settings.idleTimeout))),
            configuration: ApplicationConfiguration(
                address: .hostname(settings.host, port: settings.port), serverName: "latchkey-server"),
            onServerRunning: { channel in await onListening(channel.localAddress?.port ?? 0) },
            logger: logger)
    }

    private var router: Router<ServerContext> {
        let router = Router(context: ServerContext.self)
        router.add(middleware: RequestLogMiddleware(state: state))
        router.add(middleware: FaultMiddleware(state: state, pause: pause))
        router.add(middleware: MethodMiddleware())
        router.add(middleware: SessionTokenMiddleware(state: state, sessions: sessions))

        let clearKey = ClearKeyEndpoint(keys: settings.keys, state: state)
        router.post("/clearkey", use: clearKey.respond)

        router.get("/fairplay/certificate", use: fairPlay.certificate)
        router.head("/fairplay/certificate", use: fairPlay.certificate)
        router.post("/fairplay/**", use: fairPlay.respond)
        router.get("/entitlement", use: entitlement.entitle)
        router.post("/entitlement", use: entitlement.entitle)
        router.post("/token/**", use: entitlement.redeem)

        if let playReady {
            let endpoint = PlayReadyEndpoint(service: playReady, keys: settings.keys, state: state)
            router.post("/playready/**", use: endpoint.respond)
        }

        sessions.add(to: router)

        let media = MediaEndpoint(folder: media)
        router.get("/media/**", use: media.respond)
        router.head("/media/**", use: media.respond)

        let control = ControlEndpoints(state: state)
        router.get("/health", use: control.health)
        router.head("/health", use: control.health)
        router.get("/faults", use: control.showFaults)
        router.put("/faults", use: control.setFaults)
        router.delete("/faults", use: control.removeFaults)
        router.get("/log", use: control.showLog)
        router.delete("/log", use: control.clearLog)
        return router
    }
}

extension ServerApplication {
    /// Runs until SIGINT or SIGTERM, or until standard input ends where `stopsWithStandardInput` is set.
    ///
    /// Open answers have two seconds to end. Throws where the address cannot be listened on.
    public func run(
        logger: Logger, stopsWithStandardInput: Bool = false,
        onListening: @escaping @Sendable (Int) async -> Void
    ) async throws {
        var services = [
            ServiceGroupConfiguration.ServiceConfiguration(
                service: application(logger: logger, onListening: onListening))
        ]
        if stopsWithStandardInput {
            services.append(
                .init(service: StandardInputWatch(), successTerminationBehavior: .gracefullyShutdownGroup))
        }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = .seconds(2)
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch is CancellationError {
            // The two seconds were over and the open answers were cut off: that is a stop like any other.
        }
    }
}

/// Lets an answer have another date than the machine's: Hummingbird writes that into every answer.
///
/// One for each connection; used on its event loop alone.
final class OwnDateHandler: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The field whose value is sent as `Date`; it is not sent itself.
    static let field = HTTPField.Name("Latchkey-Own-Date") ?? .date

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = Self.unwrapOutboundIn(data), let date = head.headerFields[Self.field] else {
            context.write(data, promise: promise)
            return
        }
        head.headerFields[Self.field] = nil
        head.headerFields[.date] = date
        context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
    }
}

/// Ends when standard input does, so that a server does not outlive the process that started it with a pipe.
struct StandardInputWatch: Service {
    func run() async throws {
        let (ends, source) = AsyncStream<Never>.makeStream()
        // A queue of its own, because the read blocks until the very end; it goes with the process.
        DispatchQueue(label: "standard input").async {
            var buffer = [UInt8](repeating: 0, count: 256)
            // SAFETY: reads at most the buffer's size into it.
            while true {
                let count = buffer.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
                if count == 0 || (count < 0 && errno != EINTR) { break }
            }
            source.finish()
        }
        await withGracefulShutdownHandler {
            for await _ in ends {}
        } onGracefulShutdown: {
            source.finish()
        }
    }
}
