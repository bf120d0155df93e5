// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import LatchkeyHTTP
    import Latchkey
    import LatchkeyKeySession
    import LatchkeyViewingSession

    /// `latchkey session`: viewing sessions that the configured server may count, and whether it answers as it should.
    struct SessionCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "session",
            abstract: "List the viewing sessions of this device, end those that were left over, or try the server.",
            discussion: """
                The server, its credential and the folder of records are those of [session] in latchkey.conf.
                """,
            subcommands: [SessionListCommand.self, SessionEndCommand.self, SessionCheckCommand.self])

        /// Throws where no server is configured.
        static func viewing() throws -> ViewingConfiguration {
            do {
                guard let viewing = try Latchkey.settings().viewing else {
                    throw ToolError("no session server is configured: set server-url in [session] of latchkey.conf")
                }
                return try viewing.makeConfiguration()
            } catch let error as ToolError {
                throw error
            } catch {
                throw ToolError("\(error)")
            }
        }
    }

    struct SessionListCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the sessions that servers may count.",
            discussion: """
                PROCESS is the one that plays; “gone” is a session that was left over: the next playback ends it. TRIES \
                says how often that failed. JSON has one object for each, with server, session, process (left out where \
                it is gone) and tries.
                """)

        @Flag(help: "Write JSON, for programs.")
        var json = false

        func run() async throws {
            let entries: [SessionRecords.Entry]
            do throws(AgentError) { entries = try await Agent.viewingSessions() } catch {
                throw ToolError(error.reason)
            }
            guard !json else { return print(try JSONText.of(entries.map(Entry.init))) }
            guard !entries.isEmpty else { return print("no sessions") }
            let table = TextTable(
                titles: ["SESSION", "PROCESS", "TRIES", "SERVER"],
                rows: entries.map {
                    [
                        $0.session, $0.processID.map(String.init) ?? "gone", "\($0.attempts)",
                        Self.printable($0.serverURL),
                    ]
                }, right: [2])
            for line in table.lines { print(line) }
        }

        private static func printable(_ url: String) -> String { HTTPRequest(url: url).printableURL }

        private struct Entry: Encodable {
            let server: String
            let session: String
            let process: Int32?
            let tries: Int

            init(_ entry: SessionRecords.Entry) {
                server = SessionListCommand.printable(entry.serverURL)
                session = entry.session
                process = entry.processID
                tries = entry.attempts
            }
        }
    }

    struct SessionEndCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "end",
            abstract: "End the sessions that crashed players left over.",
            discussion: """
                Sessions of processes that are still there stay. The next playback does the same; this ends them at once.

                EXIT STATUS
                  0   nothing is left over
                  1   the server could not be told of all of them
                """)

        func run() async throws {
            let count: (ended: Int, left: Int)
            do throws(AgentError) { count = try await Agent.endLeftOverViewingSessions() } catch {
                throw ToolError(error.reason)
            }
            print("ended: \(count.ended)")
            if count.left > 0 { throw ToolError("\(count.left) could not be ended; the next start tries again") }
        }
    }

    struct SessionCheckCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Set a session up at the configured server and end it again.",
            discussion: """
                Counts as a playback for that moment. Says how long each step took.

                EXIT STATUS
                  0   both steps succeeded
                  1   the server refused, or did not answer; standard error has its
                      status, code and message
                """)

        func run() async throws {
            let session = ViewingSession(try SessionCommand.viewing().session)
            let clock = ContinuousClock()
            let (failures, failed) = AsyncStream.makeStream(of: SessionFailure.self)
            session.observe { event in
                if case .notice(.teardownError(let failure)) = event { failed.yield(failure) }
            }
            let start = clock.now
            session.start()
            do throws(SessionFailure) { try await session.established() } catch { throw ToolError("setup: \(error)") }
            let open = clock.now
            print("setup: \(open - start)")
            session.stop()
            await session.closed()
            failed.finish()
            for await failure in failures { throw ToolError("teardown: \(failure)") }
            print("teardown: \(clock.now - open)")
        }
    }
#endif
