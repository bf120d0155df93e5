// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyOffline

/// Several processes with one cache. Locks of one process count as those of others where another object holds them, so
/// that two caches with one folder stand for two processes.
struct SharingTests {
    private let url = "https://media.example/film.ismv"
    private let file = TestFile.file(seconds: 12)

    /// A cache whose download waits behind its first answer, until `go` is called.
    private func busy(_ files: [String: [UInt8]]) async -> (TestCache, CachedItem, go: @Sendable () -> Void) {
        let origin = TestOrigin(files)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let isHeld = Mutex(true)
        origin.hold { request in
            if (request.range?.lowerBound ?? 0) > 0, isHeld.withLock({ $0 }) { for await _ in gate {} }
        }
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        item.start()
        await item.until { $0.status == .caching && $0.cachedSize > 0 }
        // Until it waits, it may store more of the first answer.
        while !origin.requests.contains(where: { ($0.range?.lowerBound ?? 0) > 0 }) { await Task.yield() }
        await item.refresh()
        return (
            test, item,
            {
                isHeld.withLock { $0 = false }
                open.finish()
            }
        )
    }

    @Test func anotherDownloadOfTheSameItemIsRefused() async throws {
        let (test, item, go) = await busy([url: file])
        let other = TestCache(TestOrigin([url: file]), folder: test.folder).cache.item(url, format: .file)
        await other.download()
        #expect(other.progress.status.failure == .inUse)
        go()
        await item.until { $0.status == .complete }
        await other.download()
        #expect(other.progress.status == .complete)
    }

    /// So that one process has one cache for it.
    @Test func allSpellingsOfAFolderAreOnePlace() throws {
        let manager = FileManager.default
        let base = CacheFolder.resolved(NSTemporaryDirectory()) + "/place-\(UUID().uuidString)"
        try manager.createDirectory(atPath: base + "/real", withIntermediateDirectories: true)
        defer { try? manager.removeItem(atPath: base) }
        try manager.createSymbolicLink(atPath: base + "/link", withDestinationPath: "real")
        let spellings = ["real", "real//", "./real", "real/.", "link", "link/", "link/../real", "real/../link"]
        // The last one has no folder yet.
        for name in ["", "/made/there"] {
            for path in spellings {
                #expect(ContentCache.place(of: "\(base)/\(path)\(name)") == "\(base)/real\(name)")
                #expect(ContentCache.place(of: "\(base)/\(path)\(name)/") == "\(base)/real\(name)")
                #expect(ContentCache.place(of: "\(base)/\(path)\(name)/.") == "\(base)/real\(name)")
            }
        }
        #expect(ContentCache.place(of: "no-such-folder") == ContentCache.place(of: ".") + "/no-such-folder")
        #expect(ContentCache.place(of: "/no-such-folder") == "/no-such-folder")
        #expect(ContentCache.place(of: "/") == "/" && ContentCache.place(of: "").isEmpty)
    }

    @Test func whoPlaysBesideADownloadReadsItsBlocksAndStoresNothing() async throws {
        let (test, item, go) = await busy([url: file])
        let had = item.progress.cachedSize
        let origin = TestOrigin([url: file])
        let other = TestCache(origin, folder: test.folder).cache.item(url, format: .file)
        let reader = CacheReader(other)
        _ = try await reader.answer(url, route: { $0 })
        #expect(try await reader.bytes(of: url, at: 0) == Array(file.prefix(1024)))
        // Asked for at the origin, and not written.
        #expect(try await reader.bytes(of: url, at: 20480) == Array(file[20480..<21504]))
        #expect(origin.requests.contains { $0.range?.contains(20480) == true })
        let has = await item.refresh().cachedSize
        #expect(has == had)
        go()
        await item.until { $0.status == .complete }
        // What the download has stored meanwhile is not asked for again.
        origin.forget()
        #expect(try await reader.bytes(of: url, at: 40960) == Array(file[40960..<41984]))
        #expect(origin.requests.isEmpty)
    }

    /// Each numbers what it finds by itself: neither may take the other's bytes for its own.
    @Test func twoThatPlayWhatIsNotPlannedNeverMixTheirResources() async throws {
        let base = "https://media.example/show/"
        var files = [base + "a.m3u8": Array(playlist(["1.ts", "2.ts", "3.ts", "4.ts"]).utf8)]
        for number in 1...4 { files[base + "\(number).ts"] = TestFile.segment(number) }
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        // A download that ends with the manifest.
        origin.fail { $0.url.hasSuffix("1.ts") ? HTTPResponse(status: 404, url: $0.url) : nil }
        await test.cache.item(base + "a.m3u8", format: .hls).download()
        origin.fail(nil)
        try forgetThePlan(test)
        let readers = [test, TestCache(origin, folder: test.folder)].map {
            CacheReader($0.cache.item(base + "a.m3u8", format: .hls))
        }
        for order in [[1, 2, 3, 4], [4, 3, 2, 1]] {
            for (number, reader) in zip(order, [0, 1, 0, 1]) {
                let url = base + "\(number).ts"
                _ = try await readers[reader].answer(url, route: { $0 })
                let bytes = try await readers[reader].bytes(of: url, at: 0)
                #expect(bytes == TestFile.segment(number, size: 1024))
            }
        }
    }

