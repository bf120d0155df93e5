// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import LatchkeyOffline
    import Dispatch
    import FoundationEssentials
    import Glibc
    import Latchkey
    import LatchkeyContainers
    import LatchkeyManifests
    import LatchkeyKeySystems
    import Synchronization

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
                  3    all of it is on disk, but it does not play without the network: standard error says what is \
                missing
                  130  stopped by Ctrl-C
                """)

        @OptionGroup var place: CachePlace
        @OptionGroup var content: ContentPlace

        @Option(help: ArgumentHelp("The best variant up to this, in bits a second.", valueName: "rate"))
        var maximumBitRate: UInt64?

        @Option(
            help: ArgumentHelp(
                "An audio track, by name or language. May be given again. Left out: the one that plays by default.",
                valueName: "name"))
        var audio: [String] = []

        @Flag(help: "Acquire the PlayReady-style licences too, where none is stored that may be used.")
        var license = false

        func run() async throws {
            let item: CachedContent
            do throws(CacheError) {
                item = try CachedContent(
                    url: content.absoluteURL, type: content.contentType,
                    selection: TrackSelection(maximumBitRate: maximumBitRate, audioTracks: audio),
                    cache: place.content())
            } catch {
                throw ToolError(error.description)
            }
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
            item.start(acquiresLicense: license)
            var isUnderWay = false
            for await progress in updates {
                line.show(progress)
                switch progress.status {
                case .caching, .waiting: isUnderWay = true
                case .complete:
                    line.finish()
                    if let warning = progress.warning { print("warning: \(warning)") }
                    print("complete: \(CacheState.size(progress.cachedSize))")
                    guard progress.isReadyToPlay else {
                        let reason = progress.warning?.description ?? "it does not play without the network"
                        StandardStream.error.write("Error: not ready to play: \(reason)\n")
                        throw ExitCode(3)
                    }
                    return
                case .failed(let error):
                    line.finish()
                    throw ToolError(error.description)
                case .paused where isUnderWay, .notCached where isUnderWay:
                    line.finish()
                    throw ToolError("the download was stopped")
                case .paused, .notCached: break
                }
            }
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
