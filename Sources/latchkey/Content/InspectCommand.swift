// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import FoundationEssentials
    import Latchkey
    import LatchkeyKeySystems
    import LatchkeyProtection

    struct InspectCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "inspect",
            abstract: "Show the tracks and keys of some content, the rights on this device, and what playing would do.",
            discussion: """
                Reads playlists, manifests and the heads of files, as players do. No key is asked for, no session is \
                begun, and no right begins to run. What keys are configured comes from latchkey.conf and the environment.

                Tracks are in the order of the content; below each are the times of its keys. Audio names are for --audio of \
                latchkey play. JSON has type, url, isProtected, keySystems, keyIds, licenseUrls, rights (status, reason, \
                expiresAfterFirstUse, begins, ends), audioTrackNames, tracks (kind, name, language, codecs, bitRate, width, \
                height, keyPeriods) and keyNeeds (keySystem, keyIds, keyUri, source); what is not known is left out. Times of \
                key periods are seconds.

                EXAMPLE
                  latchkey inspect https://media.example/movie/master.m3u8
                  latchkey inspect --json movie.mp4

                EXIT STATUS
                  0   it was looked at, whatever the rights
                  1   it cannot be read, or is not what its type says
                """)

        @OptionGroup var place: ContentPlace

        @Flag(help: "Write JSON, for programs.")
        var json = false

        func run() async throws {
            let agent = place.agent()
            let report: ContentReport
            do throws(AgentError) {
                report = ContentReport(try await agent.contentInfo(), type: place.contentType, url: place.url)
            } catch {
                throw ToolError(error.description)
            }
            print(json ? try JSONText.of(report.document) : report.text(Terminal()))
        }
    }

    /// What is known of some content, for people and for programs.
    struct ContentReport {
        private let info: ContentInfo
        private let type: ContentType
        private let url: String

        /// `url` is shown without a user name and a query, if it is one.
        init(_ info: ContentInfo, type: ContentType, url: String) {
            self.info = info
            self.type = type
            self.url = URIReference(url).isHTTP ? URIReference.printable(url) : url
        }

        // MARK: For people

        func text(_ terminal: Terminal) -> String {
            var lines = [terminal.bold(terminal.fit(url))]
            lines +=
                TextTable(
                    titles: ["Type:", type.rawValue],
                    rows: [
                        ["Protected:", info.isProtected ? "yes" : "no"],
                        ["Key systems:", list(info.keySystems.map(\.rawValue))], ["Rights:", "\(info.rights)"],
                    ] + dates + [["Audio names:", list(info.audioTrackNames)]]
                ).lines
            if !info.tracks.isEmpty { lines += [""] + tracks(terminal) }
            lines += ["", terminal.bold("On play")] + onPlay.flatMap { terminal.wrap($0) }
            return lines.joined(separator: "\n")
        }

        private var dates: [[String]] {
            var rows: [[String]] = []
            if let begins = info.rightsBegin { rows.append(["Rights begin:", "\(begins)"]) }
            if let ends = info.rightsEnd { rows.append(["Rights end:", "\(ends)"]) }
            return rows
        }

        private func list(_ names: [String]) -> String { names.isEmpty ? "-" : names.joined(separator: ", ") }

        private func tracks(_ terminal: Terminal) -> [String] {
            let table = TextTable(
                titles: ["TRACK", "NAME", "LANGUAGE", "CODECS", "BIT RATE", "SIZE"],
                rows: info.tracks.map { track in
                    [
                        track.kind.rawValue, track.name ?? "-", track.language ?? "-", track.codecs ?? "-",
                        track.bitRate.map(Self.rate) ?? "-",
                        track.width.flatMap { width in track.height.map { "\(width)x\($0)" } } ?? "-",
                    ]
                }, right: [4]
            ).lines
            var lines = [terminal.bold(terminal.fit(table[0]))]
            for (track, line) in zip(info.tracks, table.dropFirst()) {
                lines.append(terminal.fit(line))
                lines += track.keyPeriods.map { terminal.fit("  " + Self.text($0)) }
            }
            return lines
        }

        private static func text(_ period: KeyPeriod) -> String {
            let times = "\(period.start.map(time) ?? "…") – \(period.end.map(time) ?? "…")"
            guard let method = period.method else { return "\(times)  clear" }
            let keys = period.keyIDs.map { "KID \($0)" }
            return ([times, method] + [period.keyFormat, period.keyURI].compactMap(\.self) + keys)
                .joined(separator: "  ")
        }

        /// `1:02:03.5`, `0:10`
        static func time(_ seconds: Double) -> String {
            guard seconds.isFinite, seconds >= 0, seconds < 1e9 else { return "…" }
            let tenths = Int((seconds * 10).rounded())
            let (whole, rest) = (tenths / 10, tenths % 10)
            func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
            let clock =
                whole < 3600
                ? "\(whole / 60):\(two(whole % 60))" : "\(whole / 3600):\(two(whole / 60 % 60)):\(two(whole % 60))"
            return rest == 0 ? clock : "\(clock).\(rest)"
        }

        /// `128 kb/s`, `2.5 Mb/s`
        static func rate(_ bits: UInt64) -> String {
            guard bits >= 1_000_000 else { return "\(bits / 1000) kb/s" }
            let tenths = bits / 100_000
            return "\(tenths / 10).\(tenths % 10) Mb/s"
        }

        private var onPlay: [String] {
            guard info.isProtected else { return ["It plays: nothing is encrypted."] }
            guard !info.keyNeeds.isEmpty else { return ["It plays: its keys come without a license."] }
            var lines = info.keyNeeds.map { need in
                let name = need.keyURI ?? list(need.keyIDs.map { "KID \($0)" })
                return "\(name): "
                    + (need.source.map { "from \($0)" }
                        ?? "no source is asked, and playback waits in vain: configure a license service or a keys file")
            }
            if info.rightsStatus != .valid, info.keyNeeds.contains(where: { $0.source != nil }) {
                lines.append(
                    "A license is acquired first: latchkey acquire, or an answer to the question of latchkey play.")
            }
            return lines
        }

        // MARK: For programs

        var document: ContentDocument { ContentDocument(info, type: type, url: url) }
    }

    /// What `latchkey inspect --json` writes. The names of the members are the format.
    struct ContentDocument: Encodable {
        let type: String
        let url: String
        let isProtected: Bool
        let keySystems: [String]
        let keyIds: [String]
        let licenseUrls: [String]
        let rights: Rights
        let audioTrackNames: [String]
        let tracks: [Track]
        let keyNeeds: [Need]

        struct Rights: Encodable {
            let status: String
            let reason: String
            let expiresAfterFirstUse: Bool
            let begins: String?
            let ends: String?

            init(_ rights: RightsStatus) {
                status = rights.kind.rawValue
                reason = rights.reason
                expiresAfterFirstUse = rights.rightsExpireAfterFirstUse
                begins = rights.begins.map(JSONText.time)
                ends = rights.ends.map(JSONText.time)
            }
        }

        struct Track: Encodable {
            let kind: String
            let name: String?
            let language: String?
            let codecs: String?
            let bitRate: UInt64?
            let width: UInt32?
            let height: UInt32?
            let keyPeriods: [Period]
        }

        struct Period: Encodable {
            let start: Double?
            let end: Double?
            let method: String?
            let keyFormat: String?
            let keyUri: String?
            let keyIds: [String]
        }

        struct Need: Encodable {
            let keySystem: String?
            let keyIds: [String]
            let keyUri: String?
            let source: String?
        }

        init(_ info: ContentInfo, type: ContentType, url: String) {
            self.type = type.rawValue
            self.url = url
            isProtected = info.isProtected
            keySystems = info.keySystems.map(\.rawValue)
            keyIds = info.keyIDs.map(\.description)
            licenseUrls = info.licenseURLs
            rights = Rights(info.rights)
            audioTrackNames = info.audioTrackNames
            tracks = info.tracks.map { track in
                Track(
                    kind: track.kind.rawValue, name: track.name, language: track.language, codecs: track.codecs,
                    bitRate: track.bitRate, width: track.width, height: track.height,
                    keyPeriods: track.keyPeriods.map { period in
                        Period(
                            start: period.start, end: period.end, method: period.method, keyFormat: period.keyFormat,
                            keyUri: period.keyURI, keyIds: period.keyIDs.map(\.description))
                    })
            }
            keyNeeds = info.keyNeeds.map { need in
                Need(
                    keySystem: need.keySystem?.rawValue, keyIds: need.keyIDs.map(\.description),
                    keyUri: need.keyURI, source: need.source)
            }
        }
    }

    /// What an option may name an audio track by.
    struct AudioNames {
        private let names: [String]

        /// Names that come again count once.
        init(_ names: [String]) {
            self.names = names.reduce(into: []) { known, name in if !known.contains(name) { known.append(name) } }
        }

        /// Throws `ToolError`, with the names that there are, for one that there is not.
        func require(_ name: String) throws(ToolError) {
            guard !names.contains(name) else { return }
            throw ToolError(
                names.isEmpty
                    ? "--audio \(name): the audio tracks of this content have no names"
                    : "--audio \(name): there is no such audio track; choose one of: \(names.joined(separator: ", "))")
        }
    }

    /// Which content a command is about.
    struct ContentPlace: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "What it is: \(ContentType.allCases.map(\.rawValue).joined(separator: ", ")). "
                    + "Left out: the end of the URL tells.", valueName: "type"))
        var type: String?

        @Argument(help: ArgumentHelp("A file, or an http, https or file URL.", valueName: "url"))
        var url: String

        func validate() throws {
            let types = ContentType.allCases.map(\.rawValue).joined(separator: ", ")
            if let type, ContentType(rawValue: type) == nil {
                throw ValidationError("--type \(type): \(types) are known")
            }
            guard !url.isEmpty else { throw ValidationError("the URL is empty") }
            guard type != nil || ContentType(url: url) != nil else {
                throw ValidationError("the end of “\(url)” does not tell what it is; give --type, one of \(types)")
            }
        }

        /// Of a path, the URL.
        var absoluteURL: String {
            url.contains("://") ? url : URL(fileURLWithPath: url).standardizedFileURL.absoluteString
        }

        var contentType: ContentType { type.flatMap { ContentType(rawValue: $0) } ?? ContentType(url: url) ?? .mp4 }

        /// Without a configuration, for what does not play: then nothing is waited for.
        func agent(_ configuration: Agent.Configuration? = nil) -> Agent {
            var used = configuration ?? Agent.Configuration()
            if configuration == nil { used.outageTimeout = .zero }
            return Agent(contentURL: absoluteURL, type: contentType, configuration: used)
        }
    }
#endif
