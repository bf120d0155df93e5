// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Dispatch
    import FoundationEssentials
    import Glibc
    import Latchkey
    import LatchkeyOutputs
    import LatchkeyProtection
    import Synchronization

    struct PlayCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "play",
            abstract: "Play some content, and say what happens.",
            discussion: """
                Looks at the rights first, and asks before a license is acquired. On a terminal the last line shows the \
                position. With --json each event is an object on a line of its own, with event and what belongs to it. \
                Rights have status (valid, none, future, expired, untrustedTime). Session errors have status (of HTTP), code, \
                message, reason, conflicts and, for heartbeats, final. If it does not play to the end, the last event is error, \
                with code (a kind of error) and, if a server refused something, status. If a signal ends it, there is no error, \
                and the exit status says which signal it was.

                EXAMPLE
                  latchkey play --yes https://media.example/movie/master.m3u8
                  latchkey play --video-sink fakesink --audio-sink fakesink movie.mp4

                EXIT STATUS
                  0    played to the end
                  1    it failed; standard error says why
                  2    there are no rights to play it, and none were acquired
                  129  ended by SIGHUP, as the terminal was closed; under nohup it plays on
                  130  ended by Ctrl-C
                  143  ended by SIGTERM
                """)

        @OptionGroup var place: ContentPlace
        @OptionGroup var cachePlace: CachePlace

        @Flag(name: .shortAndLong, help: "Acquire licenses without asking.")
        var yes = false

        @Option(
            help: ArgumentHelp(
                "The audio track, of the audio names that latchkey inspect shows. Left out: the default.",
                valueName: "name"))
        var audio: String?

        @Option(
            help: ArgumentHelp(
                "What playback does at external digital outputs; default follows the license: \(HDMIMode.allCases.map(\.rawValue).joined(separator: ", ")).",
                valueName: "mode"))
        var hdmiMode: String?

        @Option(help: ArgumentHelp("Where the outputs are read: kms, application, script:FILE.", valueName: "where"))
        var outputs: String?

        @Option(help: ArgumentHelp("For pictures, in the words of gst-launch.", valueName: "sink"))
        var videoSink: String?

        @Option(help: ArgumentHelp("For sound, in the words of gst-launch.", valueName: "sink"))
        var audioSink: String?

        @Flag(help: "Write JSON, for programs. Nothing is asked.")
        var json = false

        @Option(
            help: ArgumentHelp(
                "Show the log from this level on: \(AgentLogMessage.Level.allCases.map { "\($0)" }.joined(separator: ", ")).",
                valueName: "level"))
        var log: String?

        private var logLevel: AgentLogMessage.Level? {
            AgentLogMessage.Level.allCases.first { "\($0)" == log }
        }

        func validate() throws {
            if let outputs, !["kms", "application"].contains(outputs), !outputs.hasPrefix("script:") {
                throw ValidationError("--outputs \(outputs): kms, application, script:FILE are known")
            }
            if let log, logLevel == nil {
                throw ValidationError(
                    "--log \(log): "
                        + AgentLogMessage.Level.allCases.map { "\($0)" }.joined(separator: ", ") + " are known")
            }
            if let hdmiMode, HDMIMode(rawValue: hdmiMode) == nil {
                throw ValidationError(
                    "--hdmi-mode \(hdmiMode): \(HDMIMode.allCases.map(\.rawValue).joined(separator: ", ")) are known")
            }
        }

        func run() async throws {
            var configuration = Agent.Configuration()
            if let videoSink { configuration.videoSink = videoSink }
            if let audioSink { configuration.audioSink = audioSink }
            if let outputs { configuration.outputs = outputs }
            if let cache = cachePlace.content() { configuration.cache = cache }
            let screen = PlaybackScreen(isJSON: json, showsLog: logLevel != nil)
            let watch = logLevel.map { level in AgentLog.watch(threshold: level) { screen.show($0) } }
            defer { withExtendedLifetime(watch) {} }
            do {
                try await run(configuration, screen)
            } catch let error as AgentError {
                screen.fail(error.description, code: error.code.rawValue, status: error.httpStatus)
                try fail(error)
            } catch let error as ToolError {
                screen.fail(error.description)
                throw error
            } catch let code as ExitCode {
                screen.fail(Self.noRights, code: "no rights")
                throw code
            }
        }

        /// The reason comes as an event.
        private struct NotStarted: Error {}

        private static let noRights = "there are no rights to play this, and no one can be asked"

        /// All that the agent told is shown when this returns or throws.
        private func run(_ configuration: Agent.Configuration, _ screen: PlaybackScreen) async throws {
            var agent: Agent? = place.agent(configuration)
            guard let events = agent?.events else { return }
            let playing = Mutex<Player?>(nil)
            // The viewing session ends with the process. A service manager sends SIGTERM, and a terminal that is closed SIGHUP,
            // which nohup has ignored. One queue: two threads that exit would cut each other short.
            let queue = DispatchQueue(label: "latchkey.interrupts")
            let numbers = [SIGINT, SIGTERM] + (Self.isIgnored(SIGHUP) ? [] : [SIGHUP])
            let interrupts = numbers.map { number in
                Self.on(number, queue) {
                    screen.finish()
                    playing.withLock { $0 }?.stop()
                    Glibc.exit(128 + number)
                }
            }
            defer { for interrupt in interrupts { interrupt.cancel() } }
            let (shown, forward) = AsyncStream.makeStream(of: AgentEvent.self)
            let showing = Task {
                var hasEnded = false
                for await event in events {
                    // After the end, further changes of state are not shown.
                    if case .stateChanged(let state) = event {
                        if hasEnded { continue }
                        hasEnded = [.ended, .failed, .aborted].contains(state)
                    }
                    screen.show(event)
                    forward.yield(event)
                }
                forward.finish()
            }
            let result: Result<Void, any Error>
            do {
                if let agent { try await play(with: agent, shown, screen, playing) }
                result = .success(())
            } catch {
                result = .failure(error)
            }
            agent = nil
            await showing.value
            // What follows from an interruption must not decide the exit status: its handler ends the process, and is waited
            // for.
            await withCheckedContinuation { done in queue.async { done.resume() } }
            screen.finish()
            if case .failure(let error) = result, error is NotStarted { throw ToolError(screen.startFailure) }
            try result.get()
        }

        private func play(
            with agent: Agent, _ events: AsyncStream<AgentEvent>, _ screen: PlaybackScreen,
            _ playing: borrowing Mutex<Player?>
        ) async throws {
            if let mode = hdmiMode.flatMap({ HDMIMode(rawValue: $0) }) { agent.hdmiMode = mode }
            let info = try await agent.contentInfo()
            if let audio { try AudioNames(info.audioTrackNames).require(audio) }
            agent.selectedAudioTrack = audio
            screen.show(.rights, info.rights)
            if info.rightsStatus == .valid { return try await play(agent, events, screen, playing) }
            if !mayAcquire(screen) { throw ExitCode(2) }
            screen.show(.acquired, try await agent.acquireLicense())
            try await play(agent, events, screen, playing)
        }

        private func fail(_ error: AgentError) throws {
            guard error.code == .licenseNotAcquired else { throw ToolError(error.description) }
            complain(error.description)
            throw ExitCode(2)
        }

        private func mayAcquire(_ screen: PlaybackScreen) -> Bool {
            if yes { return true }
            guard !json, isatty(STDIN_FILENO) == 1 else {
                complain(Self.noRights + "; give --yes")
                return false
            }
            return screen.ask("There are no rights to play this. Acquire a license? [y/N] ")
        }

        private func complain(_ text: String) { StandardStream.error.write(errorLine(text)) }

        private func play(
            _ agent: Agent, _ events: AsyncStream<AgentEvent>, _ screen: PlaybackScreen,
            _ playing: borrowing Mutex<Player?>
        ) async throws {
            let player = try agent.makePlayer()
            guard player.play() else { throw NotStarted() }
            // No earlier: it would be stopped while it starts.
            playing.withLock { $0 = player }
            defer { playing.withLock { $0 = nil } }
            let standstill = StandstillWatch(agent, player)
            let clock = Task {
                while !Task.isCancelled {
                    // A bus that is never read keeps everything.
                    while player.nextMessage(waiting: 0) != nil {}
                    screen.showPosition(player.position, of: player.duration)
                    try? await Task.sleep(for: .milliseconds(250))
                }
            }
            defer { clock.cancel() }
            let outcome = await follow(events, agent, screen)
            screen.finish()
            withExtendedLifetime(standstill) {}
            player.stop()
            try outcome.get()
        }

        private func follow(
            _ events: AsyncStream<AgentEvent>, _ agent: Agent, _ screen: PlaybackScreen
        ) async -> Result<Void, any Error> {
            for await event in events {
                switch event {
                case .rightsNotAvailable:
                    guard mayAcquire(screen) else { return .failure(ExitCode(2)) }
                    do throws(AgentError) {
                        screen.show(.acquired, try await agent.acquireLicense())
                    } catch {
                        return .failure(error)
                    }
                case .playbackShouldBeAborted(let reason): return .failure(ToolError(reason))
                case .stateChanged(.ended): return .success(())
                case .stateChanged(.failed): return .failure(ToolError(screen.lastProblem ?? "playback failed"))
                case .stateChanged(.aborted):
                    return .failure(ToolError(screen.abortReason ?? screen.lastProblem ?? "playback was ended"))
                default: break
                }
            }
            return .failure(ToolError("playback ended without a reason"))
        }

        private static func isIgnored(_ number: Int32) -> Bool {
            var action = sigaction()
            sigaction(number, nil, &action)
            return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
                == unsafeBitCast(SIG_IGN, to: Int.self)
        }

        private static func on(
            _ number: Int32, _ queue: DispatchQueue, _ action: @escaping @Sendable () -> Void
        ) -> any DispatchSourceSignal {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler(handler: action)
            source.resume()
            return source
        }
    }

    /// What `latchkey play` shows: a line for each event and, on a terminal, the position under them. Thread-safe.
    final class PlaybackScreen: Sendable {
        /// What is shown beside the agent's events.
        enum Note: String { case rights, acquired }

        private let terminal = Terminal()
        private let isJSON: Bool
        /// Lines of the log come by `show(_: AgentLogMessage)`.
        private let showsLog: Bool
        private let write: @Sendable (String) -> Void
        private let state = Mutex(State())
        /// Whether the error was shown, behind which nothing follows. It is locked while a line of JSON is written, and `state` is
        /// not: a signal must end the command though no one reads the lines.
        private let isOver = Mutex(false)

        private struct State {
            var hasPosition = false
            var problem: String?
            /// The event that was the last problem, and its HTTP status; nil if the log told of an outage since.
            var cause: Cause?
            /// Of the session server, whenever it came.
            var session: Cause?
            var abortReason: String?
            var hasFailed = false
            /// The rights were shown: what comes before is for programs alone.
            var hasBegun = false
        }

        private typealias Cause = (code: String, status: Int)

        /// A member of an object in JSON.
        private enum Value: Encodable {
            case text(String)
            case number(Int)
            case flag(Bool)
            case list([String])

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                switch self {
                case .text(let text): try container.encode(text)
                case .number(let number): try container.encode(number)
                case .flag(let flag): try container.encode(flag)
                case .list(let list): try container.encode(list)
                }
            }
        }

        /// `write` gets what is shown.
        init(
            isJSON: Bool, showsLog: Bool = false,
            write: @escaping @Sendable (String) -> Void = { StandardStream.output.write($0) }
        ) {
            (self.isJSON, self.showsLog, self.write) = (isJSON, showsLog, write)
        }

        /// The last thing that was wrong before playback failed: what comes later follows from it.
        var lastProblem: String? { state.withLock { $0.problem } }
        /// Why playback did not begin at all.
        var startFailure: String {
            "GStreamer does not start to play it" + (lastProblem.map { ": \($0)" } ?? "; GST_DEBUG=2 logs more")
        }
        /// Why playback is being ended, without what GStreamer adds to it.
        var abortReason: String? { state.withLock { $0.abortReason } }

        func show(_ note: Note, _ rights: RightsStatus) {
            state.withLock { $0.hasBegun = true }
            line(
                ["event": .text(note.rawValue), "status": .text(rights.kind.rawValue), "text": .text("\(rights)")],
                "\(note.rawValue): \(rights)")
        }

        func show(_ event: AgentEvent) {
            // Before the rights, a person is told only why nothing happens for long.
            guard isJSON || Self.isOutage(event) || state.withLock({ $0.hasBegun }) else { return }
            switch event {
            case .rightsNotAvailable(let status, let keyIDs):
                line(
                    [
                        "event": .text("rights-not-available"), "status": .text(status.kind.rawValue),
                        "text": .text("\(status)"),
                        "keyIds": .text(keyIDs.map(\.description).joined(separator: ",")),
                    ],
                    "no rights: \(status)")
            case .untrustedSystemTime(let reason): problem("untrusted-system-time", reason)
            case .invalidContent(let url, let reason):
                problem("invalid-content", "\(url): \(reason)", ["url": .text(url)])
            case .serverError(let url, let status):
                problem(
                    "server-error", "HTTP \(status) from \(url)", ["url": .text(url), "status": .number(status)],
                    ("server-error", status))
            case .playbackShouldBeAborted(let reason):
                problem("playback-should-be-aborted", reason)
                state.withLock { $0.hasFailed = true }
            case .playbackWillBeAborted(let reason):
                state.withLock { $0.abortReason = reason }
                problem("playback-will-be-aborted", reason)
            case .cacheEdgeReached(_, let reason): problem("cache-edge-reached", reason)
            case .sessionSetupError(let details): problem("session-setup-error", details, isCause: true)
            case .sessionHeartbeatError(let details, let isFinal):
                problem("session-heartbeat-error", details, ["final": .flag(isFinal)], isCause: isFinal)
            case .sessionTeardownError(let details): problem("session-teardown-error", details, isCause: false)
            case .outputStatus(let status):
                let reasons = status.reasons.joined(separator: "; ")
                line(
                    ["event": .text("outputs"), "status": .text(status.status), "text": .text(reasons)],
                    "outputs: \(status.status)\(reasons.isEmpty ? "" : ": \(reasons)")")
            case .stateChanged(let new):
                if new == .failed { state.withLock { $0.hasFailed = true } }
                line(["event": .text("state"), "state": .text(new.rawValue)], "state: \(new.rawValue)")
            case .logMessage(let message):
                guard message.level >= .warning else { return }
                // An error follows from what an event has told, unless the network went away since.
                let isOutage = Self.isOutage(event)
                let refusal = AgentError.httpStatus(in: String(message.text.trimmingPrefix("no key: ")))
                note(
                    Self.withoutPlace(message.text),
                    refusal.map { (AgentError.Code.licenseNotAcquired.rawValue, $0) }
                        ?? (isOutage ? nil : state.withLock { $0.cause }))
                if !showsLog { showLog(message, time: nil) }
            }
        }

        /// Whether it says that the network is waited for.
        private static func isOutage(_ event: AgentEvent) -> Bool {
            if case .logMessage(let message) = event { message.text.hasSuffix("asked for again.") } else { false }
        }

        /// A line of the log, with the time.
        func show(_ message: AgentLogMessage) {
            showLog(message, time: Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
        }

        private func showLog(_ message: AgentLogMessage, time: String?) {
            let text = Self.withoutPlace(message.text)
            var members: [String: Value] = [
                "event": .text("log"), "level": .text("\(message.level)"), "text": .text(text),
            ]
            if let time { members["time"] = .text(time) }
            line(members, "log: \(time.map { "\($0) " } ?? "")\(message.level): \(text)")
        }

        /// Without the place in a source and the element, which GStreamer has in the middle of its errors, behind a summary:
        /// `file(line): function (): /element:name: `. `GST_DEBUG=latchkeyagent:5` shows all of it.
        static func withoutPlace(_ text: String) -> String {
            guard let call = text.firstRange(of: " (): /") else { return text }
            let words = text[..<call.lowerBound].split(separator: " ", omittingEmptySubsequences: false)
            guard words.count >= 2, words[words.count - 2].hasSuffix("):") else { return text }
            let path = text[call.upperBound...]
            let rest = path.firstRange(of: ": ").map { path[$0.upperBound...] } ?? ""
            let summary = words.dropLast(2).joined(separator: " ")
            if rest.isEmpty || summary.isEmpty { return summary + rest }
            return summary + (summary.hasSuffix(".") ? " " : ": ") + rest
        }

        /// Playback does not come to its end, and nothing is shown after this. Without a code, that of the last problem counts.
        /// For programs alone: people read standard error.
        func fail(_ text: String, code: String? = nil, status: Int? = nil) {
            guard isJSON else { return }
            let (session, cause) = state.withLock { state in
                let abortion = state.abortReason.map { _ in (code: "playback-will-be-aborted", status: 0) }
                // A lost session aborts playback, and says more.
                return (state.session, abortion.map { state.session ?? $0 } ?? state.cause)
            }
            // The kinds of the agent's errors are words, too.
            let kind = code ?? cause?.code.replacing("-", with: " ") ?? "playback failed"
            var members: [String: Value] = ["event": .text("error"), "text": .text(text), "code": .text(kind)]
            let known = status ?? (code == nil ? cause : session)?.status ?? 0
            if known > 0 { members["status"] = .number(known) }
            line(members, "", isLast: true)
        }

        private func problem(
            _ event: String, _ details: SessionErrorDetails, _ more: [String: Value] = [:], isCause: Bool
        ) {
            let cause: Cause? = isCause ? (event, details.httpStatus) : nil
            if isCause { state.withLock { $0.session = cause } }
            let parts = [details.reason, details.message, details.code].filter { !$0.isEmpty }
            var members: [String: Value] = [
                "status": .number(details.httpStatus), "code": .text(details.code), "message": .text(details.message),
                "reason": .text(details.reason), "conflicts": .list(details.conflicts),
            ]
            members.merge(more) { $1 }
            let text = (parts + ["HTTP \(details.httpStatus)"]).joined(separator: ", ")
            problem(event, text, members, cause ?? state.withLock { $0.cause })
        }

        private func problem(_ event: String, _ text: String, _ more: [String: Value] = [:]) {
            problem(event, text, more, (event, 0))
        }

        private func problem(_ event: String, _ text: String, _ more: [String: Value], _ cause: Cause?) {
            note(text, cause)
            let members: [String: Value] = ["event": .text(event), "text": .text(text)]
            line(members.merging(more) { $1 }, "\(event.replacing("-", with: " ")): \(text)")
        }

        private func note(_ problem: String, _ cause: Cause?) {
            state.withLock { state in
                if !state.hasFailed { (state.problem, state.cause) = (problem, cause) }
            }
        }

        private func line(_ members: [String: Value], _ text: String, isLast: Bool = false) {
            if isJSON {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                guard let data = try? encoder.encode(members) else { return }
                let text = JSONText.escapingControls(String(decoding: data, as: UTF8.self))
                isOver.withLock { isOver in
                    if !isOver { write(text + "\n") }
                    isOver = isOver || isLast
                }
                return
            }
            let clear = state.withLock { state in
                defer { state.hasPosition = false }
                return state.hasPosition
            }
            write((clear ? "\r\u{1B}[K" : "") + text.withoutControls + "\n")
        }

        /// In nanoseconds.
        func showPosition(_ position: UInt64?, of duration: UInt64?) {
            guard !isJSON, terminal.isInteractive, let position else { return }
            state.withLock { $0.hasPosition = true }
            write("\r\u{1B}[K" + terminal.fit(Self.bar(position, of: duration, width: terminal.width)))
        }

        /// `0:12 / 1:40  [######          ]`
        static func bar(_ position: UInt64, of duration: UInt64?, width: Int) -> String {
            let place = ContentReport.time((Double(position) / 1e9).rounded(.down))
            guard let duration, duration > 0 else { return place }
            let text = "\(place) / \(ContentReport.time((Double(duration) / 1e9).rounded(.down)))"
            let room = min(width - text.count - 5, 60)
            guard room >= 10 else { return text }
            let filled = Int(Double(room) * min(Double(position) / Double(duration), 1))
            return text + "  [" + String(repeating: "#", count: filled) + String(repeating: " ", count: room - filled)
                + "]"
        }

        /// Ends the line of the position.
        func finish() {
            let hasPosition = state.withLock { state in
                defer { state.hasPosition = false }
                return state.hasPosition
            }
            if hasPosition { write("\n") }
        }

        func ask(_ question: String) -> Bool {
            finish()
            write(question)
            return ["y", "yes"].contains(readLine()?.lowercased())
        }
    }

    /// Tells the agent when the machine sleeps (logind), and when the process is stopped and goes on (SIGTSTP, SIGCONT). A
    /// process that is stopped pauses, so that it plays on where it was. Ends with the last reference to it.
    final class StandstillWatch: @unchecked Sendable {
        // SAFETY: set in `init`; dispatch sources are thread-safe.
        private let sleep: SleepWatch
        private let signals: [any DispatchSourceSignal]

        init(_ agent: Agent, _ player: Player) {
            // The agent ends with the command, whatever is still on its way here.
            sleep = SleepWatch { [weak agent] isAboutToSleep in
                if isAboutToSleep { await agent?.suspend() } else { agent?.resume() }
            }
            let stopping = Stopping()
            let stop = Self.source(SIGTSTP) { [weak agent, weak player] in
                stopping.begin { [weak agent, weak player] in
                    player?.pause()
                    await agent?.suspend()
                }
            }
            let resume = Self.source(SIGCONT) { [weak agent, weak player] in
                Task { [weak agent, weak player] in
                    await stopping.end()
                    agent?.resume()
                    player?.play()
                }
            }
            signals = [stop, resume]
        }

        deinit {
            for source in signals { source.cancel() }
            for number in [SIGTSTP, SIGCONT] { signal(number, SIG_DFL) }
        }

        private static func source(
            _ number: Int32, _ handler: @escaping @Sendable () -> Void
        ) -> any DispatchSourceSignal {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler(handler: handler)
            source.resume()
            return source
        }

        /// The stop of the process. One that is called off before it comes does not come. Thread-safe.
        private final class Stopping: Sendable {
            private let task = Mutex<Task<Void, Never>?>(nil)

            /// Stops the process behind `preparation`.
            func begin(_ preparation: @escaping @Sendable () async -> Void) {
                task.withLock { task in
                    // Only the last one is called off by `end`.
                    task?.cancel()
                    task = Task {
                        guard !Task.isCancelled else { return }
                        await preparation()
                        if !Task.isCancelled { kill(getpid(), SIGSTOP) }
                    }
                }
            }

            /// Calls the stop off, or returns when the process was stopped and goes on.
            func end() async {
                let task = task.withLock { task in
                    defer { task = nil }
                    return task
                }
                task?.cancel()
                await task?.value
            }
        }
    }
#endif
