// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Foundation
    import LatchkeyProtection
    import Synchronization
    import Testing

    @testable import Latchkey
    @testable import latchkey

    /// What `latchkey inspect` and `play` write.
    @Suite struct ContentReportTests {
        @Test(arguments: [
            (0, "0:00"), (9.96, "0:10"), (59.94, "0:59.9"), (59.96, "1:00"), (600, "10:00"), (3599.5, "59:59.5"),
            (3600, "1:00:00"), (36_061.2, "10:01:01.2"), (-1, "…"), (.infinity, "…"), (.nan, "…"), (1e300, "…"),
        ])
        func times(seconds: Double, text: String) { #expect(ContentReport.time(seconds) == text) }

        @Test(
            arguments: [
                (0, "0 kb/s"), (64_000, "64 kb/s"), (999_999, "999 kb/s"), (1_000_000, "1.0 Mb/s"),
                (2_570_000, "2.5 Mb/s"), (UInt64.max, "18446744073709.5 Mb/s"),
            ] as [(UInt64, String)])
        func rates(bits: UInt64, text: String) { #expect(ContentReport.rate(bits) == text) }

        @Test func theBarFitsTheTerminal() {
            let second: UInt64 = 1_000_000_000
            #expect(PlaybackScreen.bar(5 * second, of: nil, width: 80) == "0:05")
            #expect(PlaybackScreen.bar(5 * second, of: 10 * second, width: 20) == "0:05 / 0:10")
            for width in [40, 80, 160] {
                for position in [0, 3, 10, 12] as [UInt64] {
                    let line = PlaybackScreen.bar(position * second, of: 10 * second, width: width)
                    #expect(line.count <= width)
                    let filled = line.count { $0 == "#" },
                        empty = line.reversed().prefix { $0 != "[" }.count { $0 == " " }
                    #expect(filled == Int(Double(filled + empty) * min(Double(position) / 10, 1)))
                }
            }
        }

        /// Each line is an object, and numbers are numbers.
        @Test func eventsAreObjects() throws {
            let lines = Mutex<[String]>([])
            let screen = PlaybackScreen(isJSON: true) { line in lines.withLock { $0.append(line) } }
            let details = SessionErrorDetails(
                httpStatus: 403, code: "1007", message: "limit \"reached\"", reason: "session limit reached",
                conflicts: ["tv", "phone"])
            screen.show(.rights, RightsStatus(kind: .untrustedTime, reason: "set back"))
            screen.show(AgentEvent.rightsNotAvailable(RightsStatus(kind: .expired, reason: "over"), []))
            screen.show(AgentEvent.sessionSetupError(details))
            screen.show(AgentEvent.sessionHeartbeatError(details, isFinal: true))
            screen.show(AgentEvent.sessionTeardownError(details))
            screen.show(AgentEvent.serverError(url: "https://a.example/1.m4s", status: 404))
            screen.show(AgentEvent.logMessage(AgentLogMessage(.warning, "no network")))
            screen.fail("no license", code: "license not acquired", status: 500)
            let shown = lines.withLock { $0 }
            #expect(shown.allSatisfy { $0.hasSuffix("}\n") && $0.dropLast().allSatisfy { !$0.isNewline } })
            let events = try shown.map {
                try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
            }
            #expect(
                events.map { $0["event"] as? String } == [
                    "rights", "rights-not-available", "session-setup-error", "session-heartbeat-error",
                    "session-teardown-error", "server-error", "log", "error",
                ])
            #expect(events.prefix(2).map { $0["status"] as? String } == ["untrustedTime", "expired"])
            #expect(events.dropFirst(2).map { $0["status"] as? Int } == [403, 403, 403, 404, nil, 500])
            #expect(events.map { $0["final"] as? Bool } == [nil, nil, nil, true, nil, nil, nil, nil])
            #expect(events[6]["level"] as? String == "warning" && events[6]["text"] as? String == "no network")
            for event in events[2...4] {
                #expect(event["code"] as? String == "1007" && event["message"] as? String == "limit \"reached\"")
                #expect(event["reason"] as? String == "session limit reached")
                #expect(event["conflicts"] as? [String] == ["tv", "phone"])
            }
            #expect(events.last?["code"] as? String == "license not acquired")
        }

        private static let page = "https://a.example/1.m4s"
        private static let details = SessionErrorDetails(
            httpStatus: 403, code: "1007", message: "limit", reason: "session limit reached", conflicts: [])
        private static let warning = AgentEvent.logMessage(
            AgentLogMessage(.warning, "Playback waits, and it is asked for again."))
        private static let refusal = AgentEvent.logMessage(
            AgentLogMessage(.error, "no key: server status: \(page) answers with status 403: “status 404”"))
        private static let withoutSession = AgentEvent.logMessage(
            AgentLogMessage(.error, "no key: server status: no viewing session: unknown, HTTP status 500"))
        private static let error = AgentEvent.logMessage(AgentLogMessage(.error, "It cannot be read."))

        /// What the error at the end has of what was told before, if it has no code of its own.
        @Test(
            arguments: [
                ([], "playback failed", nil), ([warning, error], "playback failed", nil),
                ([.serverError(url: page, status: 404), error], "server error", 404),
                ([.serverError(url: page, status: 503), warning, error], "playback failed", nil),
                ([refusal, error, .stateChanged(.failed)], "no license acquired", 403),
                ([.invalidContent(url: page, reason: "a web page"), error], "invalid content", nil),
                (
                    [.serverError(url: page, status: 503), .playbackShouldBeAborted(reason: "a wrong key"), warning],
                    "playback should be aborted", nil
                ),
                ([.sessionSetupError(details), error, .stateChanged(.failed)], "session setup error", 403),
                ([.sessionSetupError(details), withoutSession, .stateChanged(.failed)], "session setup error", 403),
                (
                    [.playbackWillBeAborted(reason: "lost"), .sessionHeartbeatError(details, isFinal: true), warning],
                    "session heartbeat error", 403
                ),
                (
                    [.sessionHeartbeatError(details, isFinal: false), .playbackWillBeAborted(reason: "an output")],
                    "playback will be aborted", nil
                ),
                ([.stateChanged(.failed), .sessionTeardownError(details)], "playback failed", nil),
            ] as [([AgentEvent], String, Int?)])
        func theErrorAtTheEndHasAKindAndNothingFollowsIt(told: [AgentEvent], code: String, status: Int?) throws {
            let lines = Mutex<[String]>([])
            let screen = PlaybackScreen(isJSON: true) { line in lines.withLock { $0.append(line) } }
            for event in told { screen.show(event) }
            screen.fail("it ended")
            screen.show(AgentEvent.sessionTeardownError(Self.details))
            screen.show(AgentLogMessage(.warning, "late"))
            let last = try #require(lines.withLock { $0.last })
            let error = try JSONSerialization.jsonObject(with: Data(last.utf8)) as? [String: Any] ?? [:]
            #expect(error["event"] as? String == "error" && error["text"] as? String == "it ended", "\(last)")
            #expect(error["code"] as? String == code && error["status"] as? Int == status, "\(last)")
        }

        /// No one reads the lines any more: a signal ends the command all the same.
        @Test func nothingWaitsForALineThatIsBeingWritten() {
            let shown = Mutex<PlaybackScreen?>(nil)
            let lines = Mutex(0)
            let screen = PlaybackScreen(isJSON: true) { _ in
                let screen = shown.withLock { $0 }
                screen?.finish()
                if screen?.lastProblem == "no network" { lines.withLock { $0 += 1 } }
            }
            shown.withLock { $0 = screen }
            screen.show(AgentEvent.logMessage(AgentLogMessage(.warning, "no network")))
            #expect(lines.withLock { $0 } == 1)
            shown.withLock { $0 = nil }
        }

        @Test func whyPlaybackDoesNotBeginIsSaid() {
            let screen = PlaybackScreen(isJSON: true) { _ in }
            #expect(screen.startFailure.contains("GST_DEBUG"))
            screen.show(AgentEvent.logMessage(AgentLogMessage(.error, "No URI handler implemented for \"https\".")))
            screen.show(AgentEvent.stateChanged(.failed))
            #expect(screen.startFailure.hasSuffix("to play it: No URI handler implemented for \"https\"."))
        }

        @Test func whatEndsPlaybackIsSaidWithoutThePlaceInASource() {
            let place = "gsthttp.c(12): got_status (): /GstPlayBin3:playbin3-0/GstHttp:http0:"
            for (text, plain) in [
                ("Not found. \(place) status 404", "Not found. status 404"), ("Not found. \(place)", "Not found."),
                ("A. B.swift(1): end(of:on:) (): /A:a0: C: d", "A. C: d"), ("no place", "no place"),
                ("This is text \(place) It is not played", "This is text: It is not played"),
                ("odd (): /x", "odd (): /x"), (" (): /", " (): /"),
            ] {
                #expect(PlaybackScreen.withoutPlace(text) == plain)
            }
            let screen = PlaybackScreen(isJSON: true) { _ in }
            screen.show(AgentEvent.playbackWillBeAborted(reason: "the session is lost"))
            screen.show(AgentEvent.logMessage(AgentLogMessage(.error, "Not found. \(place) status 404")))
            let lines = Mutex<[String]>([])
            for showsLog in [false, true] {
                let screen = PlaybackScreen(isJSON: false, showsLog: showsLog) { line in
                    lines.withLock { $0.append(line) }
                }
                let message = AgentLogMessage(.error, "Not found. \(place) status 404")
                screen.show(.rights, RightsStatus(kind: .valid, reason: "of the test"))
                if showsLog { screen.show(message) } else { screen.show(AgentEvent.logMessage(message)) }
            }
            let logged = lines.withLock { $0 }.filter { $0.contains("log: ") }
            #expect(logged.count == 2 && logged[0] == "log: error: Not found. status 404\n", "\(logged)")
            #expect(logged.allSatisfy { !$0.contains("gsthttp.c") }, "\(logged)")
            #expect(screen.abortReason == "the session is lost" && screen.lastProblem == "Not found. status 404")
            screen.show(AgentEvent.stateChanged(.failed))
            screen.show(AgentEvent.logMessage(AgentLogMessage(.error, "Invalid manifest.")))
            screen.show(AgentEvent.playbackShouldBeAborted(reason: "Invalid manifest."))
            #expect(screen.lastProblem == "Not found. status 404")
        }

        @Test func whatDoesNotPlayWaitsForNoOutage() throws {
            let place = try ContentPlace.parse(["https://media.example/a.mp4"])
            #expect(place.agent().core.configuration.outageTimeout == .zero)
            #expect(place.agent(Agent.Configuration()).core.configuration.outageTimeout == .seconds(300))
        }

        /// Of what comes before the rights, why playback does not begin for a while.
        @Test func anOutageIsShownBeforeTheRights() {
            let lines = Mutex<[String]>([])
            let screen = PlaybackScreen(isJSON: false) { line in lines.withLock { $0.append(line) } }
            screen.show(AgentEvent.logMessage(AgentLogMessage(.warning, "an odd type")))
            let outage = "no connection. Playback waits, and it is asked for again."
            screen.show(AgentEvent.logMessage(AgentLogMessage(.warning, outage)))
            #expect(lines.withLock { $0 } == ["log: warning: \(outage)\n"])
        }

        /// 1 MB and 2 s of 20 s in each second, of which the last ten count.
        @Test func aDownloadIsEstimatedFromItsLastSeconds() {
            var estimate = DownloadEstimate()
            #expect(estimate.text(of: nil, width: 80).isEmpty)
            for second in 0...30 {
                // Slower at first.
                let place = second < 15 ? Double(second) / 10 : 1.4 + Double(second - 14) / 2
                estimate.note(seconds: place, bytes: UInt64(place * 1_000_000), at: Double(second))
            }
            #expect(estimate.rate.map { ($0 / 1000).rounded() } == 500)
            #expect(estimate.timeLeft(of: 20).map { $0.rounded() } == 21)
            for width in [30, 80, 160] {
                let line = estimate.text(of: 20, width: width)
                #expect(line.hasSuffix("47 %  0:09 / 0:20  500 kB/s  0:22 left"), "\(line)")
                #expect(line.count <= max(width, 38) && line.hasPrefix("[") == (width > 30), "\(line)")
            }
            #expect(estimate.text(of: nil, width: 80) == "9.4 MB  500 kB/s")
        }

        @Test(
            arguments: [
                (0, "0 kB"), (999_999, "999 kB"), (1_000_000, "1.0 MB"), (12_340_000, "12.3 MB"),
                (4_560_000_000, "4.5 GB"),
                (UInt64.max, "18446744073.7 GB"),
            ] as [(UInt64, String)])
        func sizes(bytes: UInt64, text: String) { #expect(CacheState.size(bytes) == text) }

        @Test func anAudioNameThatIsNotThereIsNamedWithThoseThatAre() throws {
            let names = AudioNames(["en", "fi", "en"])
            try names.require("fi")
            #expect(throws: ToolError("--audio sv: there is no such audio track; choose one of: en, fi")) {
                try names.require("sv")
            }
            #expect(throws: ToolError.self) { try AudioNames([]).require("en") }
        }

        @Test func tablesAlign() {
            let table = TextTable(
                titles: ["A", "NUMBER", "LAST"], rows: [["xyz", "1", "some words"], ["x", "1000000", "-"]], right: [1])
            #expect(table.lines == ["A     NUMBER  LAST", "xyz        1  some words", "x    1000000  -"])
        }

        /// Names of tracks and reasons of servers could give a terminal commands: its title, colors, or what to type.
        @Test func noControlCharacterIsShown() {
            let hostile = "a\u{1B}]0;title\u{7}\u{9B}31mred\u{7F}\r\u{0}z"
            let lines = Mutex<[String]>([])
            let screen = PlaybackScreen(isJSON: false) { line in lines.withLock { $0.append(line) } }
            screen.show(.rights, RightsStatus(kind: .none, reason: hostile))
            screen.show(AgentEvent.invalidContent(url: "https://a.example/", reason: hostile))
            let shown = lines.withLock { $0 }
            #expect(shown.count == 2 && shown.allSatisfy { $0.hasSuffix("z\n") })
            let texts = [
                Terminal(isInteractive: true, hasColor: true, width: 80).fit(hostile), ToolError(hostile).description,
                errorLine(hostile),
            ]
            for text in texts + shown + TextTable(titles: ["A"], rows: [[hostile]]).lines {
                let controls = text.unicodeScalars.filter { $0 != "\n" && $0.properties.generalCategory == .control }
                #expect(controls.isEmpty, "\(text.debugDescription)")
            }
        }

        /// What stands behind the end of a line in a name could look like a row of a table.
        @Test func aNameIsInOneLine() {
            let terminal = Terminal(isInteractive: true, hasColor: true, width: 80)
            let name = "main\r\nvideo\nsound"
            let shown = "main\u{FFFD}\u{FFFD}video\u{FFFD}sound"
            #expect(TextTable(titles: ["NAME"], rows: [[name]]).lines == ["NAME", shown])
            #expect(terminal.fit(name) == shown)
            #expect(terminal.wrap(name) == ["  " + shown])
        }

        /// In JSON, they are escapes: programs get what media and servers say.
        @Test func noControlCharacterIsInJSON() throws {
            let hostile = "a\u{1B}]0;title\u{7}\u{9B}31mred\u{7F}\u{80}\u{9F}\r\u{0}\u{A0}é"
            let lines = Mutex<[String]>([])
            let screen = PlaybackScreen(isJSON: true) { line in lines.withLock { $0.append(line) } }
            screen.show(AgentEvent.invalidContent(url: "https://a.example/", reason: hostile))
            let shown = lines.withLock { $0 }
            let text = try JSONText.of(["reason": hostile])
            #expect(shown.count == 1)
            for json in shown + [text] {
                let controls = json.unicodeScalars.filter { $0 != "\n" && $0.properties.generalCategory == .control }
                #expect(controls.isEmpty, "\(json.debugDescription)")
            }
            #expect(try JSONDecoder().decode([String: String].self, from: Data(text.utf8)) == ["reason": hostile])
        }

        @Test func whatIsTooWideIsCutOnATerminalAlone() {
            let line = String(repeating: "x", count: 100)
            #expect(Terminal(isInteractive: true, hasColor: false, width: 80).fit(line).count == 80)
            #expect(Terminal(isInteractive: true, hasColor: false, width: 160).fit(line) == line)
            #expect(Terminal(isInteractive: false, hasColor: false, width: 80).fit(line) == line)
        }

        @Test func advicesAreBrokenBetweenWords() {
            let text = "KID 00010203: no source is asked; configure a license service or a keys file"
            for width in [20, 40, 80, 200] {
                let lines = Terminal(isInteractive: true, hasColor: false, width: width).wrap(text)
                #expect(lines.allSatisfy { $0.count <= width && $0.hasPrefix("  ") && $0.last != " " }, "\(lines)")
                #expect(lines.flatMap { $0.split(separator: " ") } == text.split(separator: " "))
                #expect((lines.count == 1) == (width >= 80))
            }
            #expect(Terminal(isInteractive: false, hasColor: false, width: 20).wrap(text) == ["  \(text)"])
            let narrow = Terminal(isInteractive: true, hasColor: false, width: 20)
            #expect(narrow.wrap("skd://a.example/\(text)")[0].hasSuffix("…"))
        }

        @Test func parsesAsTheHelpSays() throws {
            let inspect = try #require(
                try LatchkeyCommand.parseAsRoot(["inspect", "--json", "--type", "hls", "https://x/y"])
                    as? InspectCommand)
            #expect(inspect.json && inspect.place.contentType == .hls && inspect.place.absoluteURL == "https://x/y")
            let file = try #require(try LatchkeyCommand.parseAsRoot(["inspect", "/a b/c.mp4"]) as? InspectCommand)
            #expect(file.place.absoluteURL == "file:///a%20b/c.mp4")
            for wrong in [
                ["inspect"], ["inspect", "https://x/y"], ["inspect", "--type", "avi", "x"],
                ["play", "--hdmi-mode", "x", "a.mp4"],
            ] {
                #expect(throws: (any Error).self, "\(wrong)") { try LatchkeyCommand.parseAsRoot(wrong) }
            }
        }
    }
#endif
