// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyOffline

struct DownloadTests {
    private let url = "https://media.example/film.ismv?token=1"

    @Test func aFileIsCachedToItsEnd() async throws {
        let file = TestFile.file(seconds: 8)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        #expect(item.progress == CachedItem.Progress())
        let seen = await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.totalDuration == .seconds(8))
        #expect(item.progress.cachedDuration == .seconds(8))
        #expect(item.progress.cachedSize == UInt64(file.count))
        #expect(item.progress.isReadyToPlay)
        #expect(zip(seen, seen.dropFirst()).allSatisfy { $0.cachedDuration <= $1.cachedDuration })
        origin.switchOff()
        #expect(try await item.read(url) == file)
    }

    @Test func everyByteIsAskedForOnce() async throws {
        let file = TestFile.file(seconds: 20)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        await test.cache.item(url, format: .file).download()
        var asked = [Int](repeating: 0, count: file.count)
        for request in origin.requests {
            for place in try #require(request.range).clamped(to: 0...file.count - 1) { asked[place] += 1 }
        }
        #expect(asked.allSatisfy { $0 == 1 })
    }

    /// Whole blocks of an answer that breaks off are on disk, and only what is missing is asked for again.
    @Test func whatHasArrivedIsKept() async throws {
        let file = TestFile.file(seconds: 20)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        origin.breakAnswer(after: 2500)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(try await item.read(url) == file)
        let ranges = origin.requests.compactMap(\.range)
        #expect(ranges.first == 0...4095)
        #expect(ranges.dropFirst().allSatisfy { $0.lowerBound >= 2048 })
        #expect(ranges.contains { $0.lowerBound == 2048 })
    }

    /// As around the sleep of the machine. What was paused or purged meanwhile does not go on by itself.
    @Test func downloadsAreSuspendedAndResumed() async throws {
        let file = TestFile.file(seconds: 8)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        // Nothing is under way yet.
        test.cache.suspendDownloads()
        test.cache.resumeDownloads()
        let isHeld = Mutex(true)
        origin.hold { _ in
            // Until it is cancelled.
            if isHeld.withLock({ $0 }) { try? await Task.sleep(for: .seconds(3600)) }
        }
        item.start()
        await item.until { $0.status == .caching }
        test.cache.suspendDownloads()
        await item.until { $0.status == .waiting }
        item.pause()
        await item.until { $0.status == .paused }
        test.cache.resumeDownloads()
        await item.refresh()
        #expect(item.progress.status != .caching)
        item.start()
        await item.until { $0.status == .caching }
        await test.cache.suspendDownloadsAndWait()
        #expect(item.progress.status == .waiting)
        // Again, with nothing under way.
        await test.cache.suspendDownloadsAndWait()
        isHeld.withLock { $0 = false }
        test.cache.resumeDownloads()
        await item.until { $0.status == .complete }
        #expect(try await item.read(url) == file)
    }

    /// What is complete by then has nothing to go on with.
    @Test(.timeLimit(.minutes(8))) func aDownloadMayEndWhileItIsBeingSuspended() async throws {
        let faults = FaultyFiles()
        let test = TestCache(TestOrigin([url: TestFile.file(seconds: 8)]), files: faults.files)
        let item = test.cache.item(url, format: .file)
        await item.download()
        // All is there, and looked at once more: how often that reads, and then again until the last time.
        faults.state.withLock { $0.reads = 0 }
        await item.download()
        let last = faults.state.withLock { state in
            defer { state.reads = 0 }
            return state.reads
        }
        let (reads, isThere) = AsyncStream.makeStream(of: Void.self)
        faults.state.withLock { state in
            state.onRead = { number in
                guard number == last else { return }
                isThere.yield()
                while !Task.isCancelled { sched_yield() }
            }
        }
        item.start()
        for await _ in reads { break }
        await test.cache.suspendDownloadsAndWait()
        #expect(item.progress.status == .complete)
        item.pause()
        await test.cache.suspendDownloadsAndWait()
        #expect(item.progress.status == .complete)
    }

    @Test func whatAnotherProcessHasEndedIsComplete() async throws {
        let origin = TestOrigin([url: TestFile.file(seconds: 8)])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        origin.hold { _ in try? await Task.sleep(for: .seconds(3600)) }
        item.start()
        await item.until { $0.status == .caching }
        await test.cache.suspendDownloadsAndWait()
        #expect(await item.refresh().status == .waiting)
        origin.hold(nil)
        let other = TestCache(origin, folder: test.folder)
        await other.cache.item(url, format: .file).download()
        // What has lost something since is to go on.
        try test.index.execute("DELETE FROM block")
        #expect(await item.refresh().status == .waiting)
        await other.cache.item(url, format: .file).download()
        #expect(await item.refresh().status == .complete)
        // It does not go on.
        origin.forget()
        test.cache.resumeDownloads()
        #expect(await item.refresh().status == .complete && origin.requests.isEmpty)
    }

    /// A network may be as slow as it is: only one that stands still ends a request.
    @Test func requestsHaveTimeAsLongAsBytesCome() async throws {
        let origin = TestOrigin([url: TestFile.file(seconds: 3)])
        let test = TestCache(origin)
        await test.cache.item(url, format: .file).download()
        #expect(!origin.times.isEmpty)
        #expect(origin.times.allSatisfy { $0.whole >= .seconds(3600) && $0.stall.map { $0 <= .seconds(60) } == true })
    }

    @Test func theCachedDurationGrowsWithEachFragment() async throws {
        let file = TestFile.file(seconds: 6)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin, blockSize: 1024)
        let item = test.cache.item(url, format: .file)
        // The network ends in the fourth second.
        let end = file.count * 4 / 6
        origin.fail { request in
            request.range.map { $0.upperBound > end && $0.lowerBound < file.count - 5000 } == true
                ? HTTPResponse(status: 403, url: request.url) : nil
        }
        await item.download()
        #expect(item.progress.status.failure == .serverError)
        #expect(item.progress.totalDuration == .seconds(6))
        #expect(item.progress.cachedDuration > .zero && item.progress.cachedDuration <= .seconds(4))
        #expect(item.progress.cachedSize < UInt64(file.count))
    }

    /// Two seconds, as the caches of these tests are configured.
    @Test func itIsReadyToPlayFromTheMinimumOn() async throws {
        let origin = TestOrigin([url: TestFile.file(seconds: 6)])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        var seen: [CachedItem.Progress] = []
        // Each time it comes one request further.
        while item.progress.status != .complete, seen.count < 20 {
            origin.failRequests(after: 1)
            await item.download()
            seen.append(item.progress)
        }
        #expect(seen.allSatisfy { $0.isReadyToPlay == ($0.cachedDuration >= .seconds(2)) }, "\(seen)")
        #expect(Set(seen.map(\.cachedDuration)).isSuperset(of: [.seconds(1), .seconds(2)]), "\(seen)")
    }

    /// It ends no download, is known to the next process, and lasts until a license is there or nobody is to be asked.
    @Test func withoutTheLicenseThatWasWantedNothingIsReadyToPlay() async throws {
        let test = TestCache(TestOrigin([url: TestFile.file(seconds: 8)]))
        let item = test.cache.item(url, format: .file)
        let asked = Mutex(0)
        await item.download(licenseStoring: {
            asked.withLock { $0 += 1 }
            return "the service says no"
        })
        #expect(asked.withLock { $0 } == 1)
        #expect(item.progress.status == .complete && !item.progress.isReadyToPlay)
        #expect(item.progress.warning?.code == .licenseNotKept)
        #expect(item.progress.warning?.description.contains("the license is not stored") == true)
        #expect(item.progress.warning?.description.contains("the service says no") == true)

        let next = TestCache(TestOrigin([:]), folder: test.folder).cache.item(url, format: .file)
        await next.refresh()
        #expect(!next.progress.isReadyToPlay && next.progress.warning?.code == .licenseNotKept)
        await item.download(licenseStoring: { nil })
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
        await item.download(licenseStoring: { "it is gone" })
        #expect(!item.progress.isReadyToPlay)
        await item.download()
        #expect(item.progress.isReadyToPlay && item.progress.warning == nil)
    }

    @Test func ofADownloadThatCameToNothingNothingIsLeft() async throws {
        let test = TestCache(TestOrigin([:]))
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .serverError && item.progress.cachedSize == 0)
        #expect(try await test.cache.allItems().isEmpty && !test.cache.isCached(url))
        #expect(test.dataFiles.isEmpty)
        // Why is known for as long as the item is.
        #expect(await item.refresh().status.failure == .serverError)
        #expect(await test.cache.item(url, format: .file).refresh().status.failure == .serverError)
        try await item.purgeAndWait()
        #expect(await item.refresh().status == .notCached)
    }

    @Test func aDownloadGoesOnWhereItStopped() async throws {
        let file = TestFile.file(seconds: 12)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        origin.failRequests(after: 2)
        await item.download()
        #expect(item.progress.status.failure == .serverError)
        let had = item.progress.cachedSize
        #expect(had > 0 && had < file.count)
        // As another process, after a crash of this one.
        origin.fail(nil)
        origin.forget()
        let again = TestCache(origin, folder: test.folder)
        let resumed = try #require(try await again.cache.allItems().first)
        #expect(resumed.url == url)
        #expect(await resumed.refresh().status == .paused)
        #expect(resumed.progress.cachedSize == had)
        // Nothing goes on by itself.
        #expect(origin.requests.isEmpty)
        await resumed.download()
        #expect(resumed.progress.status == .complete)
        let fetched = origin.requests.compactMap { $0.range?.clamped(to: 0...file.count - 1).count }.reduce(0, +)
        #expect(fetched == file.count - Int(had))
        origin.switchOff()
        #expect(try await resumed.read(url) == file)
    }

    @Test(.timeLimit(.minutes(8))) func pauseEndsItAndStartGoesOn() async throws {
        let file = TestFile.file(seconds: 12)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        let (held, cancelled) = holdWhatFollows(at: origin)
        item.start()
        await item.until { $0.status == .caching && $0.cachedSize > 0 }
        for await _ in held { break }
        item.pause()
        await item.until { $0.status == .paused }
        for await _ in cancelled { break }
        origin.hold(nil)
        await item.download()
        #expect(item.progress.status == .complete)
    }

    /// From now on, the origin answers for the start of the file alone. Tells of each other request, and of its cancellation.
    private func holdWhatFollows(at origin: TestOrigin) -> (held: AsyncStream<Void>, cancelled: AsyncStream<Void>) {
        let (held, hold) = AsyncStream.makeStream(of: Void.self)
        let (cancelled, cancel) = AsyncStream.makeStream(of: Void.self)
        origin.hold { request in
            guard (request.range?.lowerBound ?? 0) > 0 else { return }
            hold.yield()
            do { try await Task.sleep(for: .seconds(3600)) } catch { cancel.yield() }
        }
        return (held, cancelled)
    }

    @Test func whatIsTemporaryIsTriedAgain() async throws {
        let file = TestFile.file(seconds: 3)
        let origin = TestOrigin([url: file])
        let count = Mutex(0)
        origin.fail { request in
            count.withLock { count in
                count += 1
                return count % 3 != 0 ? HTTPResponse(status: 503, url: request.url) : nil
            }
        }
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete)
    }

    @Test func withoutTheNetworkItFailsAfterSomeTries() async throws {
        let origin = TestOrigin([:])
        origin.switchOff()
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .unreachable)
        #expect(origin.requests.count == ItemDownload.pauses.count + 1)
    }

    @Test func aChangedOriginIsNamedAndNothingIsLost() async throws {
        let file = TestFile.file(seconds: 12)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        origin.failRequests(after: 1)
        await item.download()
        let had = item.progress.cachedSize
        origin.fail(nil)
        origin.change(url, TestFile.file(seconds: 12, size: 4001), validator: "\"2\"")
        await item.download()
        #expect(item.progress.status.failure == .contentChanged)
        #expect(item.progress.cachedSize == had)
        // The same bytes under another validator may be others where nobody looks.
        origin.change(url, file, validator: "\"3\"")
        await item.download()
        #expect(item.progress.status.failure == .contentChanged)
        origin.change(url, file, validator: "\"1\"")
        await item.download()
        #expect(item.progress.status == .complete)
    }

    @Test(arguments: ["<!DOCTYPE html><html>", #"{"error": "not authorized"}"#])
    func whatCameInItsPlaceIsNoContent(_ text: String) async throws {
        let origin = TestOrigin([:])
        origin.fail { HTTPResponse(status: 200, body: Array(text.utf8), url: $0.url) }
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .invalidContent)
        #expect(item.progress.cachedSize == 0)
    }

    @Test func aServerWithoutRangesWillDoForWhatIsSmall() async throws {
        let file = TestFile.file(seconds: 5)
        let origin = TestOrigin([url: file])
        origin.forgetRanges()
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status == .complete)
        #expect(origin.requests.count == 1)
    }

    /// The error has the part of the path that is in the way, once.
    @Test func aFolderThatCannotBeMadeIsNamed() async throws {
        let origin = TestOrigin([url: TestFile.file(seconds: 5)])
        let file = NSTemporaryDirectory() + "/file-\(UUID().uuidString)"
        try #require(FileManager.default.createFile(atPath: file, contents: nil))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let places = [
            (file, "\(file) is no folder; "), (file + "/films/new", "\(file) is no folder; "),
            ("/proc/latchkey/films", "the folder /proc/latchkey cannot be made there; "),
        ]
        for (folder, reason) in places {
            let item = TestCache(origin, folder: folder).cache.item(url, format: .file)
            await item.download()
            guard case .failed(let error) = item.progress.status else {
                Issue.record("\(folder): \(item.progress.status)")
                continue
            }
            #expect("\(error)" == "not permitted: \(reason)name another one for the cache")
        }
    }

    @Test func whatIsNoFileIsNamed() async throws {
        let origin = TestOrigin([url: [UInt8](repeating: 0x41, count: 5000)])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .invalidContent)
    }

    /// Nothing in it could be played, though each box can be read.
    @Test(arguments: [
        TestFile.box("moov", []), TestFile.movie(seconds: 4, isFragmented: false),
        TestFile.movie(seconds: 4) + TestFile.box("mdat", []),
        TestFile.box("mdat", [UInt8](repeating: 7, count: 9000)) + TestFile.box("moov", []),
    ])
    func whatHasNoMediaIsNoFile(boxes: [UInt8]) async throws {
        let origin = TestOrigin([url: TestFile.box("ftyp", Array("isom".utf8)) + boxes])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        #expect(item.progress.status.failure == .invalidContent && !item.progress.isReadyToPlay)
    }

    /// Goes through a file that is all there.
    private func walk(
        _ file: [UInt8], _ store: ItemStore, boxLimit: Int, onRead: @escaping @Sendable () -> Void = {}
    ) async -> CacheError? {
        let walk = FileWalk(
            store: store, url: url,
            bring: { _, _ throws(CacheError) in UInt64(file.count) },
            read: { range throws(CacheError) in
                onRead()
                return Array(file[Int(range.lowerBound)..<min(Int(range.upperBound), file.count)])
            }, boxLimit: boxLimit)
        do throws(CacheError) {
            try await walk.run()
            return nil
        } catch {
            return error
        }
    }

    @Test func aFileOfMoreBoxesThanAnyHasIsRefused() async throws {
        // `ftyp`, `moov`, and two boxes for each second.
        let file = TestFile.file(seconds: 4)
        let test = TestCache(TestOrigin([url: file]))
        let (use, _) = await test.cache.item(url, format: .file).operations.openForPlaying()
        let error = await walk(file, use.fetcher.store, boxLimit: 9)
        #expect(error?.code == .unsupportedContent && error?.reason.contains("more than 9 boxes") == true)
        #expect(await walk(file, use.fetcher.store, boxLimit: 10) == nil)
    }

    /// If all of it is on disk, nothing waits for the network, and no wait ends.
    @Test func aWalkThroughAFileEndsIfItsTaskDoes() async throws {
        let file = TestFile.file(seconds: 4)
        let test = TestCache(TestOrigin([url: file]))
        let (use, _) = await test.cache.item(url, format: .file).operations.openForPlaying()
        let reads = Mutex(0)
        let cancel: @Sendable () -> Void = {
            reads.withLock { $0 += 1 }
            withUnsafeCurrentTask { $0?.cancel() }
        }
        let task = Task { await walk(file, use.fetcher.store, boxLimit: 100, onRead: cancel) }
        let error = await task.value
        #expect(error?.code == .cancelled)
        #expect(reads.withLock { $0 } == 1)
    }

    @Test func aFileWithoutFragmentsCountsWhenItIsWhole() async throws {
        let file =
            TestFile.box("ftyp", Array("isom".utf8)) + TestFile.box("mdat", [UInt8](repeating: 7, count: 9000))
            + TestFile.movie(seconds: 4, isFragmented: false)
        let origin = TestOrigin([url: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        let seen = await item.download()
        #expect(item.progress.status == .complete)
        #expect(item.progress.totalDuration == .seconds(4))
        #expect(item.progress.cachedDuration == .seconds(4))
        #expect(seen.dropLast().allSatisfy { $0.cachedDuration == .zero || $0.cachedSize == file.count })
    }

    @Test func twentyAtOnceKeepToTheLimit() async throws {
        let file = TestFile.file(seconds: 4)
        let urls = (0..<20).map { "https://media.example/\($0).ismv" }
        let origin = TestOrigin(Dictionary(uniqueKeysWithValues: urls.map { ($0, file) }))
        origin.hold { _ in for _ in 0..<20 { await Task.yield() } }
        let test = TestCache(origin, limit: 4)
        let items = urls.map { test.cache.item($0, format: .file) }
        await withTaskGroup(of: Void.self) { group in
            for item in items { group.addTask { await item.download() } }
        }
        #expect(items.allSatisfy { $0.progress.status == .complete })
        #expect(origin.most <= 4)
        origin.switchOff()
        for item in items { #expect(try await item.read(item.url) == file) }
        #expect(try await test.cache.allItems().count == 20)
    }

    @Test(.timeLimit(.minutes(8))) func whatWaitsForItsTurnSaysSo() async throws {
        let urls = (0..<3).map { "https://media.example/\($0).ismv" }
        let file = TestFile.file(seconds: 4)
        let origin = TestOrigin(Dictionary(uniqueKeysWithValues: urls.map { ($0, file) }))
        // Until it is cancelled.
        origin.hold { _ in try? await Task.sleep(for: .seconds(3600)) }
        let test = TestCache(origin, limit: 2)
        let items = urls.map { test.cache.item($0, format: .file) }
        for item in items.dropLast() {
            item.start()
            await item.until { $0.status == .caching }
        }
        items[2].start()
        await items[2].until { $0.status == .waiting }
        for _ in 0..<20 { #expect(await items[2].refresh().status == .waiting) }
        items[0].pause()
        await items[2].until { $0.status == .caching }
        #expect(items[1].progress.status == .caching)
        for item in items {
            item.pause()
            await item.until { $0.status == .paused }
        }
    }

    /// An item is not used for a long time, and others are downloaded.
    @Test func nothingExpiresAndNothingIsCleanedUp() async throws {
        let file = TestFile.file(seconds: 4)
        let other = "https://media.example/other.ismv"
        let origin = TestOrigin([url: file, other: file])
        let test = TestCache(origin)
        await test.cache.item(url, format: .file).download()
        let old = [FileAttributeKey.modificationDate: Date(timeIntervalSince1970: 0)]
        for place in test.files { try FileManager.default.setAttributes(old, ofItemAtPath: place.path) }
        let later = TestCache(origin, folder: test.folder)
        await later.cache.item(other, format: .file).download()
        let items = try await later.cache.allItems()
        #expect(items.map(\.url) == [url, other])
        #expect(items.allSatisfy { $0.progress.status == .complete })
        origin.switchOff()
        for item in items { #expect(try await item.read(item.url) == file) }
    }

    @Test func purgeTakesEverythingAway() async throws {
        let file = TestFile.file(seconds: 4)
        let other = "https://media.example/other.ismv"
        let origin = TestOrigin([url: file, other: file])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        await item.download()
        await test.cache.item(other, format: .file).download()
        #expect(test.cache.isCached(url))
        try await item.purgeAndWait()
        #expect(item.progress == CachedItem.Progress())
        #expect(!test.cache.isCached(url))
        #expect(try await test.cache.allItems().map(\.url) == [other])
        #expect(test.dataFiles.count == 1)
        // And it may come again.
        await item.download()
        #expect(item.progress.status == .complete)
    }

    @Test(.timeLimit(.minutes(8))) func purgeEndsADownloadThatRuns() async throws {
        let origin = TestOrigin([url: TestFile.file(seconds: 12)])
        let test = TestCache(origin)
        let item = test.cache.item(url, format: .file)
        let (held, cancelled) = holdWhatFollows(at: origin)
        item.start()
        await item.until { $0.status == .caching && $0.cachedSize > 0 }
        for await _ in held { break }
        try await item.purgeAndWait()
        for await _ in cancelled { break }
        origin.hold(nil)
        origin.forget()
        #expect(item.progress == CachedItem.Progress())
        #expect(test.dataFiles.isEmpty && origin.requests.isEmpty)
        #expect(try await test.cache.allItems().isEmpty)
    }
}