    /// Whoever cannot write down what it found out does not write at all, and lets others.
    @Test func whoCannotStoreItsPlanIsNoWriterAndTriesAgain() async throws {
        let base = "https://media.example/show/"
        var files = [base + "a.m3u8": Array(playlist(["1.ts", "2.ts"]).utf8)]
        for number in 1...2 { files[base + "\(number).ts"] = TestFile.segment(number) }
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        origin.fail { $0.url.hasSuffix(".ts") ? HTTPResponse(status: 404, url: $0.url) : nil }
        let item = test.cache.item(base + "a.m3u8", format: .hls)
        await item.download()
        origin.fail(nil)
        try forgetThePlan(test)
        let folder = try test.index.file.deletingLastPathComponent().path
        var writer: CacheFolder.Lock? = try CacheFolder.Lock(folder, for: .writing)
        let reader = CacheReader(item)
        _ = try await reader.answer(base + "1.ts", route: { $0 })
        try test.index.execute("CREATE TRIGGER full BEFORE INSERT ON piece BEGIN SELECT RAISE(ABORT, 'full'); END")
        #expect(writer != nil)
        writer = nil
        // Twice: the first failure must not look like a lock that is held.
        for _ in 1...2 {
            #expect(try await reader.bytes(of: base + "1.ts", at: 0) == TestFile.segment(1, size: 1024))
            #expect(try test.index.count("SELECT count(*) FROM block WHERE resource > 1") == 0)
            _ = try CacheFolder.Lock(folder, for: .writing)
        }
        try test.index.execute("DROP TRIGGER full")
        #expect(try await reader.bytes(of: base + "2.ts", at: 0) == TestFile.segment(2, size: 1024))
        #expect(try test.index.count("SELECT count(*) FROM piece WHERE duration > 0") == 2)
        #expect(try test.index.count("SELECT count(*) FROM block WHERE resource > 1") > 0)
        #expect(throws: CacheError.self) { try CacheFolder.Lock(folder, for: .writing) }
        // What was written fits together: another finds all of it.
        _ = try await reader.bytes(of: base + "1.ts", at: 0)
        #expect(await item.refresh().cachedDuration == .seconds(4))
    }

    @Test func whoeverHasItOpenKeepsItFromBeingPurged() async throws {
        let test = TestCache(TestOrigin([url: file]))
        let item = test.cache.item(url, format: .file)
        await item.download()
        let reader = CacheReader(item)
        _ = try await reader.answer(url, route: { $0 })
        let other = TestCache(TestOrigin([:]), folder: test.folder)
        let error = await #expect(throws: CacheError.self) {
            try await other.cache.item(url, format: .file).purgeAndWait()
        }
        #expect(error?.code == .inUse)
        #expect(item.progress.status == .complete)
        withExtendedLifetime(reader) {}
    }

    @Test func nothingStaysOpenThatNobodyUses() async throws {
        let test = TestCache(TestOrigin([url: file]))
        await test.cache.item(url, format: .file).download()
        #expect(try test.openFiles.isEmpty)
        let other = TestCache(TestOrigin([:]), folder: test.folder)
        for _ in 0..<3 { #expect(try await other.cache.allItems().map(\.progress.status) == [.complete]) }
        #expect(try test.openFiles.isEmpty)
        try await other.cache.item(url, format: .file).purgeAndWait()
    }

    /// A program that another thread is starting has a copy of each descriptor until it runs.
    @Test func aCopyOfItsDescriptorKeepsNoLock() async throws {
        let test = TestCache(TestOrigin([url: file]))
        await test.cache.item(url, format: .file).download()
        let folder = try test.index.file.deletingLastPathComponent().path
        for kind in [CacheFolder.Lock.Kind.writing, .use] {
            let name = kind == .writing ? "/writer" : "/lock"
            var lock: CacheFolder.Lock? = try CacheFolder.Lock(folder, for: kind)
            let descriptor = try #require(
                (0..<1024).first { descriptor in
                    let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
                    return path?.hasPrefix("/") == true && path?.hasSuffix(name) == true
                        && path?.contains(test.folder.split(separator: "/").last ?? "?") == true
                })
            let copy = fcntl(Int32(descriptor), F_DUPFD_CLOEXEC, 0)
            defer { close(copy) }
            #expect(copy >= 0 && lock != nil)
            lock = nil
            _ = try CacheFolder.Lock(folder, for: kind == .writing ? .writing : .removal)
        }
    }

    @Test func aCacheOfWhichNothingCanBeOpenedIsNotEmpty() async throws {
        let test = TestCache(TestOrigin([url: file]))
        await test.cache.item(url, format: .file).download()
        let lock = try test.index.file.deletingLastPathComponent().appendingPathComponent("lock")
        try FileManager.default.removeItem(at: lock)
        try FileManager.default.createDirectory(at: lock, withIntermediateDirectories: false)
        let other = TestCache(TestOrigin([:]), folder: test.folder)
        let error = await #expect(throws: CacheError.self) { try await other.cache.allItems() }
        #expect(error?.code == .inputOutput && error?.reason.contains(test.folder) == true)
    }

    private func playlist(_ names: [String]) -> String {
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n" + names.map { "#EXTINF:2,\n\($0)\n" }.joined() + "#EXT-X-ENDLIST\n"
    }
}
