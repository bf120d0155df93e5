// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyOffline
import Synchronization
import Testing

@testable import Latchkey

/// What an application has of a download: an object that it may give up and make again.
@Suite("Cached content", .timeLimit(.minutes(8)))
struct CachedContentTests {
    private let url = "https://media.example/film.ismv"
    private let folder = NSTemporaryDirectory() + "/cached-content-\(UUID().uuidString)"

    /// A server with one file that answers nothing until it may. What waits uses no processor: with sanitizers, many tests share
    /// the threads.
    private final class HeldTransport: HTTPTransport {
        private struct Gate {
            var isOpen = false
            var waiting: [AsyncStream<Void>.Continuation] = []
        }

        private let gate = Mutex(Gate())
        private let file: [UInt8]

        init(_ file: [UInt8]) { self.file = file }

        func open() {
            let waiting = gate.withLock { gate in
                gate.isOpen = true
                defer { gate.waiting = [] }
                return gate.waiting
            }
            for continuation in waiting { continuation.finish() }
        }

        /// Ends at once if the task is cancelled.
        private func waitUntilOpen() async {
            let (opening, continuation) = AsyncStream.makeStream(of: Void.self)
            let isOpen = gate.withLock { gate -> Bool in
                if !gate.isOpen { gate.waiting.append(continuation) }
                return gate.isOpen
            }
            guard !isOpen else { return }
            for await _ in opening {}
        }

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            await waitUntilOpen()
            guard !Task.isCancelled else { throw .cancelled(request.url) }
            let range = request.headers.first { $0.name == "Range" }.flatMap { LoopbackRange($0.value) }
            guard let bounds = range?.bounds(in: file.count) else { return HTTPResponse(status: 416, url: request.url) }
            let part = HTTPHeader(
                name: "Content-Range", value: "bytes \(bounds.lowerBound)-\(bounds.upperBound - 1)/\(file.count)")
            return HTTPResponse(status: 206, headers: [part], body: Array(file[bounds]), url: request.url)
        }
    }

    private func film() throws -> HeldTransport {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../../Tests/Corpus/bento4-piff-ctr-ismv/media.ismv")
        return HeldTransport(Array(try Data(contentsOf: file)))
    }

    private func until(_ content: CachedContent, _ status: CachedItem.Status) async {
        for await progress in content.updates where progress.status == status { return }
    }

    @Test func anObjectIsGivenUpAndMadeAgainAndItsDownloadGoesOn() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let transport = try film()
        let cache = ContentCache(ContentCache.Configuration(folder: folder), transport: transport)
        var content: CachedContent? = try CachedContent(url: url, type: .piff, cache: cache)
        content?.start()
        if let content { await until(content, .caching) }
        content = nil
        let again = try CachedContent(url: url, type: .piff, cache: cache)
        #expect(again.status == .caching)
        transport.open()
        await until(again, .complete)
        #expect(again.isReadyToPlay && again.cachedDuration > .zero && again.cachedDuration == again.totalDuration)
        let found = try await CachedContent.allItems(in: cache)
        #expect(found.map(\.contentURL) == [url] && found.map(\.type) == [.piff])
        #expect(found.first?.status == .complete)
    }

    /// Each returns at once, while the server answers nothing, and the status tells when it is done.
    @Test func theStatusTellsWhatBecameOfAnOperation() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let transport = try film()
        let cache = ContentCache(ContentCache.Configuration(folder: folder), transport: transport)
        let content = try CachedContent(url: url, type: .piff, cache: cache)
        #expect(content.status == .notCached && content.totalDuration == nil && !content.isReadyToPlay)
        content.start()
        await until(content, .caching)
        content.pause()
        await until(content, .paused)
        content.resume()
        await until(content, .caching)
        transport.open()
        await until(content, .complete)
        content.purge()
        await until(content, .notCached)
        #expect(content.cachedDuration == .zero && content.totalDuration == nil && !content.isReadyToPlay)
        #expect(try await CachedContent.allItems(in: cache).isEmpty)
    }
}
