// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import Dispatch
    import Glibc
    import Latchkey

    /// Tells the agent when the machine sleeps (logind), and when the process is stopped and goes on (SIGTSTP, SIGCONT). A
    /// process that is stopped pauses, so that it plays on where it was. Ends with the last reference to it.
    final class StandstillWatch: @unchecked Sendable {
        // SAFETY: set in `init`; dispatch sources are thread-safe.
        private let sleep: SleepWatch
        private let signals: [any DispatchSourceSignal]

        init(_ agent: Agent, _ player: Player) {
            // The agent ends with the command, whatever is still on its way here.
            sleep = SleepWatch { [weak agent] isAboutToSleep in
                Task { if isAboutToSleep { await agent?.suspend() } else { agent?.resume() } }
            }
            let stop = Self.source(SIGTSTP) { [weak agent, weak player] in
                Task {
                    player?.pause()
                    await agent?.suspend()
                    kill(getpid(), SIGSTOP)
                }
            }
            let resume = Self.source(SIGCONT) { [weak agent, weak player] in
                agent?.resume()
                player?.play()
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
    }
#endif
