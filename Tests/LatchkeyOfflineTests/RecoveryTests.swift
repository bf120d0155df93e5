// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyHTTP
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyOffline

/// Indices that are damaged, of a later version, or not complete.
struct RecoveryTests {
    private let url = "https://media.example/film.ismv"
    private let file = TestFile.file(seconds: 12)

    private func complete(_ origin: TestOrigin) async -> TestCache {
        let test = TestCache(origin)
        await test.cache.item(url, format: .file).download()
        return test
    }

    private func item(_ test: TestCache, _ origin: TestOrigin) -> CachedItem {
        TestCache(origin, folder: test.folder).cache.item(url, format: .file)
    }

    private func replaceIndex(of test: TestCache) throws {
        try test.index.write(Data("no database at all, and longer than a header of one would have to be: text".utf8))
    }

    /// What others may have changed is neither read nor repaired, and nothing follows a link in the place of the index.
    @Test(arguments: ["index", "folder", "cache", "link"])
    func whatOthersMayWriteIsRefused(_ place: String) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        let index = try test.index.file.path
        let folder = try test.index.file.deletingLastPathComponent().path
        origin.switchOff()
        #expect(try await item(test, origin).read(url) == file)
        switch place {
        case "index": #expect(chmod(index, 0o602) == 0)
        case "folder": #expect(chmod(folder, 0o777) == 0)
        case "cache": #expect(chmod(test.folder, 0o777) == 0)
        default:
            #expect(rename(index, index + ".elsewhere") == 0)
            #expect(symlink(index + ".elsewhere", index) == 0)
            #expect(chmod(index + ".elsewhere", 0o644) == 0)
        }
        let item = item(test, origin)
        await #expect(throws: CacheError.self) { try await item.read(url) }
        await item.download()
        guard case .failed(let error) = item.progress.status else {
            Issue.record("it is \(item.progress.status)")
            return
        }
        #expect(error.code == .notPermitted, "\(error)")
        if place == "link" {
            // Its mode is as it was.
            var status = stat()
            #expect(stat(index + ".elsewhere", &status) == 0 && status.st_mode & 0o777 == 0o644)
        }
    }

    @Test func aDamagedIndexIsSetAsideAndTheItemFetchedAgain() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try replaceIndex(of: test)
        origin.forget()
        let item = item(test, origin)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.warning?.code == .damaged)
        #expect(!origin.requests.isEmpty)
        #expect(test.files.contains { $0.lastPathComponent == "index.damaged-1.db" })
        origin.switchOff()
        #expect(try await item.read(url) == file)
        try await item.purgeAndWait()
        #expect(test.files.isEmpty)
    }

    /// Numbers that were changed on disk, each near the largest that the database holds.
    @Test(arguments: ["size", "block", "offset", "length"])
    func aNumberThatNoResourceHasIsDamage(_ changed: String) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        let index = try ItemIndex(path: test.index.file.path, blockSize: 64 << 10, creating: false)
        var resource = try #require(try index.contents().resources.first)
        var piece = try #require(try index.contents().pieces.first)
        switch changed {
        case "size":
            resource.size = UInt64(Int64.max)
            try index.write(resource)
        case "block": try index.write(resource.number, UInt64(Int64.max), digest: [UInt8](repeating: 0, count: 32))
        case "offset":
            piece.offset = UInt64(Int64.max)
            try index.write(piece, 0)
        default:
            piece.length = UInt64(Int64.max)
            try index.write(piece, 0)
        }
        index.close()
        let item = item(test, origin)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.warning?.code == .damaged)
        #expect(try await item.read(url) == file)
    }

    /// A link in the place of a file of the cache could lead to any file of the user.
    @Test func aLinkIsNotFollowed() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        let data = try #require(test.dataFiles.first)
        let elsewhere = URL(fileURLWithPath: test.folder).appendingPathComponent("elsewhere")
        try FileManager.default.moveItem(at: data, to: elsewhere)
        try FileManager.default.createSymbolicLink(at: data, withDestinationURL: elsewhere)
        let before = try Data(contentsOf: elsewhere)
        origin.switchOff()
        await #expect(throws: (any Error).self) { try await item(test, origin).read(url) }
        #expect(try Data(contentsOf: elsewhere) == before)
    }

    /// Nor is a file made where a link in the place of a lock leads.
    @Test(arguments: ["lock", "writer"]) func aLinkInThePlaceOfALockIsNotFollowed(_ name: String) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        let lock = try test.index.file.deletingLastPathComponent().path + "/" + name
        let elsewhere = test.folder + "/elsewhere"
        #expect(unlink(lock) == 0)
        #expect(symlink(elsewhere, lock) == 0)
        let item = item(test, origin)
        await item.download()
        guard case .failed = item.progress.status else {
            Issue.record("it is \(item.progress.status)")
            return
        }
        #expect(!FileManager.default.fileExists(atPath: elsewhere))
    }

    @Test func lookingChangesNothing() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try replaceIndex(of: test)
        let before = try Data(contentsOf: test.index.file)
        #expect(await item(test, origin).refresh().status.failure == .damaged)
        #expect(try Data(contentsOf: test.index.file) == before)
    }

    @Test func aDamagedIndexDoesNotEndPlaybackWithTheNetwork() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try replaceIndex(of: test)
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            item(test, origin), position: { nil }, onEvent: { event in events.withLock { $0.append(event) } })
        #expect(try await fetch(gateway.url).body == file)
        guard case .failure(let error)? = events.withLock({ $0.first }) else {
            Issue.record("no event")
            return
        }
        #expect(error.code == .damaged)
        let failures = events.withLock { $0.count { if case .failure = $0 { true } else { false } } }
        #expect(failures == 1)
    }

    @Test func withoutTheNetworkADamagedIndexIsNamedAndThenTheEdge() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try replaceIndex(of: test)
        origin.switchOff()
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            item(test, origin), position: { nil }, onEvent: { event in events.withLock { $0.append(event) } })
        #expect(try await fetch(gateway.url).status == 504)
        let seen = events.withLock { $0 }
        guard seen.count == 2, case .failure(let error) = seen[0], case .edgeReached = seen[1] else {
            Issue.record("\(seen)")
            return
        }
        #expect(error.code == .damaged)
    }

    @Test func aLaterVersionIsLeftAloneAndPlaysFromTheNetwork() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try test.index.execute("PRAGMA user_version = 99")
        let item = item(test, origin)
        await item.download()
        #expect(item.progress.status.failure == .laterVersion)
        #expect(try await item.read(url) == file)
        #expect(!test.files.contains { $0.lastPathComponent.contains("damaged") })
        try test.index.execute("PRAGMA user_version = 1")
        await item.download()
        #expect(item.progress.status == .complete)
    }

    /// Sums with such a number would overflow.
    @Test(arguments: [Int64.max, .min, 0]) func aResourceWithAWrongNumberIsFetchedAgain(_ number: Int64) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try test.index.execute("UPDATE resource SET number = \(number)")
        let item = item(test, origin)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.warning?.code == .damaged)
        #expect(try await item.read(url) == file)
    }

    /// Whatever becomes of the index: what plays are the origin's bytes, and what is kept is not fetched again.
    @Test(arguments: 0..<30) func whatCanBeReadOfADamagedIndexIsKept(seed: Int) async throws {
        var generator = SeededGenerator(seed: UInt64(seed) + 1)
        let file = TestFile.file(seconds: 60)
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        var bytes = Array(try Data(contentsOf: test.index.file))
        for _ in 0..<Int(generator.next() % 4 + 1) {
            let start = Int(generator.next() % UInt64(bytes.count))
            let length = Int(generator.next() % 600 + 1)
            for place in start..<min(start + length, bytes.count) {
                bytes[place] = UInt8(truncatingIfNeeded: generator.next())
            }
        }
        try test.index.write(Data(bytes))
        origin.forget()
        let item = item(test, origin)
        #expect(try await item.read(url) == file)
        await item.download()
        // Among the bytes is the number of the version.
        guard item.progress.status.failure != .laterVersion else { return }
        #expect(item.progress.status == .complete)
        origin.switchOff()
        #expect(try await item.read(url) == file)
    }

    @Test func blocksWhoseRowsCanBeReadAreNotFetchedAgain() async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        // The table of the pieces is gone, and that of the blocks is not.
        try test.index.execute("DROP TABLE piece")
        origin.forget()
        let item = item(test, origin)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.cachedDuration == .seconds(12))
        #expect(item.progress.warning?.code == .damaged)
        #expect(origin.requests.isEmpty)
    }

    // MARK: Before there was a plan

    @Test func aFileThatWasPlayedBeforeItWasDownloadedPlaysWithoutTheNetwork() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        origin.fail { ($0.range?.lowerBound ?? 0) > 0 ? HTTPResponse(status: 404, url: $0.url) : nil }
        await item.download()
        origin.fail(nil)
        let end = TestFile.file(seconds: 6).count
        let reader = CacheReader(item)
        _ = try await reader.answer(url, route: { $0 })
        var offset = 0
        while offset < end { offset += try await reader.bytes(of: url, at: UInt64(offset)).count }
        origin.switchOff()
        let bytes = try await item.read(url)
        #expect(bytes.count >= end && bytes == Array(file.prefix(bytes.count)))
    }

    @Test func anHLSItemThatWasPlayedBeforeItsPlanEndsAtItsEdge() async throws {
        let base = "https://media.example/show/"
        var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
        var files: [String: [UInt8]] = [:]
        for number in 1...4 {
            text += "#EXTINF:2,\n\(number).ts\n"
            files[base + "\(number).ts"] = TestFile.segment(number)
        }
        files[base + "a.m3u8"] = Array((text + "#EXT-X-ENDLIST\n").utf8)
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        origin.fail { $0.url.hasSuffix(".ts") ? HTTPResponse(status: 404, url: $0.url) : nil }
        await item.download()
        try forgetThePlan(test)
        origin.fail(nil)
        let again = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        for number in 1...2 { #expect(try await again.read(base + "\(number).ts").count == 3000) }
        origin.switchOff()
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            again, position: { .seconds(4) }, onEvent: { event in events.withLock { $0.append(event) } })
        let playlist = String(decoding: try await fetch(gateway.url).body, as: UTF8.self)
        #expect(playlist.contains("2.ts") && !playlist.contains("3.ts") && playlist.hasSuffix("#EXT-X-ENDLIST\n"))
        #expect(gateway.edge == .seconds(4))
        let third = gateway.url.replacing("a.m3u8", with: "3.ts")
        #expect(try await fetch(third).status == 504)
        guard case .edgeReached(let edge, _)? = events.withLock({ $0.first }) else {
            Issue.record("no event")
            return
        }
        #expect(edge == .seconds(4))
    }

    // MARK: Folders with the names of older versions

    /// As if the item had been made before URLs had one spelling.
    private func giveOlderName(_ test: TestCache, _ url: String) throws {
        let name = try BlockDigest.name(of: url)
        try FileManager.default.moveItem(
            at: test.index.file.deletingLastPathComponent(), to: URL(fileURLWithPath: "\(test.folder)/\(name)"))
    }

    @Test func itemsInFoldersOfOlderSpellingsAreFoundAndGetTheNewName() async throws {
        let spelling = "HTTPS://Media.example:443/x/../%66ilm.ismv"
        let test = TestCache(TestOrigin([spelling: file]))
        await test.cache.item(spelling, format: .file).download()
        let settled = try test.index.file
        try giveOlderName(test, spelling)
        #expect(try test.index.file != settled)
        let off = TestOrigin([:])
        off.switchOff()
        let later = TestCache(off, folder: test.folder)
        #expect(later.cache.isCached(spelling))
        let items = try await later.cache.allItems()
        #expect(items.map(\.progress.status) == [.complete])
        #expect(try await items[0].read(spelling) == file)
        // Another spelling finds it from then on.
        let other = TestCache(off, folder: test.folder)
        #expect(try test.index.file == settled)
        #expect(other.cache.isCached(url))
        #expect(try await other.cache.item(url, format: .file).read(url) == file)
    }

    @Test func aFolderThatIsInUseKeepsItsOlderNameAndPlays() async throws {
        let spelling = "https://media.example:443/film.ismv"
        let test = TestCache(TestOrigin([spelling: file]))
        await test.cache.item(spelling, format: .file).download()
        try giveOlderName(test, spelling)
        let older = try test.index.file
        let lock = try CacheFolder.Lock(older.deletingLastPathComponent().path, for: .use)
        let later = TestCache(TestOrigin([:]), folder: test.folder)
        #expect(try await later.cache.item(spelling, format: .file).read(spelling) == file)
        #expect(try test.index.file == older)
        withExtendedLifetime(lock) {}
    }
}
