// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyOffline

/// HLS and DASH: the tracks that are kept, and nothing else.
struct ManifestDownloadTests {
    private let base = "https://media.example/show/"

    private var hls: [String: [UInt8]] {
        let master = """
            #EXTM3U
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English",LANGUAGE="en",URI="en.m3u8",DEFAULT=YES
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Deutsch",LANGUAGE="de",URI="de.m3u8"
            #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="s",NAME="text",URI="text.m3u8"
            #EXT-X-STREAM-INF:BANDWIDTH=100000,AUDIO="a",SUBTITLES="s"
            low.m3u8
            #EXT-X-STREAM-INF:BANDWIDTH=900000,AUDIO="a",SUBTITLES="s"
            high.m3u8
            """
        var files = [base + "master.m3u8": Array(master.utf8)]
        for name in ["low", "high", "en", "de"] {
            var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://k\",KEYFORMAT="
            text += "\"com.apple.streamingkeydelivery\"\n#EXT-X-MAP:URI=\"\(name)/init.mp4\"\n"
            for number in 1...4 {
                text += "#EXTINF:2,\n\(name)/\(number).m4s\n"
                files[base + "\(name)/\(number).m4s"] = TestFile.segment(number)
            }
            files[base + "\(name)/init.mp4"] = TestFile.segment(9, size: 500)
            files[base + "\(name).m3u8"] = Array((text + "#EXT-X-ENDLIST\n").utf8)
        }
        return files
    }

    private var dash: [String: [UInt8]] {
        func set(_ kind: String, _ names: [(String, Int)], _ extra: String = "") -> String {
            "<AdaptationSet contentType=\"\(kind)\" \(extra)>"
                + names.map { name, rate in
                    """
                    <Representation id="\(name)" bandwidth="\(rate)"><SegmentTemplate timescale="10" \
                    initialization="$RepresentationID$/init.mp4" media="$RepresentationID$/$Number%03d$.m4s">\
                    <SegmentTimeline><S t="0" d="20" r="3"/></SegmentTimeline></SegmentTemplate></Representation>
                    """
                }.joined() + "</AdaptationSet>"
        }
        let manifest =
            "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" mediaPresentationDuration=\"PT8S\"><Period>"
            + set("video", [("low", 1000), ("high", 9000)]) + set("audio", [("en", 100)], "lang=\"en\"")
            + set("audio", [("de", 100)], "lang=\"de\"") + set("text", [("text", 1)]) + "</Period></MPD>"
        var files = [base + "stream.mpd": Array(manifest.utf8)]
        for name in ["low", "high", "en", "de"] {
            files[base + "\(name)/init.mp4"] = TestFile.segment(9, size: 500)
            for number in 1...4 {
                files[base + "\(name)/00\(number).m4s"] = TestFile.segment(number)
            }
        }
        return files
    }

    private func names(_ origin: TestOrigin) -> Set<String> {
        Set(origin.requests.map { String($0.url.dropFirst(base.count)) })
    }

    private func text(_ item: CachedItem, _ name: String) async throws -> String {
        guard case .document(let document)? = try await CacheReader(item).answer(base + name, route: { $0 }) else {
            return ""
        }
        return String(decoding: document.bytes, as: UTF8.self)
    }

