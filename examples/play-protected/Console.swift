// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import Dispatch
import Glibc
import Latchkey

/// Takes commands from standard input while downloads and a playback go on.
struct Console {
    static let help = """
        list                  show the downloads
        start URL [TYPE]      download, or go on with it; resume URL does the same
        pause URL             stop the download; what is cached stays
        purge URL             take the content out of the cache
        play URL [TYPE]       play from the cache, as far as it is there, and from the network
        pause, resume, stop   the playback
        background, foreground, picture-in-picture
                              as if the application went there
        quit
        """

    private let options: Options
    private let view: CacheView

    init(_ options: Options) {
        var options = options
        view = CacheView(options)
        // What downloads and what plays share one cache.
        options.agent.cache = view.cache
        self.options = options
    }

    /// Until `quit` or the end of the input.
    func run() async {
        var downloads: [String: CachedContent] = [:]
        // What shows the progress of each: one, however often it is started.
        var followers: [String: Task<Void, Never>] = [:]
        var playback: Task<Void, Never>?
        let remote = Remote()
        func download(of content: Options.Content) throws(CacheError) -> CachedContent {
            if let known = downloads[content.url] { return known }
            return try view.cachedContent(content)
        }
        print(Self.help)
        for await line in Self.lines() {
            let words = line.split(separator: " ").map(String.init)
            do throws(CacheError) {
                switch (words.first, words.count > 1) {
                case ("quit", _):
                    playback?.cancel()
                    await playback?.value
                    return
                case ("list", _): for content in try await view.contents() { view.show(content) }
                case ("start", true), ("resume", true):
                    guard let content = content(words) else { continue }
                    let download = try download(of: content)
                    downloads[content.url] = download
                    followers[content.url]?.cancel()
                    await followers[content.url]?.value
                    followers[content.url] = Task { await view.follow(download) }
                case ("pause", true):
                    guard let content = content(words) else { continue }
                    try download(of: content).pause()
                case ("purge", true):
                    guard let content = content(words) else { continue }
                    try await view.purge(try download(of: content))
                    downloads[content.url] = nil
                case ("play", true):
                    guard let content = content(words) else { continue }
                    playback?.cancel()
                    await playback?.value
                    let options = options
                    playback = Task {
                        print("playback: \(await Playback(content, options, remote).run())")
                    }
                case ("pause", false): remote.pause()
                case ("resume", false): remote.play()
                case ("background", false): remote.agent?.background()
                case ("foreground", false): remote.agent?.foreground()
                case ("picture-in-picture", false): remote.agent?.pictureInPicture()
                case ("stop", false): playback?.cancel()
                default: print(Self.help)
                }
            } catch {
                print("error: \(error)")
            }
        }
        playback?.cancel()
        await playback?.value
    }

    private func content(_ words: [String]) -> Options.Content? {
        let type = words.count > 2 ? ContentType(rawValue: words[2]) : ContentType(url: words[1])
        guard let type else {
            print("what type of content is \(words[1])?")
            return nil
        }
        return Options.Content(url: words[1], type: type)
    }

    /// Reads on a thread of its own: reading waits. Not by `readLine`, which would lock what `print` flushes.
    private static func lines() -> AsyncStream<String> {
        let (lines, line) = AsyncStream.makeStream(of: String.self)
        DispatchQueue(label: "input").async {
            var rest: [UInt8] = []
            var bytes = [UInt8](repeating: 0, count: 4096)
            while case let count = read(STDIN_FILENO, &bytes, bytes.count), count > 0 {
                rest += bytes.prefix(count)
                while let end = rest.firstIndex(of: 0x0A) {
                    line.yield(String(decoding: rest[..<end], as: UTF8.self))
                    rest.removeFirst(end + 1)
                }
            }
            line.finish()
        }
        return lines
    }
}
