// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import LatchkeyOffline
    import Latchkey

    /// `latchkey cache`: content that is on disk, for playback without the network.
    struct CacheCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "cache",
            abstract: "Download content, list what is on disk, or remove it.",
            discussion: """
                What is downloaded is as encrypted on disk as it was at its server. Playing it takes a licence that is \
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
            do throws(CacheError) {
                items = try await CachedContent.allItems(in: place.content())
            } catch {
                throw ToolError(error.description)
            }
            var states: [CacheState] = []
            for item in items.sorted(by: { $0.contentURL < $1.contentURL }) {
                states.append(CacheState(item, await item.refresh()))
            }
            guard !json else { return print(try JSONText.of(states)) }
            guard !states.isEmpty else { return print("nothing is cached") }
            let table = TextTable(
                titles: ["STATUS", "TYPE", "CACHED", "OF", "SIZE", "URL"], rows: states.map(\.cells), right: [2, 3, 4])
            for line in table.lines { print(line) }
            for state in states { if let warning = state.warning { print("warning: \(state.url): \(warning)") } }
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
                  1   some of it is there still: the answer was no, no one could be asked, or it failed; standard error \
                says why
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
            let items = try await chosen()
            try await confirm(items)
            for item in items {
                do throws(CacheError) { try await item.purgeAndWait() } catch { throw ToolError(error.description) }
                print("removed: \(item.contentURL)")
            }
        }

        private func chosen() async throws -> [CachedContent] {
            do throws(CacheError) {
                let items = try await CachedContent.allItems(in: place.content())
                let cache = place.content() ?? ContentCache.standard
                var chosen = items.filter { all || urls.contains($0.contentURL) }
                for url in urls where !items.contains(where: { $0.contentURL == url }) {
                    guard cache?.isCached(url) == true else {
                        print("not cached: \(url)")
                        continue
                    }
                    // Its index cannot be read, so that it is not in the list.
                    chosen.append(try CachedContent(url: url, type: ContentType(url: url) ?? .mp4, cache: cache))
                }
                return chosen
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
                print("\(state.url): \(state.status), \(CacheState.size(state.cachedBytes))")
            }
            let count = items.count == 1 ? "this" : "these \(items.count)"
            guard try LicensesResetCommand.agrees("Remove \(count) from the disk, \(CacheState.size(size))?") else {
                throw ToolError("nothing was removed")
            }
        }
    }
#endif