    @Test func hlsKeepsOneVariantAndItsSound() async throws {
        let origin = TestOrigin(hls)
        let test = TestCache(origin)
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.totalDuration == .seconds(8))
        #expect(item.progress.cachedDuration == .seconds(8))
        let asked = names(origin)
        #expect(asked.contains("high/4.m4s") && asked.contains("en/init.mp4"))
        #expect(!asked.contains { $0.hasPrefix("low") || $0.hasPrefix("de") || $0.hasPrefix("text") })
        origin.switchOff()
        let master = try await text(item, "master.m3u8")
        #expect(master.contains("high.m3u8") && master.contains("en.m3u8"))
        #expect(!master.contains("low.m3u8") && !master.contains("de.m3u8") && !master.contains("SUBTITLES"))
        let playlist = try await text(item, "high.m3u8")
        #expect(playlist.contains("skd://k") && playlist.contains(base + "high/4.m4s"))
        #expect(playlist.hasSuffix("#EXT-X-ENDLIST\n"))
        #expect(try await item.read(base + "high/3.m4s") == TestFile.segment(3))
    }

    @Test func theSelectionIsKeptWithTheItem() async throws {
        let origin = TestOrigin(hls)
        let test = TestCache(origin)
        let selection = TrackSelection(maximumBitRate: 500_000, audioTracks: ["de"])
        await test.cache.item(base + "master.m3u8", format: .hls, selection: selection).download()
        let asked = names(origin)
        #expect(asked.contains("low/4.m4s") && asked.contains("de/4.m4s"))
        #expect(!asked.contains { $0.hasPrefix("high") || $0.hasPrefix("en") })
        let again = TestCache(origin, folder: test.folder)
        let found = try #require(try await again.cache.allItems().first)
        #expect(found.selection == selection && found.format == .hls && found.progress.status == .complete)
    }

    @Test func withoutTheNetworkAPlaylistEndsWhereTheCacheEnds() async throws {
        var files = hls
        files[base + "high/3.m4s"] = nil
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download(keyStoring: storing())
        #expect(item.progress.status.failure == .serverError)
        #expect(item.progress.cachedDuration == .seconds(4))
        #expect(item.progress.isReadyToPlay)
        origin.switchOff()
        for name in ["high", "en"] {
            let playlist = try await text(item, "\(name).m3u8")
            #expect(playlist.contains("\(name)/2.m4s") && !playlist.contains("\(name)/3.m4s"))
            #expect(playlist.hasSuffix("#EXT-X-ENDLIST\n"))
        }
        origin.switchOn()
        let whole = try await text(item, "high.m3u8")
        #expect(whole.contains("high/4.m4s"))
    }

    /// A player has gone to a position behind the cached part.
    @Test func whatPlayersBringCountsUpToTheFirstGap() async throws {
        let missing = base + "high/3.m4s"
        let origin = TestOrigin(hls.filter { $0.key != missing })
        let item = TestCache(origin).cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status.failure == .serverError && item.progress.cachedDuration == .seconds(4))
        let had = item.progress.cachedSize
        for name in ["high/4.m4s", "en/4.m4s"] { #expect(try await item.read(base + name).count == 3000) }
        #expect(await item.refresh().cachedDuration == .seconds(4))
        #expect(item.progress.cachedSize >= had + 6000)
        origin.change(missing, TestFile.segment(3), validator: "\"1\"")
        origin.forget()
        await item.download()
        #expect(item.progress.status == .complete && item.progress.cachedDuration == .seconds(8))
        #expect(!names(origin).contains("high/4.m4s") && names(origin).contains("high/3.m4s"))
    }

    /// What is no media is refused before it is stored, and the download goes on when the server has media.
    @Test(arguments: [
        (CachedItem.Format.hls, "master.m3u8", "high/2.m4s"), (.hls, "master.m3u8", "en/init.mp4"),
        (.dash, "stream.mpd", "high/002.m4s"), (.dash, "stream.mpd", "en/init.mp4"),
    ])
    func garbageInASegmentIsNotComplete(_ format: CachedItem.Format, _ manifest: String, _ name: String) async throws {
        let (url, media) = (base + name, format == .hls ? hls : dash)
        let origin = TestOrigin(media.merging([url: MediaStartTests.noise(1, 3000)]) { $1 })
        let item = TestCache(origin).cache.item(base + manifest, format: format)
        let seen = await item.download()
        #expect(!seen.contains { $0.status == .complete })
        guard case .failed(let error) = item.progress.status else {
            Issue.record("\(item.progress.status)")
            return
        }
        #expect(error.code == .invalidContent && error.url == url && error.reason.contains("no media"))
        // Neither by a player is it stored.
        await #expect(throws: CacheError.self) { try await item.read(url) }
        origin.change(url, TestFile.segment(3), validator: "\"1\"")
        await item.download()
        #expect(item.progress.status == .complete && item.progress.cachedDuration == .seconds(8))
        #expect(try await item.read(url) == TestFile.segment(3))
    }

    /// Behind a segment that is no media, the rest comes from the network. A log-in page in its place is as good as no network.
    @Test(arguments: [true, false])
    func whatIsNoMediaIsNoEdge(_ isGarbage: Bool) async throws {
        var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
        var files: [String: [UInt8]] = [:]
        for number in 1...4 {
            text += "#EXTINF:2,\n\(number).ts\n"
            files[base + "\(number).ts"] = TestFile.segment(number)
        }
        files[base + "a.m3u8"] = Array((text + "#EXT-X-ENDLIST\n").utf8)
        let page = Array("<html><body>log in</body></html>".utf8)
        files[base + "3.ts"] = isGarbage ? MediaStartTests.noise(1, 3000) : page
        let item = TestCache(TestOrigin(files)).cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status.failure == .invalidContent)
        #expect(await item.refresh().cachedDuration == .seconds(4))
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            item, position: { .zero }, onEvent: { event in events.withLock { $0.append(event) } })
        let playlist = String(decoding: try await fetch(gateway.url).body, as: UTF8.self)
        #expect(playlist.contains("/2.ts") && playlist.contains("/4.ts") == isGarbage)
        #expect(gateway.edge == (isGarbage ? nil : .seconds(4)))
        guard isGarbage else { return }
        #expect(try await fetch(gateway.url.replacing("a.m3u8", with: "4.ts")).body == TestFile.segment(4))
        // Demuxers give up there, and do not ask again and again.
        #expect(try await fetch(gateway.url.replacing("a.m3u8", with: "3.ts")).status == 404)
        guard case .failure(let error)? = events.withLock({ $0.last }) else {
            Issue.record("no event")
            return
        }
        #expect(error.code == .invalidContent && error.url == base + "3.ts")
    }

    /// What is encrypted as a whole looks like anything, and a part of a file begins with anything.
    @Test(arguments: [
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x01\n#EXT-X-MAP:URI=\"1.ts\"", ""),
        ("", "#EXT-X-BYTERANGE:2000@1000\n"),
        // A block of padding might be behind the end.
        ("#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV=0x01", "#EXT-X-BYTERANGE:2000@1000\n"),
    ])
    func whatMayBeAnythingIsNoGarbage(_ key: String, _ range: String) async throws {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(key)\n#EXTINF:2,\n\(range)2.ts\n#EXT-X-ENDLIST\n"
        let noise = MediaStartTests.noise(1, 3000)
        let origin = TestOrigin([
            base + "a.m3u8": Array(text.utf8), base + "k": Array(1...16), base + "1.ts": noise, base + "2.ts": noise,
        ])
        let item = TestCache(origin).cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status == .complete)
    }

    /// All of it is on disk, so nothing waits for the network.
    @Test func aDownloadOfWhatIsThereEndsIfItsTaskDoes() async throws {
        let test = TestCache(TestOrigin(hls))
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        let (use, _) = await item.operations.openForPlaying()
        let download = ItemDownload(fetcher: use.fetcher, keyStoring: nil, licenseStoring: nil, pause: { _ in })
        let cancel: @Sendable () -> Void = { withUnsafeCurrentTask { $0?.cancel() } }
        let task = Task { () async -> CacheError? in
            cancel()
            do throws(CacheError) {
                try await download.run()
                return nil
            } catch {
                return error
            }
        }
        let error = await task.value
        #expect(error?.code == .cancelled)
        withExtendedLifetime(use) {}
    }

    @Test func liveStreamsAreRefused() async throws {
        var files = hls
        for (url, bytes) in files where url.hasSuffix(".m3u8") {
            files[url] = Array(String(decoding: bytes, as: UTF8.self).replacing("#EXT-X-ENDLIST", with: "").utf8)
        }
        let test = TestCache(TestOrigin(files))
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status.failure == .unsupportedContent)
    }

    @Test func dashKeepsOneRepresentationAndItsSound() async throws {
        let origin = TestOrigin(dash)
        let test = TestCache(origin)
        let item = test.cache.item(base + "stream.mpd", format: .dash)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.cachedDuration == .seconds(8))
        let asked = names(origin)
        #expect(asked.contains("high/004.m4s") && asked.contains("en/init.mp4"))
        #expect(!asked.contains { $0.hasPrefix("low") || $0.hasPrefix("de") || $0.hasPrefix("text") })
        let manifest = try await text(item, "stream.mpd")
        #expect(manifest.contains("\"high\"") && !manifest.contains("\"low\"") && !manifest.contains("\"text\""))
        // What is served can be read again, and means the same.
        let served = try DASHOfflinePresentation(
            Array(manifest.utf8), from: base + "stream.mpd", selection: TrackSelection())
        #expect(Set(served.pieces.map(\.url)).isSubset(of: Set(origin.requests.map(\.url))))
        #expect(served.pieces.count == 10)
    }

    @Test func withoutTheNetworkAManifestEndsWhereTheCacheEnds() async throws {
        var files = dash
        files[base + "en/004.m4s"] = nil
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        let item = test.cache.item(base + "stream.mpd", format: .dash)
        await item.download()
        #expect(item.progress.cachedDuration == .seconds(6))
        origin.switchOff()
        let manifest = try await text(item, "stream.mpd")
        #expect(manifest.contains("mediaPresentationDuration=\"PT6.000S\""))
        let served = try DASHOfflinePresentation(
            Array(manifest.utf8), from: base + "stream.mpd", selection: TrackSelection())
        #expect(served.pieces.filter { $0.duration > .zero }.count == 6)
    }

    /// Its range may be any; it is not read into memory. Within the limit, what is no index ends the download.
    @Test(arguments: [(1 << 20, false), (1 << 20 + 1, true), (1 << 40, true)])
    func anIndexThatIsTooLargeIsAsGoodAsNone(_ length: Int, _ isComplete: Bool) async throws {
        let manifest = """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT8S"><Period>\
            <AdaptationSet contentType="video"><Representation id="v" bandwidth="1000"><BaseURL>film.mp4</BaseURL>\
            <SegmentBase indexRange="0-\(length - 1)"/></Representation></AdaptationSet></Period></MPD>
            """
        let film = TestFile.segment(7, size: 9000)
        let test = TestCache(TestOrigin([base + "stream.mpd": Array(manifest.utf8), base + "film.mp4": film]))
        let item = test.cache.item(base + "stream.mpd", format: .dash)
        await item.download()
        #expect((item.progress.status == .complete) == isComplete)
        guard isComplete else {
            #expect(item.progress.status.failure == .invalidContent)
            return
        }
        #expect(item.progress.cachedDuration == .seconds(8))
        #expect(try await item.read(base + "film.mp4") == film)
    }

    // MARK: Keys

    private let key: [UInt8] = Array(1...16)

    /// Stands for loaders that store keys: its own need no network.
    private final class Storing: ResourceLoader {
        let name = "storing"
        let needsNoNetwork = true
        let error: KeyError?
        let asked = Mutex<[String]>([])

        init(_ error: KeyError? = nil) { self.error = error }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
            guard request.keySystem == .fairPlay, let uri = request.keyURI else { return false }
            asked.withLock { $0.append(uri) }
            guard request.isForStorage else { return false }
            if let error {
                request.finishLoading(with: error)
            } else {
                request.finishLoading(with: .key(ContentKey(Array(1...16))!))
            }
            return true
        }
    }

    private func storing(_ loader: (any ResourceLoader)? = Storing()) -> KeyStoring {
        KeyStoring(loaders: { loader.map { [$0] } ?? [] }) { () throws(KeyError) in ControlSettings() }
    }

    @Test func keysOfAKeyServerAreStoredWithTheDownload() async throws {
        let origin = TestOrigin(hls)
        let test = TestCache(origin)
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        let loader = Storing()
        await item.download(keyStoring: storing(loader))
        #expect(item.progress.status == .complete && item.progress.isReadyToPlay && item.progress.warning == nil)
        // Two playlists name the same.
        #expect(loader.asked.withLock(\.self) == ["skd://k"])
        let again = TestCache(origin, folder: test.folder).cache.item(base + "master.m3u8", format: .hls)
        #expect(await again.refresh().isReadyToPlay)
    }

    @Test func keysOfAKeyServerThatAreNotStoredAreNamed() async throws {
        let origin = TestOrigin(hls)
        let test = TestCache(origin)
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download(keyStoring: storing(Storing(.denied("not to be stored"))))
        #expect(item.progress.status == .complete && !item.progress.isReadyToPlay)
        #expect(item.progress.warning?.code == .licenseNotKept)
        #expect(item.progress.warning?.reason.contains("skd://k is not stored") == true)
        #expect(item.progress.warning?.reason.contains("denied: not to be stored") == true)
        let again = TestCache(origin, folder: test.folder).cache.item(base + "master.m3u8", format: .hls)
        #expect(await again.refresh().warning == item.progress.warning)
        await again.download(keyStoring: storing())
        #expect(again.progress.isReadyToPlay && again.progress.warning == nil)
    }

    @Test func keysThatNobodyIsAskedForAreNamed() async throws {
        let test = TestCache(TestOrigin(hls))
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        #expect(!item.progress.isReadyToPlay && item.progress.status == .complete)
        #expect(item.progress.warning?.reason.contains("no download has asked for it") == true)
        await item.download(keyStoring: storing(nil))
        #expect(!item.progress.isReadyToPlay)
        #expect(item.progress.warning?.reason.contains("[fairplay]") == true)
    }

    /// `hls` with keys of another format beside in the playlists that `names` begin.
    private func hls(with keyFormat: String, in names: [String]) -> [String: [UInt8]] {
        var files = hls
        let other = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"data:text/plain;base64,AAAA\",KEYFORMAT=\"\(keyFormat)\"\n"
        for name in names {
            let text = String(decoding: files[base + name + ".m3u8"] ?? [], as: UTF8.self)
            files[base + name + ".m3u8"] = Array(text.replacing("#EXT-X-MAP", with: other + "#EXT-X-MAP").utf8)
        }
        return files
    }

    /// Whoever plays with another key system needs no key of the key server.
    @Test func keysOfAKeyServerAreNotMissingWherePlayReadyHasItsOwn() async throws {
        let origin = TestOrigin(hls(with: "com.microsoft.playready", in: ["high", "en"]))
        let item = TestCache(origin).cache.item(base + "master.m3u8", format: .hls)
        await item.download(keyStoring: storing(nil))
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
        // Where a loader is for it, playback would ask that.
        let refused = TestCache(origin).cache.item(base + "master.m3u8", format: .hls)
        await refused.download(keyStoring: storing(Storing(.denied("no"))))
        #expect(!refused.progress.isReadyToPlay)
        await refused.download(keyStoring: storing(nil))
        #expect(refused.progress.isReadyToPlay && refused.progress.warning == nil)
    }

    /// Key systems that nothing here is for, and one that only a part of the content has.
    @Test(arguments: [
        ("urn:uuid:edef8ba9-79d6-4ace-a3c8-27dcd51d21ed", ["high", "en"]), ("com.microsoft.playready", ["high"]),
    ])
    func keysOfAKeyServerAreMissingWhereNothingElseServes(_ keyFormat: String, _ names: [String]) async throws {
        let origin = TestOrigin(hls(with: keyFormat, in: names))
        let item = TestCache(origin).cache.item(base + "master.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status == .complete && !item.progress.isReadyToPlay)
        #expect(item.progress.warning?.code == .licenseNotKept)
        await item.download(keyStoring: storing(nil))
        #expect(!item.progress.isReadyToPlay && item.progress.warning?.reason.contains("[fairplay]") == true)
        await item.download(keyStoring: storing())
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
    }

    /// As where a playlist was another when the keys were noted.
    @Test func keysThatTheContentDoesNotNameAnyMoreAreForgotten() async throws {
        var files = encrypted(["k1"])
        files[base + "k1"] = key
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        await test.cache.item(base + "a.m3u8", format: .hls).download()
        try test.index.execute(
            """
            INSERT INTO content_key VALUES (CAST('https://gone.example/k' AS BLOB), x'');
            CREATE TABLE IF NOT EXISTS server_key (uri BLOB PRIMARY KEY, refusal BLOB NOT NULL) WITHOUT ROWID;
            INSERT INTO server_key VALUES (CAST('skd://gone' AS BLOB), CAST('denied' AS BLOB));
            """)
        let item = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        #expect(await !item.refresh().isReadyToPlay)
        await item.download()
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil && item.progress.status == .complete)
        #expect(try test.index.count("SELECT count(*) FROM content_key") == 1)
        #expect(try test.index.count("SELECT count(*) FROM server_key") == 0)
    }

    @Test func aPausedDownloadAsksForItsKeysAgain() async throws {
        let (held, hold) = AsyncStream.makeStream(of: Void.self)
        let silent = CallbackLoader(name: "silent") { _ in
            hold.yield()
            return true
        }
        let test = TestCache(TestOrigin(hls))
        let item = test.cache.item(base + "master.m3u8", format: .hls)
        item.start(keyStoring: storing(silent))
        for await _ in held { break }
        item.pause()
        await item.until { $0.status == .paused }
        #expect(!item.progress.isReadyToPlay)
        await item.download(keyStoring: storing())
        #expect(item.progress.status == .complete && item.progress.isReadyToPlay)
    }

    private func encrypted(_ keys: [String]) -> [String: [UInt8]] {
        var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
        var files: [String: [UInt8]] = [:]
        for (number, key) in keys.enumerated() {
            text += "#EXT-X-KEY:METHOD=AES-128,URI=\"\(key)\"\n#EXTINF:2,\n\(number).ts\n"
            files[base + "\(number).ts"] = [UInt8](repeating: UInt8(number), count: 3000)
        }
        files[base + "a.m3u8"] = Array((text + "#EXT-X-ENDLIST\n").utf8)
        return files
    }

    @Test func keysAtURLsAreKeptSealedAndComeFromTheCache() async throws {
        var files = encrypted(["k?id=1", "k?id=1", "https://keys.example/k2"])
        (files[base + "k?id=1"], files["https://keys.example/k2"]) = (key, key.reversed())
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status == .complete && item.progress.isReadyToPlay && item.progress.warning == nil)
        #expect(origin.requests.filter { $0.url == base + "k?id=1" }.count == 1)
        // Neither is on disk as it is.
        for file in test.files where !file.hasDirectoryPath {
            let bytes = try Data(contentsOf: file)
            #expect(try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int == 0o600)
            #expect(bytes.range(of: Data(key)) == nil && bytes.range(of: Data(key.reversed())) == nil)
        }
        origin.switchOff()
        let gateway = try CacheGateway(item, position: { nil }, onEvent: { _ in })
        let playlist = String(decoding: try await fetch(gateway.url).body, as: UTF8.self)
        let urls = playlist.split(separator: "\n").filter { $0.hasPrefix("#EXT-X-KEY") }
            .compactMap { $0.split(separator: "\"").dropFirst().first.map(String.init) }
        #expect(urls.count == 3)
        var found: [[UInt8]] = []
        for url in urls { found.append(try await fetch(url).body) }
        #expect(found == [key, key, key.reversed()])
    }

    /// As long as it plays, what a core dump would show of a key is sealed.
    @Test func keysStaySealedInMemoryUntilAPlayerAsks() async throws {
        var files = encrypted(["k1", "k2"])
        (files[base + "k1"], files[base + "k2"]) = (key, key.reversed())
        let test = TestCache(TestOrigin(files))
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        let (use, _) = await item.operations.openForPlaying()
        let kept = await use.fetcher.store.keptKeys()
        #expect(Set(kept.keys) == [base + "k1", base + "k2"])
        for sealed in kept.values {
            #expect(Data(sealed).range(of: Data(key)) == nil && Data(sealed).range(of: Data(key.reversed())) == nil)
        }
        let sealed = try #require(kept[base + "k1"])
        #expect(await use.fetcher.store.opened(sealed, from: base + "k1") == key)
        #expect(await use.fetcher.store.opened(sealed, from: base + "k2") == nil)
    }

    @Test func aLineEndBehindAKeyIsNotKept() async throws {
        var files = encrypted(["k1", "k2"])
        (files[base + "k1"], files[base + "k2"]) = (key + Array("\n".utf8), key + Array("\r\n".utf8))
        let test = TestCache(TestOrigin(files))
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
        let (use, _) = await item.operations.openForPlaying()
        let kept = await use.fetcher.store.keptKeys()
        #expect(Set(kept.keys) == [base + "k1", base + "k2"])
        for (url, sealed) in kept { #expect(await use.fetcher.store.opened(sealed, from: url) == key) }
    }

    @Test func aKeyThatCannotBeKeptIsNamedAndTheItemIsNotReady() async throws {
        var files = encrypted(["k1", "k2"])
        files[base + "k1"] = key
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        #expect(item.progress.status == .complete && !item.progress.isReadyToPlay)
        #expect(item.progress.warning?.code == .licenseNotKept)
        // It stays where it is, for those who may have it.
        let playlist = try await text(item, "a.m3u8")
        #expect(playlist.contains(base + "k2"))
        let again = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        #expect(await again.refresh().warning?.code == .licenseNotKept)
        origin.change(base + "k2", key, validator: "\"1\"")
        await again.download()
        #expect(again.progress.isReadyToPlay && again.progress.warning == nil)
    }

    /// A player has its keys from elsewhere, and they go with it.
    @Test func contentThatWasOnlyPlayedIsNotReadyWithoutItsKeys() async throws {
        var files = encrypted(["k1", "k2"])
        (files[base + "k1"], files[base + "k2"]) = (key, key.reversed())
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        // The playlist is there, and no download went on.
        origin.fail { $0.url.hasSuffix("a.m3u8") ? nil : HTTPResponse(status: 404, url: $0.url) }
        await test.cache.item(base + "a.m3u8", format: .hls).download()
        origin.fail(nil)
        try test.index.execute("DROP TABLE IF EXISTS content_key")
        try forgetThePlan(test)
        let item = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        for name in ["0.ts", "1.ts"] { _ = try await item.read(base + name) }
        #expect(await item.refresh().cachedDuration == .seconds(4))
        #expect(!item.progress.isReadyToPlay && item.progress.warning?.code == .licenseNotKept)
        try await test.untilNothingIsOpen()
        let again = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        #expect(await !again.refresh().isReadyToPlay)
        await again.download()
        #expect(again.progress.isReadyToPlay && again.progress.warning == nil && again.progress.status == .complete)
    }

    /// Nothing of it is to be ready without the network.
    @Test func contentThatWasNeverDownloadedPlaysWithoutAWarning() async throws {
        let test = TestCache(TestOrigin(encrypted(["k1"])))
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        let warnings = Mutex<[CacheError]>([])
        let reader = CacheReader(item, onWarning: { error in warnings.withLock { $0.append(error) } })
        #expect(try await reader.answer(base + "a.m3u8", route: { $0 }) != nil)
        #expect(warnings.withLock { $0 } == [])
    }

    @Test func keysOfAnotherDeviceDoNotOpen() async throws {
        var files = encrypted(["k1"])
        files[base + "k1"] = key
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        await test.cache.item(base + "a.m3u8", format: .hls).download()
        try Data([UInt8](repeating: 7, count: 32)).write(to: URL(fileURLWithPath: test.folder + "/.device-secret"))
        let item = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        #expect(await item.refresh().warning?.code == .licenseNotKept)
        #expect(!item.progress.isReadyToPlay)
        #expect(try await text(item, "a.m3u8").contains("\"\(base)k1\""))
        let warnings = Mutex<[String]>([])
        let warning = CacheReader(item, onWarning: { error in warnings.withLock { $0.append("\(error)") } })
        for _ in 0..<2 { _ = try await warning.answer(base + "a.m3u8", route: { $0 }) }
        #expect(warnings.withLock { $0 } == [item.progress.warning?.description ?? "no warning"])
        #expect(warnings.withLock { $0.first }?.hasSuffix("the next download asks for what is missing") == true)
        await item.download()
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
        let reader = CacheReader(item)
        guard case .key(let answer)? = try await reader.answer(base + "k1", route: { $0 }) else {
            Issue.record("no key")
            return
        }
        let bytes = answer.withBytes { Array($0) }
        #expect(bytes == key)
    }
}
