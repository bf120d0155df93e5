// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyOffline

/// What players get: from the cache, from the origin, and where there is neither.
struct PlaybackTests {
    private let url = "https://media.example/a/film.ismv"
    private let file = TestFile.file(seconds: 12)

    /// An item of which so many requests were answered.
    private func partial(_ test: TestCache, _ origin: TestOrigin, requests: Int) async -> CachedItem {
        let item = test.cache.item(url, format: .file)
        origin.failRequests(after: requests)
        await item.download()
        origin.fail(nil)
        origin.forget()
        return item
    }

    @Test func whatIsMissingIsFetchedAndKept() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = await partial(test, origin, requests: 4)
        #expect(try await item.read(url) == file)
        origin.switchOff()
        #expect(try await item.read(url) == file)
        // The download has nothing left to fetch.
        origin.switchOn()
        origin.forget()
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(origin.requests.isEmpty)
    }

    @Test func playersAndDownloadShareOneFetch() async throws {
        let origin = TestOrigin([url: file])
        origin.hold { _ in for _ in 0..<50 { await Task.yield() } }
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        item.start()
        await item.until { $0.cachedSize > 0 }
        try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<3 { group.addTask { try await item.read(url) } }
            for try await bytes in group { #expect(bytes == file) }
        }
        await item.until { $0.status == .complete }
        var asked = [Int](repeating: 0, count: file.count)
        for request in origin.requests {
            for place in try #require(request.range).clamped(to: 0...file.count - 1) { asked[place] += 1 }
        }
        #expect(asked.allSatisfy { $0 == 1 })
    }

    /// As many downloads as may run at once hold no player up, and are not ended by it.
    @Test(.timeLimit(.minutes(8))) func whatPlaysDoesNotWaitForDownloadsOfOthers() async throws {
        let (film, others) = (url, (1...2).map { "https://media.example/\($0).ismv" })
        let origin = TestOrigin(Dictionary(uniqueKeysWithValues: ([film] + others).map { ($0, file) }))
        let test = TestCache(origin, limit: others.count)
        let item = await partial(test, origin, requests: 4)
        // Until they are cancelled.
        origin.hold { request in if request.url != film { try? await Task.sleep(for: .seconds(3600)) } }
        let downloads = others.map { test.cache.item($0, format: .file) }
        for download in downloads {
            download.start()
            await download.until { $0.status == .caching }
        }
        #expect(try await item.read(film) == file)
        #expect(downloads.allSatisfy { $0.progress.status == .caching })
        for download in downloads {
            download.pause()
            await download.until { $0.status == .paused }
        }
    }

    @Test func withoutTheNetworkAFileEndsWithItsLastWholeFragment() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = await partial(test, origin, requests: 4)
        origin.switchOff()
        let bytes = try await item.read(url)
        #expect(bytes.count < file.count && !bytes.isEmpty)
        #expect(bytes == Array(file.prefix(bytes.count)))
        let cached = item.progress.cachedDuration
        let end = TestFile.file(seconds: Int(cached.components.seconds)).count
        #expect(bytes.count == end)
    }

    @Test func purgeWhilePlayingLeavesThePlayerToTheNetwork() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        let reader = CacheReader(item)
        _ = try await reader.answer(url, route: { $0 })
        origin.forget()
        #expect(try await reader.bytes(of: url, at: 0) == Array(file.prefix(1024)))
        #expect(origin.requests.isEmpty)
        try await item.purgeAndWait()
        #expect(try await reader.bytes(of: url, at: 1024) == Array(file[1024..<2048]))
        #expect(!origin.requests.isEmpty)
        #expect(!test.cache.isCached(url))
    }

    @Test func whatIsNoPartOfTheItemIsNotServed() async throws {
        let other = "https://media.example/a/secret"
        let origin = TestOrigin([url: file, other: [1, 2, 3]])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(try await CacheReader(item).answer(other, route: { $0 }) == nil)
    }

    @Test func theGatewayServesRangesOfTheItemAndNothingElse() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        let gateway = try CacheGateway(item, position: { nil }, onEvent: { _ in })
        let whole = try await fetch(gateway.url)
        #expect(whole.status == 200 && whole.body == file)
        let part = try await fetch(gateway.url, range: "5000-5999")
        #expect(part.status == 206 && part.body == Array(file[5000..<6000]))
        #expect(part.header("Content-Range") == "bytes 5000-5999/\(file.count)")
        #expect(try await fetch(gateway.url, range: "\(file.count)-").status == 416)
        #expect(try await fetch(gateway.url.replacing("film", with: "other")).status == 404)
        let stranger = gateway.url.split(separator: "/").prefix(2).joined(separator: "//") + "/0/a/film.ismv"
        #expect(try await fetch(stranger).status == 404)
    }

    /// A tag at which a stock demuxer crashes, larger than a block of the cache.
    @Test func theGatewayMakesTagsHarmless() async throws {
        let segment =
            Array("ID3".utf8) + [4, 0, 0, 0, 0, 31, 30] + Array("PRIV".utf8) + [0, 0, 31, 20, 0, 0, 0xFF, 0]
            + [UInt8](repeating: 1, count: 3986) + [UInt8](repeating: 7, count: 5000)
        let (list, media) = ("https://media.example/a/list.m3u8", "https://media.example/a/1.aac")
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n1.aac\n#EXT-X-ENDLIST\n"
        let test = TestCache(TestOrigin([list: Array(text.utf8), media: segment]))
        let item = test.cache.item(list, format: .hls)
        await item.download()
        let gateway = try CacheGateway(item, position: { nil }, onEvent: { _ in })
        #expect(try await fetch(gateway.url).status == 200)
        var harmless = segment
        harmless[10] = UInt8(ascii: "X")
        let url = gateway.url.replacing("list.m3u8", with: "1.aac")
        #expect(try await fetch(url).body == harmless)
        #expect(try await fetch(url, range: "0-2999").body == Array(harmless[..<3000]))
        #expect(try await fetch(url, range: "5-5999").body == Array(segment[5..<6000]))
    }

    @Test func theGatewayTellsOfTheEdge() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = await partial(test, origin, requests: 4)
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            item, position: { .seconds(100) }, onEvent: { event in events.withLock { $0.append(event) } })
        // The network is there at first.
        #expect(try await fetch(gateway.url, range: "0-99").status == 206)
        #expect(gateway.edge == nil)
        origin.switchOff()
        await #expect(throws: HTTPError.self) { try await fetch(gateway.url) }
        guard case .edgeReached(let edge, let error)? = events.withLock({ $0.last }) else {
            Issue.record("no event")
            return
        }
        #expect(error.code == .unreachable)
        #expect(edge.map { $0 >= item.progress.cachedDuration } == true)
        // Before it, that what is missing comes from the network.
        #expect(events.withLock { $0.count } == 2)
        guard case .usesNetwork? = events.withLock({ $0.first }) else {
            Issue.record("no word of the network")
            return
        }
    }

    @Test func theTransportAnswersFromTheCache() async throws {
        let origin = TestOrigin([url: file, "https://else.example/": [1]])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        origin.forget()
        let transport = CachedTransport(item, otherwise: origin)
        var request = HTTPRequest(url: url)
        request.headers = [HTTPHeader(name: "Range", value: "bytes=0-9")]
        #expect(try await transport.send(request).body == Array(file.prefix(10)))
        #expect(origin.requests.isEmpty)
        #expect(try await transport.send(HTTPRequest(url: "https://else.example/")).body == [1])
    }

    @Test func withoutTheNetworkTheErrorNamesTheURLOnce() async {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let transport = CachedTransport(test.cache.item(url, format: .file), otherwise: origin)
        origin.switchOff()
        do throws(HTTPError) {
            _ = try await transport.send(HTTPRequest(url: url))
            Issue.record("there is an answer without the network")
        } catch {
            #expect("\(error)".ranges(of: url).count == 1, "\(error)")
        }
    }

    /// As an HTTP library may spell what it was given.
    @Test func anotherSpellingOfAURLIsTheSameResource() async throws {
        let url = "HTTPS://Media.Example:443/a/../a/%66ilm%c3%a9 1.ismv?Token=%7e"
        let others = [
            "https://media.example/a/film%C3%A9%201.ismv?Token=~", "https://MEDIA.example/a/filmé 1.ismv?Token=~",
        ]
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        // The origin sees its own spelling.
        #expect(Set(origin.requests.map(\.url)) == [url])
        #expect(others.allSatisfy { test.cache.item($0, format: .file) === item && test.cache.isCached($0) })
        origin.switchOff()
        for other in others { #expect(try await item.read(other) == file) }
        let gateway = try CacheGateway(item, position: { nil }, onEvent: { _ in })
        let lower = gateway.url.replacing("%C3%A9", with: "%c3%a9")
        #expect(lower != gateway.url)
        for url in [gateway.url, lower] { #expect(try await fetch(url).body == file) }
    }

    @Test func originsKeepTheirPaths() throws {
        let map = OriginMap()
        let urls = ["https://a.example/x/y.mpd?q=1", "http://b.example:8080/z", "https://a.example/"]
        let paths = urls.map { map.path(of: $0) }
        #expect(paths == ["0/x/y.mpd?q=1", "1/z", "0/"])
        for url in urls {
            let path = try #require(map.path(of: url)).split(separator: "?", maxSplits: 1).map(String.init)
            #expect(map.url(path: path[0], query: path.count > 1 ? path[1] : nil) == url)
        }
        #expect(map.url(path: "7/x", query: nil) == nil)
        #expect(map.path(of: "data:text/plain,x") == nil)
    }
}
