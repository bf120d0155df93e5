// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyHTTP
import Testing

@testable import LatchkeyOffline

/// Indices and folders that were changed by hand, so that the cache would serve, ask for or remove what it should not.
@Suite(.timeLimit(.minutes(8))) struct TamperingTests {
    private let url = "https://media.example/film.ismv"
    private let file = TestFile.file(seconds: 12)
    private let otherURL = "https://media.example/other.ismv"
    /// As long as the other, with other samples at its end.
    private var otherFile: [UInt8] { file.dropLast(1000) + file.suffix(1000).map { ~$0 } }

    private func complete(_ origin: TestOrigin) async -> TestCache {
        let test = TestCache(origin)
        await test.cache.item(url, format: .file).download()
        return test
    }

    private func folder(_ test: TestCache, _ url: String) throws -> String {
        "\(test.folder)/\(try BlockDigest.name(of: url))"
    }

    // MARK: Another item

    /// Its whole folder in the place of the item's.
    @Test func theFolderOfAnotherItemServesNothing() async throws {
        let origin = TestOrigin([url: file, otherURL: otherFile])
        let test = await complete(origin)
        await test.cache.item(otherURL, format: .file).download()
        let place = try folder(test, otherURL)
        try FileManager.default.removeItem(atPath: place)
        try FileManager.default.copyItem(atPath: folder(test, url), toPath: place)
        let later = TestCache(origin, folder: test.folder)
        #expect(try await later.cache.allItems().map(\.url) == [url])
        origin.switchOff()
        let item = later.cache.item(otherURL, format: .file)
        await #expect(throws: CacheError.self) { try await item.read(otherURL) }
        origin.switchOn()
        #expect(try await item.read(otherURL) == otherFile)
        await item.download()
        #expect(item.progress.status == .complete)
        origin.switchOff()
        #expect(try await item.read(otherURL) == otherFile)
        #expect(try await later.cache.item(url, format: .file).read(url) == file)
    }

    @Test func aURLThatTheIndexNamesInItsPlaceIsNotAskedFor() async throws {
        let origin = TestOrigin([url: file, otherURL: otherFile])
        let test = await complete(origin)
        try test.index.execute("UPDATE item SET value = CAST('\(otherURL)' AS BLOB) WHERE name = 'url'")
        let later = TestCache(origin, folder: test.folder)
        #expect(try await later.cache.allItems().isEmpty)
        let unlisted = try await later.cache.unlistedFolders()
        #expect(unlisted.map { $0.folder } == [try folder(test, url)])
        #expect(unlisted.allSatisfy { $0.error.code == .damaged })
        let item = later.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete && item.progress.warning?.code == .damaged)
        #expect(try await later.cache.unlistedFolders().isEmpty)
        #expect(!origin.requests.contains { $0.url == otherURL })
        #expect(try await item.read(url) == file)
    }

    /// Two keys that were exchanged.
    @Test func aSealedKeyOpensForItsURLAlone() async throws {
        let base = "https://media.example/show/"
        var files: [String: [UInt8]] = [:]
        var text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
        for number in 1...2 {
            text += "#EXT-X-KEY:METHOD=AES-128,URI=\"k\(number)\"\n#EXTINF:2,\n\(number).ts\n"
            files[base + "\(number).ts"] = [UInt8](repeating: UInt8(number), count: 3000)
            files[base + "k\(number)"] = [UInt8](repeating: UInt8(number), count: 16)
        }
        files[base + "a.m3u8"] = Array((text + "#EXT-X-ENDLIST\n").utf8)
        let origin = TestOrigin(files)
        let test = TestCache(origin)
        await test.cache.item(base + "a.m3u8", format: .hls).download()
        #expect(test.cache.item(base + "a.m3u8", format: .hls).progress.isReadyToPlay)
        try test.index.execute(
            """
            CREATE TEMP TABLE kept AS SELECT * FROM content_key;
            UPDATE content_key SET sealed = (SELECT sealed FROM kept WHERE kept.url <> content_key.url);
            """)
        origin.switchOff()
        let item = TestCache(origin, folder: test.folder).cache.item(base + "a.m3u8", format: .hls)
        let progress = await item.refresh()
        #expect(!progress.isReadyToPlay && progress.warning?.code == .licenseNotKept)
        #expect(progress.warning?.reason.contains("(and 1 more)") == true)
        let reader = CacheReader(item)
        for number in 1...2 {
            let answer = try await reader.answer(base + "k\(number)", route: { $0 })
            #expect(answer == nil, "key \(number) opens for the URL of the other")
        }
    }

    // MARK: Lies

    /// Larger than any file, too large by a byte, and too small: the file's bytes come, or an error.
    @Test(arguments: [CachedResource.largestSize, UInt64(TestFile.file(seconds: 12).count) + 1, 1000])
    func aWrongSizeBringsNoOtherBytes(_ size: UInt64) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try test.index.execute("UPDATE resource SET size = \(size)")
        origin.switchOff()
        for _ in 0..<2 {
            origin.forget()
            let item = TestCache(origin, folder: test.folder).cache.item(url, format: .file)
            do {
                let bytes = try await item.read(url)
                #expect(bytes == file)
            } catch let error as CacheError {
                #expect(error.code == .contentChanged || error.code == .unreachable, "\(error)")
            }
            #expect(origin.requests.count < 10)
            origin.switchOn()
            try await test.untilNothingIsOpen()
        }
        let item = TestCache(origin, folder: test.folder).cache.item(url, format: .file)
        await item.download()
        let failure = item.progress.status.failure
        #expect(failure == .contentChanged || failure == .invalidContent, "\(item.progress.status)")
    }

    /// The nearest and the farthest times that the database holds.
    @Test(arguments: ["begin", "duration"], [Int64.min, -1, .max])
    func wrongTimesDoNotTrap(_ column: String, _ time: Int64) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try test.index.execute(
            """
            UPDATE piece SET \(column) = \(time);
            UPDATE item SET value = CAST('\(time)' AS BLOB) WHERE name = 'duration';
            """)
        origin.switchOff()
        let later = TestCache(origin, folder: test.folder)
        let item = try #require(try await later.cache.allItems().first)
        #expect(item.progress.cachedDuration >= .zero && item.progress.totalDuration ?? .zero >= .zero)
        #expect(try await item.read(url) == file)
        let gateway = try CacheGateway(item, position: { .zero }, onEvent: { _ in })
        #expect(try await fetch(gateway.url).body == file)
        await item.download()
        #expect(item.progress.status == .complete)
    }

    /// Rows without an end, changes that no one asked for, and a value that fills the memory.
    @Test(arguments: [
        """
        DROP TABLE item; CREATE VIEW item AS WITH RECURSIVE endless(name) AS (SELECT 'url' UNION ALL SELECT name FROM endless)
        SELECT name, x'' AS value FROM endless
        """,
        "CREATE TRIGGER change AFTER INSERT ON block BEGIN DELETE FROM block; END",
        "INSERT INTO item VALUES ('large', zeroblob(\(ItemIndex.largestRow + 1)))",
    ])
    func whatIsNoIndexOfOursIsDamage(_ change: String) async throws {
        let origin = TestOrigin([url: file])
        let test = await complete(origin)
        try test.index.execute(change)
        let later = TestCache(origin, folder: test.folder)
        #expect(try await later.cache.allItems().isEmpty)
        let item = later.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete && item.progress.warning?.code == .damaged)
        origin.switchOff()
        #expect(try await item.read(url) == file)
    }

    // MARK: Links

    /// A folder of the user that the cache has nothing to do with.
    private final class Bystander {
        let path = NSTemporaryDirectory() + "/bystander-\(UUID().uuidString)"
        var file: String { path + "/letter" }
        /// Nothing was changed, added or removed.
        var isWhole: Bool {
            FileManager.default.contents(atPath: file) == Data("dear".utf8)
                && (try? FileManager.default.contentsOfDirectory(atPath: path)) == ["letter"]
        }

        init() throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try Data("dear".utf8).write(to: URL(fileURLWithPath: file))
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }
    }

    /// What a purge left behind is removed later, and a link there is not followed.
    @Test func aLinkInThePlaceOfWhatWasPurgedIsNotFollowed() async throws {
        let bystander = try Bystander()
        let test = await complete(TestOrigin([url: file]))
        try FileManager.default.createDirectory(atPath: test.folder + "/.purged-a-1", withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: test.folder + "/.purged-a-1/1.data"))
        #expect(symlink(bystander.path, test.folder + "/.purged-b-1") == 0)
        #expect(try await test.cache.allItems().map(\.url) == [url])
        #expect(!FileManager.default.fileExists(atPath: test.folder + "/.purged-a-1"))
        #expect(bystander.isWhole)
    }

    @Test func noPurgeFollowsALink() async throws {
        let bystander = try Bystander()
        let test = await complete(TestOrigin([url: file]))
        let place = try folder(test, url)
        try FileManager.default.moveItem(atPath: place, toPath: place + ".elsewhere")
        #expect(symlink(bystander.path, place) == 0)
        let item = TestCache(TestOrigin([:]), folder: test.folder).cache.item(url, format: .file)
        let error = await #expect(throws: CacheError.self) { try await item.purgeAndWait() }
        #expect(error?.code == .notPermitted && error?.reason.contains("symbolic link") == true)
        #expect(bystander.isWhole)
    }

    /// Files that tools against duplicates joined, or that were moved to another disk.
    @Test func aPurgeLeavesWhatIsSharedToOthers() async throws {
        let bystander = try Bystander()
        let origin = TestOrigin([url: file, otherURL: file])
        let test = await complete(origin)
        await test.cache.item(otherURL, format: .file).download()
        let (place, other) = (try folder(test, url), try folder(test, otherURL))
        try FileManager.default.removeItem(atPath: other + "/1.data")
        try FileManager.default.linkItem(atPath: place + "/1.data", toPath: other + "/1.data")
        try FileManager.default.linkItem(atPath: bystander.file, toPath: place + "/2.data")
        #expect(symlink(bystander.file, place + "/3.data") == 0 && symlink(bystander.path, place + "/folder") == 0)
        try await TestCache(TestOrigin([:]), folder: test.folder).cache.item(url, format: .file).purgeAndWait()
        #expect(!FileManager.default.fileExists(atPath: place))
        #expect(bystander.isWhole)
        origin.switchOff()
        let later = TestCache(origin, folder: test.folder)
        #expect(try await later.cache.allItems().map(\.url) == [otherURL])
        #expect(try await later.cache.item(otherURL, format: .file).read(otherURL) == file)
    }

    @Test func aFolderInThatOfAnItemStaysAndHoldsNothingUp() async throws {
        let test = await complete(TestOrigin([url: file, otherURL: otherFile]))
        await test.cache.item(otherURL, format: .file).download()
        let bystander = try Bystander()
        try FileManager.default.copyItem(atPath: bystander.path, toPath: try folder(test, url) + "/mine")
        let later = TestCache(TestOrigin([:]), folder: test.folder)
        let item = later.cache.item(url, format: .file)
        let error = await #expect(throws: CacheError.self) { try await item.purgeAndWait() }
        let left = "\(test.folder)/.purged-\(try BlockDigest.name(of: url))-1"
        #expect(error?.code == .notPermitted && error?.reason.contains(left) == true)
        #expect(FileManager.default.contentsEqual(atPath: left + "/mine/letter", andPath: bystander.file))
        #expect(try FileManager.default.contentsOfDirectory(atPath: left) == ["mine"])
        #expect(try await later.cache.allItems().map(\.url) == [otherURL])
        try FileManager.default.removeItem(atPath: left + "/mine")
        #expect(try await later.cache.allItems().map(\.url) == [otherURL])
        #expect(!FileManager.default.fileExists(atPath: left))
    }

    /// A file that cannot be removed is no content of others.
    @Test(arguments: [EACCES, EROFS, EIO, EISDIR]) func whyAFolderCannotBeClearedIsSaid(code: Int32) throws {
        let bystander = try Bystander()
        let error = #expect(throws: CacheError.self) { try CacheFolder.clear(bystander.path) { _, _ in code } }
        let isForeign = error?.reason.contains("not of the cache") == true
        #expect(error?.code == .notPermitted && isForeign == (code == EISDIR))
        #expect(isForeign || error?.reason.contains(String(cString: strerror(code))) == true)
        #expect(bystander.isWhole)
        let swept = try Bystander()
        try CacheFolder.clear(swept.path)
        #expect(!FileManager.default.fileExists(atPath: swept.path))
    }

    /// What others may have put into the folder of the cache is neither read nor removed.
    @Test func aCacheThatOthersMayWriteIsLeftAlone() async throws {
        let test = TestCache(TestOrigin([:]))
        let left = test.folder + "/.purged-a-1"
        try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
        #expect(chmod(test.folder, 0o777) == 0)
        let error = await #expect(throws: CacheError.self) { try await test.cache.allItems() }
        #expect(error?.code == .notPermitted)
        #expect(FileManager.default.fileExists(atPath: left))
    }
}
