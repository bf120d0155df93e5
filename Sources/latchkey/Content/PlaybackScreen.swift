// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import FoundationEssentials
    import Latchkey
    import Synchronization

    /// What `latchkey play` shows: a line for each event and, on a terminal, the position under them. Thread-safe.
    final class PlaybackScreen: Sendable {
        /// What is shown beside the agent's events.
        enum Note: String { case rights, acquired }

        private let terminal = Terminal()
        private let isJSON: Bool
        private let state = Mutex(State())

        private struct State {
            var hasPosition = false
            var problem: String?
        }

        init(isJSON: Bool) { self.isJSON = isJSON }

        /// The last thing that was wrong.
        var lastProblem: String? { state.withLock { $0.problem } }

        func show(_ note: Note, _ text: String) {
            line(["event": note.rawValue, "text": text], "\(note.rawValue): \(text)")
        }

        func show(_ event: AgentEvent) {
            switch event {
            case .rightsNotAvailable(let status, let keyIDs):
                line(
                    [
                        "event": "rights-not-available", "text": "\(status)",
                        "keyIds": keyIDs.map(\.description).joined(separator: ","),
                    ],
                    "no rights: \(status)")
            case .untrustedSystemTime(let reason): problem("untrusted-system-time", reason)
            case .invalidContent(let url, let reason): problem("invalid-content", "\(url): \(reason)")
            case .serverError(let url, let status): problem("server-error", "HTTP \(status) from \(url)")
            case .playbackShouldBeAborted(let reason): problem("playback-should-be-aborted", reason)
            case .playbackWillBeAborted(let reason): problem("playback-will-be-aborted", reason)
            case .cacheEdgeReached(_, let reason): problem("cache-edge-reached", reason)
            case .sessionSetupError(let details): problem("session-setup-error", Self.text(details))
            case .sessionHeartbeatError(let details, _): problem("session-heartbeat-error", Self.text(details))
            case .sessionTeardownError(let details): problem("session-teardown-error", Self.text(details))
            case .outputStatus(let status):
                let reasons = status.reasons.joined(separator: "; ")
                line(
                    ["event": "outputs", "status": status.status, "text": reasons],
                    "outputs: \(status.status)\(reasons.isEmpty ? "" : ": \(reasons)")")
            case .stateChanged(let new): line(["event": "state", "state": new.rawValue], "state: \(new.rawValue)")
            case .logMessage(let message):
                if message.level >= .warning { problem("log", "\(message)") }
            }
        }

        private static func text(_ details: SessionErrorDetails) -> String {
            let parts = [details.reason, details.message, details.code].filter { !$0.isEmpty }
            return (parts + ["HTTP \(details.httpStatus)"]).joined(separator: ", ")
        }

        private func problem(_ event: String, _ text: String) {
            state.withLock { $0.problem = text }
            line(["event": event, "text": text], "\(event.replacing("-", with: " ")): \(text)")
        }

        private func line(_ members: [String: String], _ text: String) {
            if isJSON {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
                if let data = try? encoder.encode(members) { write(String(decoding: data, as: UTF8.self) + "\n") }
                return
            }
            let clear = state.withLock { state in
                defer { state.hasPosition = false }
                return state.hasPosition
            }
            write((clear ? "\r\u{1B}[K" : "") + text + "\n")
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

        private func write(_ text: String) { StandardStream.output.write(text) }
    }
#endif
