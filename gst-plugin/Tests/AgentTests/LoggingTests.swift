// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyLogging
import LatchkeyProtection
import Logging
import Synchronization
import Testing

@testable import Latchkey

/// The agent's log in swift-log.
@Suite struct LoggingTests {
    private final class Lines: Sendable {
        let all = Mutex<[(level: Logger.Level, text: String)]>([])
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.all.withLock { $0.append((event.level, "\(event.message)")) } }
    }

    @Test func theVersionComesWithTheDateOfTheBuild() {
        #expect(Latchkey.versionForLog(buildDate: 2026_11_27) == "\(Latchkey.version) (2026-11-27)")
        #expect(Latchkey.versionForLog(buildDate: 2000_02_09) == "\(Latchkey.version) (2000-02-09)")
        #expect(Latchkey.versionForLog(buildDate: 0) == Latchkey.version)
    }

    @Test func noQueryAndNoPathOfOurServerIsLogged() {
        let words = "URL: https://a.example/film.mpd?token=geheim, line\nhttp://127.0.0.1:4711/geheim/x end"
        let logged = AgentCore.withoutQueries(words, of: "file:///film.mpd")
        #expect(!logged.contains("geheim") && logged.contains("a.example/film.mpd"), "\(logged)")
        #expect(logged.hasSuffix("127.0.0.1/… end"), "\(logged)")
        #expect(AgentCore.withoutQueries("no URL  here", of: "") == "no URL  here")
        // The content may be served on this machine.
        let local = AgentCore.withoutQueries(
            "The segment http://127.0.0.1:80/1.m4s?t=geheim and http://127.0.0.1:4711/geheim",
            of: "http://127.0.0.1/a.mpd")
        #expect(local.contains("/1.m4s") && !local.contains("geheim"), "\(local)")
    }

    /// Writes plays down, as license stores do.
    private final class Store: ResourceLoader {
        let name = "store"
        let wasLogged = Mutex<Bool?>(nil)
        private let isLogged: @Sendable () -> Bool

        init(_ isLogged: @escaping @Sendable () -> Bool) { self.isLogged = isLogged }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }

        func finishNotingPlays() async { wasLogged.withLock { $0 = isLogged() } }
    }

    @Test func thatDecryptionBeginsIsLoggedBeforeAPlayIsWrittenDown() async throws {
        let key = KeyID(high: 0x2801, low: 0x5741)
        let isLogged = Mutex(false)
        let watch = AgentLog.watch { line in
            if line.text == "decryption begins: KID \(key)" { isLogged.withLock { $0 = true } }
        }
        let store = Store { isLogged.withLock { $0 } }
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        configuration.loaders = [store]
        let agent = Agent(contentURL: "http://127.0.0.1:9/film.mpd", type: .dash, configuration: configuration)
        let session = try agent.core.session().session
        session.didStartPlaying(key)
        await session.unwrittenPlays.finish()
        #expect(store.wasLogged.withLock { $0 } == true)
        withExtendedLifetime(watch) {}
    }

    @Test func theTimeThatDecryptionTakesIsLoggedWithoutQueries() throws {
        let mark = "decryption of this test"
        let found = Mutex<[AgentLogMessage]>([])
        let watch = AgentLog.watch { line in
            if line.text.hasPrefix(mark) { found.withLock { $0.append(line) } }
        }
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        let agent = Agent(contentURL: "http://a.example/film.m3u8", type: .hls, configuration: configuration)
        let session = try agent.core.session().session
        session.logDecryption("\(mark), http://a.example/1.ts?token=geheim: 12 bytes in 3 µs")
        let lines = found.withLock { $0 }
        #expect(lines.map(\.level) == [.info])
        #expect(lines.allSatisfy { $0.text.hasSuffix("12 bytes in 3 µs") && !$0.text.contains("geheim") }, "\(lines)")
        withExtendedLifetime(watch) {}
    }

    @Test func linesComeWithTheirLevelUntilTheWatchEnds() {
        let lines = Lines()
        let logger = Logger(label: "test") { _ in Handler(lines: lines) }
        // Other tests log meanwhile.
        let mark = "line of this test"
        func mine() -> [(level: Logger.Level, text: String)] {
            lines.all.withLock { $0.filter { $0.text.contains(mark) } }
        }
        var watch: AgentLogWatch? = AgentLog.forward(to: logger, threshold: .info)
        for level in AgentLogMessage.Level.allCases { AgentLog.write(AgentLogMessage(level, "\(mark) \(level)")) }
        withExtendedLifetime(watch) {}
        #expect(mine().map(\.level) == [.info, .warning, .error])
        #expect(mine().map(\.text) == ["info", "warning", "error"].map { "\(mark) \($0)" })
        watch = nil
        AgentLog.write(AgentLogMessage(.error, mark))
        #expect(mine().count == 3)
    }

    /// What an agent's listener gets; the log itself has all lines.
    @Test func anAgentTellsOfTheLinesFromItsThresholdOn() async {
        var configuration = Agent.Configuration()
        configuration.logThreshold = .warning
        let agent = Agent(contentURL: "http://127.0.0.1:9/film.mpd", type: .dash, configuration: configuration)
        let events = agent.events
        for level in AgentLogMessage.Level.allCases { agent.core.log(level, "\(level)") }
        agent.core.log(.error, "the last")
        var told: [String] = []
        for await case .logMessage(let message) in events {
            told.append(message.text)
            if message.text == "the last" { break }
        }
        #expect(told == ["warning", "error", "the last"])
    }
}
