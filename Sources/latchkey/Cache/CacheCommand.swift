// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Dispatch
    import FoundationEssentials
    import Glibc
    import Latchkey
    import LatchkeyContainers
    import LatchkeyKeySystems
    import LatchkeyManifests
    import LatchkeyOffline
    import LatchkeyProtection
    import Synchronization

    /// `latchkey cache`: content that is on disk, for playback without the network.
    struct CacheCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "cache",
            abstract: "Download content, list what is on disk, or remove it.",
            discussion: """
                What is downloaded is as encrypted on disk as it was at its server. Playing it takes a license that is \
                stored: latchkey cache add --license and latchkey acquire get it. latchkey play plays from the disk what is there.
                """,
            subcommands: [CacheListCommand.self, CacheAddCommand.self, CachePurgeCommand.self])
    }

    /// Where the cache is.
    struct CachePlace: ParsableArguments {
        @Option(
            help: ArgumentHelp("The folder of the cache. Left out: the user's own.", valueName: "folder"))
        var cache: String?

        /// Nil: the user's own, which `CachedContent` finds.
        func content() -> ContentCache? { cache.map { ContentCache(.init(folder: $0)) } }
    }

    struct CacheListCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the content on disk, and how much of it there is.",
            discussion: """
                CACHED is what plays from the start without the network, of the whole. JSON has one object for each, with \
                url, type, status, cachedSeconds, cachedBytes, isReadyToPlay and, where there are any, totalSeconds, \
                error and warning.
                """)

        @OptionGroup var place: CachePlace

        @Flag(help: "Write JSON, for programs.")
        var json = false

        func run() async throws {
            let items: [CachedContent]
            let unlisted: [(folder: String, error: CacheError)]
            do throws(CacheError) {
                let cache = place.content() ?? ContentCache.standard
                items = try await CachedContent.allItems(in: cache)
                unlisted = try await cache?.unlistedFolders() ?? []
            } catch {
                throw ToolError(error.description)
            }
            for (folder, error) in unlisted { warn("\(folder) is left out: \(error)") }
            var states: [CacheState] = []
            for item in items.sorted(by: { $0.contentURL < $1.contentURL }) {
                states.append(CacheState(item, await item.refresh()))
            }
            guard !json else { return print(try JSONText.of(states)) }
            guard !states.isEmpty else {
                if unlisted.isEmpty { print("nothing is cached") }
                return
            }
            for line in Self.lines(states) { print(line) }
        }

        /// The table, and under it what is wrong with items.
        static func lines(_ states: [CacheState]) -> [String] {
            let table = TextTable(
                titles: ["STATUS", "TYPE", "CACHED", "OF", "SIZE", "URL"], rows: states.map(\.cells), right: [2, 3, 4])
            let notes = states.flatMap { state in
                [("error", state.error), ("warning", state.warning)].compactMap { kind, text in
                    text.map { "\(kind): \(state.url): \($0)".inOneLine }
                }
            }
            return table.lines + notes
        }
    }

    /// One item as it is shown.
    struct CacheState: Encodable {
        let url: String
        let type: String
        let status: String
        let cachedSeconds: Double
        let totalSeconds: Double?
        let cachedBytes: UInt64
        let isReadyToPlay: Bool
        let error: String?
        let warning: String?

        init(_ content: CachedContent, _ progress: CachedItem.Progress) {
            url = content.contentURL
            type = content.type.rawValue
            cachedSeconds = Self.seconds(progress.cachedDuration)
            totalSeconds = progress.totalDuration.map(Self.seconds)
            cachedBytes = progress.cachedSize
            isReadyToPlay = progress.isReadyToPlay
            warning = progress.warning?.description
            switch progress.status {
            case .notCached: (status, error) = ("not cached", nil)
            case .waiting: (status, error) = ("waiting", nil)
            case .caching: (status, error) = ("caching", nil)
            case .paused: (status, error) = ("partial", nil)
            case .complete: (status, error) = ("complete", nil)
            case .failed(let reason): (status, error) = ("failed", reason.description)
            }
        }

        var cells: [String] {
            [
                status, type, ContentReport.time(cachedSeconds), totalSeconds.map(ContentReport.time) ?? "-",
                Self.size(cachedBytes), url,
            ]
        }

        static func seconds(_ duration: Duration) -> Double {
            Double(duration.components.seconds) + (Double(duration.components.attoseconds) / 1e17).rounded() / 10
        }

        /// `900 kB`, `12.3 MB`, `4.5 GB`
        static func size(_ bytes: UInt64) -> String {
            guard bytes >= 1_000_000 else { return "\(bytes / 1000) kB" }
            let (unit, name): (UInt64, String) = bytes >= 1_000_000_000 ? (100_000_000, "GB") : (100_000, "MB")
            return "\(bytes / unit / 10).\(bytes / unit % 10) \(name)"
        }
    }

    struct CachePurgeCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "purge",
            abstract: "Remove content from the disk. Licenses stay.",
            discussion: """
                Says what is there, and asks.

                EXIT STATUS
                  0   it is gone, or was not there
                  1   some of it is there still: the answer was no, no one could be asked, or
                      it failed; standard error says why
                """)

        @OptionGroup var place: CachePlace

        @Flag(help: "Everything that is cached.")
        var all = false

        @Flag(name: .shortAndLong, help: "Do not ask.")
        var yes = false

        @Argument(help: ArgumentHelp("As latchkey cache list shows it.", valueName: "url"))
        var urls: [String] = []

        func validate() throws {
            guard all != !urls.isEmpty else { throw ValidationError("give URLs, or --all") }
        }

        func run() async throws {
            let (items, unlisted) = try await chosen()
            if all, items.isEmpty, unlisted.isEmpty { print("nothing is cached") }
            try await confirm(items)
            var isComplete = unlisted.isEmpty
            for (folder, error) in unlisted {
                StandardStream.error.write(errorLine("\(folder) stays; remove it by hand: \(error)"))
            }
            for item in items {
                do throws(CacheError) {
                    try await item.purgeAndWait()
                    print("removed: \(item.contentURL)".inOneLine)
                } catch {
                    isComplete = false
                    StandardStream.error.write(errorLine("\(item.contentURL): \(error)"))
                }
            }
            if !isComplete { throw ExitCode.failure }
        }

        /// What is to go, and, of everything, what cannot be named.
        private func chosen() async throws -> ([CachedContent], unlisted: [(folder: String, error: CacheError)]) {
            do throws(CacheError) {
                let cache = place.content() ?? ContentCache.standard
                let items = try await CachedContent.allItems(in: cache)
                if all { return (items, try await cache?.unlistedFolders() ?? []) }
                var chosen = items.filter { urls.contains($0.contentURL) }
                for url in urls where !items.contains(where: { $0.contentURL == url }) {
                    guard cache?.isCached(url) == true else {
                        print("not cached: \(url)")
                        continue
                    }
                    // Its index cannot be read, so that it is not in the list.
                    chosen.append(try CachedContent(url: url, type: ContentType(url: url) ?? .mp4, cache: cache))
                }
                return (chosen, [])
            } catch {
                throw ToolError(error.description)
            }
        }

        private func confirm(_ items: [CachedContent]) async throws {
            guard !yes, !items.isEmpty else { return }
            var size: UInt64 = 0
            for item in items {
                let state = CacheState(item, await item.refresh())
                size += state.cachedBytes
                print("\(state.url): \(state.status), \(CacheState.size(state.cachedBytes))".inOneLine)
            }
            let count = items.count == 1 ? "this" : "these \(items.count)"
            guard try LicensesResetCommand.agrees("Remove \(count) from the disk, \(CacheState.size(size))?") else {
                throw ToolError("nothing was removed")
            }
        }
    }

    struct CacheAddCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Download content, or go on with a download.",
            discussion: """
                On a terminal a line shows how far it is, the rate and the time left. Ctrl-C stops it; the same command \
                goes on from there.

                EXIT STATUS
                  0    all of it is on disk
                  1    it ended before that; standard error says why, and what is cached stays
                  3    all of it is on disk, but it does not play without the network:
                       standard error says what is missing
                  4    what came is no media, or none that can be cached
                  130  stopped by Ctrl-C
                """)

        @OptionGroup var place: CachePlace
        @OptionGroup var content: ContentPlace

        @Option(
            help: ArgumentHelp(
                "The best variant up to this, in bits a second, of a new download.", valueName: "rate"))
        var maximumBitRate: UInt64?

        @Option(
            help: ArgumentHelp(
                "An audio track, by name or language, of a new download. May be given again. Left out: the one that plays by "
                    + "default.", valueName: "name"))
        var audio: [String] = []

        @Flag(help: "Acquire the PlayReady-style licenses too, where none is stored that may be used.")
        var license = false

        func run() async throws {
            let item: CachedContent
            do throws(CacheError) {
                item = try CachedContent(
                    url: content.absoluteURL, type: content.contentType,
                    selection: TrackSelection(maximumBitRate: maximumBitRate, audioTracks: audio),
                    cache: place.content())
            } catch {
                throw Self.end(with: error)
            }
            try await requireAudio()
            let line = DownloadLine()
            let updates = item.updates
            signal(SIGINT, SIG_IGN)
            let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
            interrupt.setEventHandler {
                line.finish()
                // What is in the index is on disk: there is nothing to wait for.
                Glibc.exit(130)
            }
            interrupt.resume()
            defer { interrupt.cancel() }
            // It holds its cache.
            defer { withExtendedLifetime(item) {} }
            item.start(acquiresLicense: license)
            var isUnderWay = false
            for await progress in updates {
                line.show(progress)
                switch progress.status {
                case .caching, .waiting: isUnderWay = true
                case .complete:
                    line.finish()
                    if let warning = progress.warning { print("warning: \(warning)".inOneLine) }
                    print("complete: \(CacheState.size(progress.cachedSize))")
                    var missing: String?
                    if progress.isReadyToPlay {
                        missing = await missingRights()
                    } else {
                        missing = progress.warning?.description ?? "it does not play without the network"
                    }
                    guard let missing else { return }
                    StandardStream.error.write(errorLine("not ready to play: \(missing)"))
                    throw ExitCode(3)
                case .failed(let error):
                    line.finish()
                    throw Self.end(with: error)
                case .paused where isUnderWay, .notCached where isUnderWay:
                    line.finish()
                    throw ToolError("the download was stopped")
                case .paused, .notCached: break
                }
            }
        }

        /// With the exit status of its kind.
        private static func end(with error: CacheError) -> any Error {
            guard [.invalidContent, .unsupportedContent].contains(error.code) else {
                return ToolError(error.description)
            }
            StandardStream.error.write(errorLine("\(error)"))
            return ExitCode(4)
        }

        /// Why no license or key on this device lets the content play; nil: one does, it needs none, or the media alone names
        /// its keys. The download itself says this of keys that FairPlay-style key servers give.
        private func missingRights() async -> String? {
            var configuration = Agent.Configuration()
            configuration.outageTimeout = .zero
            configuration.cache = place.content() ?? configuration.cache
            let info: ContentInfo
            do throws(AgentError) { info = try await content.agent(configuration).contentInfo() } catch {
                return Self.obstacle(error)
            }
            guard info.keyNeeds.contains(where: { $0.keySystem != .fairPlay && !$0.keyIDs.isEmpty }),
                ![.valid, .future].contains(info.rights.kind)
            else { return nil }
            return "\(info.rights.reason); latchkey cache add --license or latchkey acquire gets one that may be stored"
        }

        /// What keeps the content from playing too; nil: it is about what is not on disk, and says nothing of that.
        static func obstacle(_ error: AgentError) -> String? {
            error.code == .configuration ? error.description : nil
        }

        /// Throws `ToolError` if the content does not have an audio track that is to be downloaded. What is cached has its own
        /// choice.
        private func requireAudio() async throws {
            let cache = place.content() ?? ContentCache.standard
            guard !audio.isEmpty, cache?.isCached(content.absoluteURL) != true else { return }
            let info: ContentInfo
            do throws(AgentError) { info = try await content.agent().contentInfo() } catch {
                throw ToolError(error.description)
            }
            let said = info.tracks.filter { $0.kind == .audio }.flatMap { [$0.name, $0.language].compactMap(\.self) }
            let names = AudioNames(info.audioTrackNames + said)
            for name in audio { try names.require(name) }
        }
    }

    /// How far a download is, in one line that is written over. Thread-safe.
    final class DownloadLine: Sendable {
        private struct State {
            var estimate = DownloadEstimate()
            var isShown = false
        }

        private let terminal = Terminal()
        private let state = Mutex(State())

        func show(_ progress: CachedItem.Progress) {
            guard terminal.isInteractive else { return }
            let now = ProcessInfo.processInfo.systemUptime
            let total = progress.totalDuration.map(CacheState.seconds)
            state.withLock { state in
                state.estimate.note(
                    seconds: CacheState.seconds(progress.cachedDuration), bytes: progress.cachedSize, at: now)
                let text = state.estimate.text(of: total, width: terminal.width)
                StandardStream.output.write("\r\u{1B}[K" + terminal.fit(text))
                state.isShown = true
            }
        }

        func finish() {
            state.withLock { state in
                if state.isShown { StandardStream.output.write("\n") }
                state.isShown = false
            }
        }
    }

    /// The rate of a download over its last seconds, and what follows from it.
    struct DownloadEstimate {
        private struct Point {
            var time: Double
            var seconds: Double
            var bytes: UInt64
        }

        private static let window = 10.0
        private var points: [Point] = []

        /// `seconds` of the content and `bytes` are on disk at that time, in seconds.
        mutating func note(seconds: Double, bytes: UInt64, at time: Double) {
            points.append(Point(time: time, seconds: seconds, bytes: bytes))
            while points.count > 2, points[0].time < time - Self.window { points.removeFirst() }
        }

        /// In bytes a second.
        var rate: Double? {
            guard let first = points.first, let last = points.last, last.time > first.time, last.bytes >= first.bytes
            else { return nil }
            return Double(last.bytes - first.bytes) / (last.time - first.time)
        }

        /// In seconds.
        func timeLeft(of total: Double) -> Double? {
            guard let first = points.first, let last = points.last, last.time > first.time, last.seconds > first.seconds
            else { return nil }
            return (total - last.seconds) / ((last.seconds - first.seconds) / (last.time - first.time))
        }

        /// `[#####     ]  45 %  0:20 / 1:30  2.3 MB/s  0:12 left`
        func text(of total: Double?, width: Int) -> String {
            guard let last = points.last else { return "" }
            var parts: [String] = []
            if let total, total > 0 {
                parts.append("\(Int(min(last.seconds / total, 1) * 100)) %")
                parts.append(
                    "\(ContentReport.time(last.seconds.rounded(.down))) / \(ContentReport.time(total.rounded()))")
            } else {
                parts.append(CacheState.size(last.bytes))
            }
            if let rate { parts.append("\(CacheState.size(UInt64(rate)))/s") }
            if let total, let left = timeLeft(of: total) {
                parts.append("\(ContentReport.time(left.rounded(.up))) left")
            }
            let words = parts.joined(separator: "  ")
            let room = min(width - words.count - 5, 40)
            guard let total, total > 0, room >= 10 else { return words }
            let filled = Int(Double(room) * min(last.seconds / total, 1))
            return "[" + String(repeating: "#", count: filled) + String(repeating: " ", count: room - filled) + "]  "
                + words
        }
    }
#endif
