// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyHTTP
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyOffline

/// Disks that fail, files that were altered, and power that was lost.
struct DamageTests {
    private let url = "https://media.example/film.ismv"
    private let file = TestFile.file(seconds: 12)

    @Test func errorsSayTheirKindOnce() {
        #expect(CacheError(.invalidURL("skd://a", "why")).description == "invalid URL: skd://a: why")
        #expect(CacheError(.cancelled("http://a/b")).description == "cancelled: http://a/b")
        #expect(CacheError(.refused("http://a/b")).description == "unreachable: no connection: http://a/b")
    }

    private func complete(_ test: TestCache) async -> CachedItem {
        let item = test.cache.item(url, format: .file)
        await item.download()
        return item
    }

    private func alter(_ test: TestCache, at offset: UInt64) throws {
        let handle = try FileHandle(forUpdating: try #require(test.dataFiles.first))
        try handle.seek(toOffset: offset)
        let byte = try #require(try handle.read(upToCount: 1)?.first)
        try handle.seek(toOffset: offset)
        try handle.write(contentsOf: Data([byte ^ 1]))
        try handle.close()
    }

    @Test func onlyTheBlockThatWasAlteredIsFetchedAgain() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        _ = await complete(test)
        try alter(test, at: 5000)
        origin.forget()
        let item = TestCache(origin, folder: test.folder).cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(origin.requests == [.init(url: url, range: 4096...5119)])
        origin.switchOff()
        #expect(try await item.read(url) == file)
    }

    @Test func playersNeverGetABlockThatWasAltered() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = await complete(test)
        try alter(test, at: 5000)
        origin.forget()
        #expect(try await item.read(url) == file)
        #expect(origin.requests.compactMap(\.range?.lowerBound) == [4096])
        // Without the network there is nothing in its place, and the error says why.
        try alter(test, at: 5000)
        origin.switchOff()
        let error = await #expect(throws: CacheError.self) { try await item.read(url) }
        #expect(error?.code == .unreachable)
        #expect(error?.reason.contains("bytes 4096 to 5119 of \(url) were altered on disk") == true)
    }

    /// The event comes at once, not when playback has come to the end of the content.
    @Test(arguments: [0, 5000]) func anAlteredHeadIsAnEdgeAtTheStart(offset: UInt64) async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = await complete(test)
        try alter(test, at: offset)
        origin.switchOff()
        let events = Mutex<[CacheGateway.Event]>([])
        let gateway = try CacheGateway(
            item, position: { .zero }, onEvent: { event in events.withLock { $0.append(event) } })
        await #expect(throws: HTTPError.self) { try await fetch(gateway.url) }
        guard case .edgeReached(let edge, let error)? = events.withLock({ $0.first }) else {
            Issue.record("no event")
            return
        }
        #expect(edge == .zero)
        #expect(error.reason.contains("altered on disk"))
        // With the network, that block alone is fetched again.
        origin.switchOn()
        origin.forget()
        #expect(try await item.read(url) == file)
        #expect(origin.requests.compactMap(\.range?.lowerBound) == [Int(offset) / 1024 * 1024])
    }

    @Test func aFileThatWasCutOffIsFetchedAgainFromThere() async throws {
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        _ = await complete(test)
        #expect(truncate(try #require(test.dataFiles.first).path, 20_000) == 0)
        origin.forget()
        let item = TestCache(origin, folder: test.folder).cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(origin.requests.compactMap(\.range?.lowerBound).min() == 19_456)
        origin.switchOff()
        #expect(try await item.read(url) == file)
    }

    @Test func aFullDiskIsNamedAndNothingIsLost() async throws {
        let origin = TestOrigin([url: file])
        origin.hold(nil)
        let faults = FaultyFiles()
        let test = TestCache(origin, blockSize: 1024, files: faults.files)
        let item = test.cache.item(url, format: .file)
        // The first answer brings everything that is wanted at once.
        origin.failRequests(after: 1)
        await item.download()
        let had = item.progress.cachedSize
        #expect(had > 0)
        origin.fail(nil)
        faults.fail(ENOSPC)
        await item.download()
        #expect(item.progress.status.failure == .diskFull)
        #expect(item.progress.cachedSize == had)
        // What cannot be stored plays all the same.
        #expect(try await item.read(url) == file)
        faults.fail(nil)
        await item.download()
        #expect(item.progress.status == .complete)
    }

    @Test func filesThatMayNotBeWrittenAreNamed() async throws {
        let origin = TestOrigin([url: file])
        let faults = FaultyFiles()
        faults.state.withLock { $0.openFailure = EACCES }
        let test = TestCache(origin, files: faults.files)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .notPermitted)
    }

    /// Whatever was on its way when the power went: what the index claims is there, and is right.
    @Test(arguments: 0..<20) func aLossOfPowerClaimsNothingThatIsNotThere(seed: Int) async throws {
        var generator = SeededGenerator(seed: UInt64(seed) + 1)
        let origin = TestOrigin([url: file])
        let faults = FaultyFiles()
        let test = TestCache(origin, files: faults.files)
        let item = test.cache.item(url, format: .file)
        let most = Int(generator.next() % 12)
        origin.failRequests(after: most)
        faults.fail(EIO, after: Int(generator.next() % 8))
        await item.download()
        try faults.losePower()
        origin.fail(nil)
        origin.forget()
        let after = TestCache(origin, folder: test.folder)
        let again = after.cache.item(url, format: .file)
        let claimed = await again.refresh().cachedSize
        await again.download()
        #expect(again.progress.status == .complete)
        let fetched = origin.requests.compactMap { $0.range?.clamped(to: 0...file.count - 1).count }.reduce(0, +)
        #expect(fetched == file.count - Int(claimed))
        origin.switchOff()
        #expect(try await again.read(url) == file)
    }
}
