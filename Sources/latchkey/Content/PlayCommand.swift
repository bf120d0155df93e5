// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Dispatch
    import Glibc
    import Latchkey
    import OutputControl
    import ProtectionModel

    struct PlayCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "play",
            abstract: "Play some content, and say what happens.",
            discussion: """
                Looks at the rights first, and asks before a licence is acquired. On a terminal the last line shows the \
                position. With --json each event is an object on a line of its own, with event and what belongs to it.

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

        func validate() throws {
            if let hdmiMode, HDMIMode(rawValue: hdmiMode) == nil {
                throw ValidationError("--hdmi-mode \(hdmiMode): there is no such mode")
            }
        }

        func run() async throws {
            var configuration = Agent.Configuration()
            if let videoSink { configuration.videoSink = videoSink }
            if let audioSink { configuration.audioSink = audioSink }
            if let outputs { configuration.outputs = outputs }
            let agent = place.agent(configuration)
            if let mode = hdmiMode.flatMap({ HDMIMode(rawValue: $0) }) { agent.hdmiMode = mode }
            agent.selectedAudioTrack = audio
            let screen = PlaybackScreen(isJSON: json)
            do {
                let info = try await agent.contentInfo()
                screen.show(.rights, "\(info.rights)")
                if info.rightsStatus == .valid { return try await play(agent, screen) }
                if !mayAcquire(screen) { throw ExitCode(2) }
                screen.show(.acquired, "\(try await agent.acquireLicense())")
                try await play(agent, screen)
            } catch let error as AgentError {
                try fail(error)
            }
        }

        private func fail(_ error: AgentError) throws {
            guard error.code == .licenseNotAcquired else { throw ToolError(error.description) }
            complain(error.description)
            throw ExitCode(2)
        }

        private func mayAcquire(_ screen: PlaybackScreen) -> Bool {
            if yes { return true }
            guard !json, isatty(STDIN_FILENO) == 1 else {
                complain("there are no rights to play this, and nobody can be asked; give --yes")
                return false
            }
            return screen.ask("There are no rights to play this. Acquire a licence? [y/N] ")
        }

        private func complain(_ text: String) { StandardStream.error.write("Error: \(text)\n") }

        private func play(_ agent: Agent, _ screen: PlaybackScreen) async throws {
            let player: Player
            do throws(AgentError) { player = try agent.makePlayer() } catch { throw ToolError(error.description) }
            let events = agent.events
            guard player.play() else { throw ToolError("GStreamer does not start to play it") }
            let interrupt = Self.onInterrupt {
                screen.finish()
                player.stop()
                Glibc.exit(130)
            }
            defer { interrupt.cancel() }
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
            player.stop()
            try outcome.get()
        }

        private func follow(
            _ events: AsyncStream<AgentEvent>, _ agent: Agent, _ screen: PlaybackScreen
        ) async -> Result<Void, any Error> {
            for await event in events {
                screen.show(event)
                switch event {
                case .rightsNotAvailable:
                    guard mayAcquire(screen) else { return .failure(ExitCode(2)) }
                    do throws(AgentError) {
                        screen.show(.acquired, "\(try await agent.acquireLicense())")
                    } catch {
                        complain(error.description)
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
