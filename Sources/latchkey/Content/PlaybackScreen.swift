// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import FoundationEssentials
    import Latchkey
    import LatchkeyProtection
    import Synchronization

    /// What `latchkey play` shows: a line for each event and, on a terminal, the position under them. Thread-safe.
    final class PlaybackScreen: Sendable {
        /// What is shown beside the agent's events.
        enum Note: String { case rights, acquired }

        private let terminal = Terminal()
        private let isJSON: Bool
        /// Lines of the log come by `show(_: AgentLogMessage)`.
        private let showsLog: Bool
        private let state = Mutex(State())

        private struct State {
            var hasPosition = false
            var problem: String?
            /// The rights were shown: what comes before is news for programs alone.
            var hasBegun = false
        }

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

        init(isJSON: Bool, showsLog: Bool = false) { (self.isJSON, self.showsLog) = (isJSON, showsLog) }

        /// The last thing that was wrong.
        var lastProblem: String? { state.withLock { $0.problem } }

        func show(_ note: Note, _ text: String) {
            state.withLock { $0.hasBegun = true }
            line(["event": .text(note.rawValue), "text": .text(text)], "\(note.rawValue): \(text)")
        }

        func show(_ event: AgentEvent) {
            guard isJSON || state.withLock({ $0.hasBegun }) else { return }
            switch event {
            case .rightsNotAvailable(let status, let keyIDs):
                line(
                    [
                        "event": .text("rights-not-available"), "text": .text("\(status)"),
                        "keyIds": .text(keyIDs.map(\.description).joined(separator: ",")),
                    ],
                    "no rights: \(status)")
            case .untrustedSystemTime(let reason): problem("untrusted-system-time", reason)
            case .invalidContent(let url, let reason):
                problem("invalid-content", "\(url): \(reason)", ["url": .text(url)])
            case .serverError(let url, let status):
                problem(
                    "server-error", "HTTP \(status) from \(url)", ["url": .text(url), "status": .number(status)])
            case .playbackShouldBeAborted(let reason): problem("playback-should-be-aborted", reason)
            case .playbackWillBeAborted(let reason): problem("playback-will-be-aborted", reason)
            case .cacheEdgeReached(_, let reason): problem("cache-edge-reached", reason)
            case .sessionSetupError(let details): problem("session-setup-error", details)
            case .sessionHeartbeatError(let details, let isFinal):
                problem("session-heartbeat-error", details, ["final": .flag(isFinal)])
            case .sessionTeardownError(let details): problem("session-teardown-error", details)
            case .outputStatus(let status):
                let reasons = status.reasons.joined(separator: "; ")
                line(
                    ["event": .text("outputs"), "status": .text(status.status), "text": .text(reasons)],
                    "outputs: \(status.status)\(reasons.isEmpty ? "" : ": \(reasons)")")
            case .stateChanged(let new):
                line(["event": .text("state"), "state": .text(new.rawValue)], "state: \(new.rawValue)")
            case .logMessage(let message):
                guard message.level >= .warning else { return }
                state.withLock { $0.problem = "\(message)" }
                if !showsLog { showLog(message, time: nil) }
            }
        }

        /// A line of the log, with the time.
        func show(_ message: AgentLogMessage) {
            showLog(message, time: Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
        }

        private func showLog(_ message: AgentLogMessage, time: String?) {
            var members: [String: Value] = [
                "event": .text("log"), "level": .text("\(message.level)"), "text": .text("\(message)"),
            ]
            if let time { members["time"] = .text(time) }
            line(members, "log: \(time.map { "\($0) " } ?? "")\(message)")
        }

        /// Playback does not come to its end. For programs alone: people read standard error.
        func fail(_ text: String, code: String? = nil, status: Int? = nil) {
            guard isJSON else { return }
            var members: [String: Value] = ["event": .text("error"), "text": .text(text)]
            if let code { members["code"] = .text(code) }
            if let status { members["status"] = .number(status) }
            line(members, "")
        }

        private func problem(_ event: String, _ details: SessionErrorDetails, _ more: [String: Value] = [:]) {
            let parts = [details.reason, details.message, details.code].filter { !$0.isEmpty }
            var members: [String: Value] = [
                "status": .number(details.httpStatus), "code": .text(details.code), "message": .text(details.message),
                "reason": .text(details.reason), "conflicts": .list(details.conflicts),
            ]
            members.merge(more) { $1 }
            problem(event, (parts + ["HTTP \(details.httpStatus)"]).joined(separator: ", "), members)
        }

        private func problem(_ event: String, _ text: String, _ more: [String: Value] = [:]) {
            state.withLock { $0.problem = text }
            let members: [String: Value] = ["event": .text(event), "text": .text(text)]
            line(members.merging(more) { $1 }, "\(event.replacing("-", with: " ")): \(text)")
        }

        private func line(_ members: [String: Value], _ text: String) {
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
