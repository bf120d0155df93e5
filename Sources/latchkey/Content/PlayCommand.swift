// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Dispatch
    import Glibc
    import Latchkey
    import LatchkeyOutputs
    import LatchkeyProtection

    struct PlayCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "play",
            abstract: "Play some content, and say what happens.",
            discussion: """
                Looks at the rights first, and asks before a licence is acquired. On a terminal the last line shows the \
                position. With --json each event is an object on a line of its own, with event and what belongs to it. \
                Session errors have status (of HTTP), code, message, reason, conflicts and, for heartbeats, final. What ends \
                the command without playback to the end is the event error, with code and status if there are any.

                EXAMPLE
                  latchkey play --yes https://media.example/movie/master.m3u8
                  latchkey play --video-sink fakesink --audio-sink fakesink movie.mp4

                EXIT STATUS
                  0    played to the end
                  1    it failed; standard error says why
                  2    there are no rights to play it, and none were acquired
                  130  ended by Ctrl-C
                """)

        @OptionGroup var place: ContentPlace
        @OptionGroup var cachePlace: CachePlace

        @Flag(name: .shortAndLong, help: "Acquire licences without asking.")
        var yes = false

        @Option(help: ArgumentHelp("The audio track, as latchkey inspect names it.", valueName: "name"))
        var audio: String?

        @Option(
            help: ArgumentHelp(
                "What is made of external outputs: \(HDMIMode.allCases.map(\.rawValue).joined(separator: ", ")).",
                valueName: "mode"))
        var hdmiMode: String?

        @Option(help: ArgumentHelp("Who tells the outputs: kms, application, script:FILE.", valueName: "who"))
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
            if let log, logLevel == nil {
                throw ValidationError(
                    "--log \(log): "
                        + AgentLogMessage.Level.allCases.map { "\($0)" }.joined(separator: ", ") + " are known")
            }
            if let hdmiMode, HDMIMode(rawValue: hdmiMode) == nil {
                throw ValidationError("--hdmi-mode \(hdmiMode): there is no such mode")
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
            }
        }

        /// All that the agent told is shown when this returns or throws.
        private func run(_ configuration: Agent.Configuration, _ screen: PlaybackScreen) async throws {
            var agent: Agent? = place.agent(configuration)
            guard let events = agent?.events else { return }
            let (shown, forward) = AsyncStream.makeStream(of: AgentEvent.self)
            let showing = Task {
                var hasEnded = false
                for await event in events {
                    // That the player is stopped then is no news.
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
                if let agent { try await play(with: agent, shown, screen) }
                result = .success(())
            } catch {
                result = .failure(error)
            }
            agent = nil
            await showing.value
            screen.finish()
            try result.get()
        }

        private func play(
            with agent: Agent, _ events: AsyncStream<AgentEvent>, _ screen: PlaybackScreen
        ) async throws {
            if let mode = hdmiMode.flatMap({ HDMIMode(rawValue: $0) }) { agent.hdmiMode = mode }
            agent.selectedAudioTrack = audio
            let info = try await agent.contentInfo()
            try check(audio, info)
            screen.show(.rights, "\(info.rights)")
            if info.rightsStatus == .valid { return try await play(agent, events, screen) }
            if !mayAcquire(screen) { throw ExitCode(2) }
            screen.show(.acquired, "\(try await agent.acquireLicense())")
            try await play(agent, events, screen)
        }

        private func check(_ audio: String?, _ info: ContentInfo) throws {
            guard let audio, !info.audioTrackNames.contains(audio) else { return }
            guard !info.audioTrackNames.isEmpty else {
                throw ToolError("--audio \(audio): the audio tracks of this content have no names")
            }
            let names = info.audioTrackNames.joined(separator: ", ")
            throw ToolError("--audio \(audio): there is no such audio track; there are \(names)")
        }

        private func fail(_ error: AgentError) throws {
            guard error.code == .licenseNotAcquired else { throw ToolError(error.description) }
            complain(error.description)
            throw ExitCode(2)
        }

        private func mayAcquire(_ screen: PlaybackScreen) -> Bool {
            if yes { return true }
            guard !json, isatty(STDIN_FILENO) == 1 else {
                complain("there are no rights to play this, and no one can be asked; give --yes")
                screen.fail("there are no rights to play this, and no one can be asked", code: "no rights")
                return false
            }
            return screen.ask("There are no rights to play this. Acquire a licence? [y/N] ")
        }

        private func complain(_ text: String) { StandardStream.error.write("Error: \(text)\n") }

        private func play(
            _ agent: Agent, _ events: AsyncStream<AgentEvent>, _ screen: PlaybackScreen
        ) async throws {
            let player: Player
            do throws(AgentError) { player = try agent.makePlayer() } catch { throw ToolError(error.description) }
            guard player.play() else { throw ToolError("GStreamer does not start to play it") }
            let interrupt = Self.onInterrupt {
                screen.finish()
                player.stop()
                Glibc.exit(130)
            }
            defer { interrupt.cancel() }
            let standstill = StandstillWatch(agent, player)
            let clock = Task {
                while !Task.isCancelled {
                    // A bus that nobody empties keeps everything.
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
                        screen.show(.acquired, "\(try await agent.acquireLicense())")
                    } catch {
                        complain(error.description)
                        screen.fail(error.description, code: error.code.rawValue, status: error.httpStatus)
                        return .failure(ExitCode(2))
                    }
                case .playbackShouldBeAborted(let reason): return .failure(ToolError(reason))
                case .stateChanged(.ended): return .success(())
                case .stateChanged(.failed): return .failure(ToolError(screen.lastProblem ?? "playback failed"))
                case .stateChanged(.aborted):
                    return .failure(ToolError(screen.lastProblem ?? "playback was ended"))
                default: break
                }
            }
            return .failure(ToolError("playback ended without a reason"))
        }

        private static func onInterrupt(_ action: @escaping @Sendable () -> Void) -> any DispatchSourceSignal {
            signal(SIGINT, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
            source.setEventHandler(handler: action)
            source.resume()
            return source
        }
    }
#endif
