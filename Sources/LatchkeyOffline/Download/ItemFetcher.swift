// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Gives the blocks of one item's resources: from disk, or from the origin, and then they are on disk.
///
/// A download and any number of players share one of these: a block that is on its way for one comes to the other too,
/// and is asked for once.
actor ItemFetcher {
    /// What came for a run of blocks.
    private struct Fetched: Sendable {
        var first: UInt64
        var blocks: [[UInt8]] = []
        var error: CacheError?
        /// So many bytes of it are on disk: whole blocks, but for the last of the resource.
        var stored = 0
        /// The bytes came, and could not be stored.
        var storageError: CacheError?
    }

    private struct Key: Hashable {
        /// Its URL.
        var resource: String
        var block: UInt64
    }

    private final class Flight {
        let task: Task<Fetched, Never>
        var waiters = 0

        init(_ task: Task<Fetched, Never>) { self.task = task }
    }

    nonisolated let store: ItemStore
    private let transport: any HTTPTransport
    /// Of the item: what servers set goes along with its later requests.
    private let cookies = CookieStore()
    private let onChange: @Sendable () -> Void
    private var flights: [Key: Flight] = [:]
    /// Those that are not any more what was stored, until they are fetched again.
    private var altered: Set<Key> = []
    /// Of resources that begin as media does.
    private var mediaURLs: Set<String> = []

    /// What is asked for at once, in bytes: by a download, and by a player, who wants the first of it soon.
    nonisolated let downloadSize: Int
    var playbackSize: Int { pieceSize.bytes }
    private var pieceSize: PieceSize
    private let now: @Sendable () -> ContinuousClock.Instant
    /// What a server sends that knows no ranges.
    private static let unrangedLimit = 64 << 20
    /// How long nothing may come. How long all of it takes is the network's matter.
    private static let stallTimeout = Duration.seconds(30)
    private static let timeout = Duration.seconds(86400)

    /// `onChange` hears whenever more is on disk, or less.
    init(
        store: ItemStore, transport: any HTTPTransport, downloadSize: Int,
        now: @escaping @Sendable () -> ContinuousClock.Instant, onChange: @escaping @Sendable () -> Void
    ) {
        pieceSize = PieceSize(blockSize: store.blockSize, downloadSize: downloadSize)
        self.now = now
        self.store = store
        self.downloadSize = downloadSize
        self.transport = transport
        self.onChange = onChange
    }

    /// What comes from these URLs has to begin as media does. Not if applications add envelopes, which may begin with anything.
    func expectMedia(at urls: Set<String>) { mediaURLs = EnvelopeParsers().isEmpty ? urls : [] }

    // MARK: Bytes

    /// A block: empty behind the end of the resource. `ahead`: what else to ask for at once, in bytes.
    ///
    /// `mustStore`: what cannot be stored is an error; otherwise the bytes count.
    func block(
        _ number: UInt64, of url: String, ahead: Int, mustStore: Bool
    ) async throws(CacheError) -> [UInt8] {
        let resource = await store.resource(url)
        if let size = resource.size, number * UInt64(store.blockSize) >= size { return [] }
        let key = Key(resource: resource.url, block: number)
        if flights[key] == nil, let bytes = await stored(number, resource) { return bytes }
        var fetched = await fetched(number, resource, ahead)
        // The task that asked first may have given up.
        while fetched.error?.code == .cancelled, !Task.isCancelled {
            fetched = await self.fetched(number, resource, ahead)
        }
        if let error = fetched.error { throw altered.contains(key) ? error.ofAltered(number, resource, store) : error }
        if mustStore, let error = fetched.storageError { throw error }
        guard number >= fetched.first, let index = Int(exactly: number - fetched.first),
            fetched.blocks.indices.contains(index)
        else { return [] }
        return fetched.blocks[index]
    }

    /// A damaged disk is as good as none, for those who play.
    private func stored(_ number: UInt64, _ resource: CachedResource) async -> [UInt8]? {
        let offset = number * UInt64(store.blockSize)
        if await !store.isPresent(offset, 1, of: resource) { await store.follow() }
        guard await store.isPresent(offset, 1, of: resource) else { return nil }
        let bytes = (try? await store.read(number, of: resource)) ?? nil
        if bytes == nil {
            altered.insert(Key(resource: resource.url, block: number))
            onChange()
        }
        return bytes
    }

    /// Bytes of a resource, of those that are on disk; nil where one is not.
    func storedBytes(_ range: Range<UInt64>, of url: String) async -> [UInt8]? {
        let resource = await store.resource(url)
        let blockSize = UInt64(store.blockSize)
        var result: [UInt8] = []
        guard let size = resource.size else { return nil }
        var position = range.lowerBound
        while position < min(range.upperBound, size) {
            guard let block = await stored(position / blockSize, resource) else { return nil }
            let skipped = Int(position % blockSize)
            guard skipped < block.count else { return nil }
            let part = block[skipped...].prefix(Int(clamping: range.upperBound - position))
            result += part
            position += UInt64(part.count)
        }
        return result
    }

    /// Bytes of a resource; fewer at its end.
    func bytes(_ range: Range<UInt64>, of url: String, ahead: Int, mustStore: Bool) async throws(CacheError) -> [UInt8]
    {
        let blockSize = UInt64(store.blockSize)
        var result: [UInt8] = []
        var position = range.lowerBound
        while position < range.upperBound {
            let block = try await block(position / blockSize, of: url, ahead: ahead, mustStore: mustStore)
            let skipped = Int(position % blockSize)
            guard skipped < block.count else { break }
            let part = block[skipped...].prefix(Int(clamping: range.upperBound - position))
            result += part
            position += UInt64(part.count)
        }
        return result
    }

    /// A whole resource. Throws `unsupportedContent` above `limit` bytes.
    func whole(_ url: String, limit: Int, mustStore: Bool) async throws(CacheError) -> [UInt8] {
        let bytes = try await bytes(
            0..<UInt64(limit) + 1, of: url, ahead: downloadSize, mustStore: mustStore)
        guard bytes.count <= limit else { throw .unsupportedContent("it has more than \(limit) bytes", at: url) }
        return bytes
    }

    /// Sees to it that the bytes are on disk; nil: to the end. Returns the size of the resource.
    @discardableResult
    func store(_ offset: UInt64, _ length: UInt64?, of url: String) async throws(CacheError) -> UInt64 {
        let blockSize = UInt64(store.blockSize)
        var resource = await store.resource(url)
        if resource.size == nil {
            _ = try await block(offset / blockSize, of: url, ahead: downloadSize, mustStore: true)
            resource = await store.resource(url)
        }
        guard let size = resource.size else {
            throw .invalidContent("the server does not tell its size", at: url)
        }
        let end = length.map { offset < size ? offset + min($0, size - offset) : size } ?? size
        let last = (end + blockSize - 1) / blockSize
        var next = offset / blockSize
        while let missing = await store.missing(resource.url, from: next, to: last, limit: 1) {
            next = missing.lowerBound
            if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
            let bytes = try await block(
                missing.lowerBound, of: url, ahead: downloadSize, mustStore: true)
            guard !bytes.isEmpty else { throw CacheError(.cancelled, "the item was purged") }
            // One that is gone again would be asked for again and again.
            guard await store.isPresent(missing.lowerBound * blockSize, 1, of: store.resource(url)) else {
                throw CacheError(.cancelled, "the item was purged")
            }
        }
        return size
    }

    /// A key at its URL; nil where the server does not give one. Throws what may pass by itself.
    func key(_ url: String) async throws(CacheError) -> [UInt8]? {
        var request = HTTPRequest(url: url)
        request.maximumResponseSize = 4096
        request.cookies = cookies
        request.toleratesCompression = true
        var response: HTTPResponse
        do throws(HTTPError) {
            response = try await transport.send(request)
        } catch {
            throw CacheError(error)
        }
        ContentKey.removeLineEnd(behind: &response.body)
        if (200..<300).contains(response.status), response.body.count == KeySeal.keySize { return response.body }
        let error = CacheError.serverError(response.status, at: url)
        if error.isTemporary { throw error }
        return nil
    }

    // MARK: The origin

    private func fetched(_ number: UInt64, _ resource: CachedResource, _ ahead: Int) async -> Fetched {
        let key = Key(resource: resource.url, block: number)
        let flight: Flight
        if let known = flights[key] {
            flight = known
        } else {
            let blocks = await run(from: number, resource, ahead)
            // Meanwhile another task may have asked.
            if let known = flights[key] {
                flight = known
            } else {
                let free = blocks.prefix { flights[Key(resource: resource.url, block: $0)] == nil }
                flight = Flight(Task { await self.fetch(resource, free) })
                for block in free { flights[Key(resource: resource.url, block: block)] = flight }
            }
        }
        flight.waiters += 1
        let task = flight.task
        let result = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            Task { await self.leave(key) }
        }
        if !Task.isCancelled { flight.waiters -= 1 }
        return result
    }

    private func leave(_ key: Key) {
        guard let flight = flights[key] else { return }
        flight.waiters -= 1
        if flight.waiters <= 0 { flight.task.cancel() }
    }

    private func run(from number: UInt64, _ resource: CachedResource, _ ahead: Int) async -> Range<UInt64> {
        let blockSize = UInt64(store.blockSize)
        let limit = UInt64(max(1, min(ahead, downloadSize) / store.blockSize))
        let end = resource.size.map { ($0 + blockSize - 1) / blockSize } ?? number + limit
        return await store.missing(resource.url, from: number, to: max(end, number + 1), limit: limit)
            .flatMap { $0.lowerBound == number ? $0 : nil } ?? number..<number + 1
    }

    private func fetch(_ resource: CachedResource, _ blocks: Range<UInt64>) async -> Fetched {
        var result = Fetched(first: blocks.lowerBound)
        do throws(CacheError) {
            let start = now()
            let answer = try await answer(resource, blocks, &result)
            pieceSize.note(answer.bytes.count, took: now() - start)
            result.first = answer.first
            result.blocks = answer.blocks(of: store.blockSize)
            await keep(answer, &result)
        } catch {
            result.error = error
        }
        for block in blocks {
            let key = Key(resource: resource.url, block: block)
            flights[key] = nil
            if result.error == nil { altered.remove(key) }
        }
        onChange()
        return result
    }

    /// Asks for blocks, and stores each as it comes: what is on disk stays, however the request or the process ends.
    private func answer(
        _ resource: CachedResource, _ blocks: Range<UInt64>, _ result: inout Fetched
    ) async throws(CacheError) -> RangeAnswer {
        let blockSize = UInt64(store.blockSize)
        let range = blocks.lowerBound * blockSize..<min(blocks.upperBound * blockSize, resource.size ?? .max)
        var request = HTTPRequest(url: resource.url)
        request.headers = [HTTPHeader(name: "Range", value: "bytes=\(range.lowerBound)-\(range.upperBound - 1)")]
        (request.timeout, request.stallTimeout) = (Self.timeout, Self.stallTimeout)
        request.maximumResponseSize = Self.unrangedLimit
        request.cookies = cookies
        let arrival = Arrival(blockSize: store.blockSize)
        async let outcome = Self.outcome(of: request, transport, arrival)
        for await _ in arrival.changes { await keepStart(of: arrival, range, of: resource, &result) }
        switch await outcome {
        case .success(var response):
            if let arrived = arrival.response { response.body = arrived.body }
            return try RangeAnswer(
                response, to: range, of: resource, blockSize: store.blockSize,
                isMedia: mediaURLs.contains(resource.url))
        case .failure(let error):
            await keepStart(of: arrival, range, of: resource, &result)
            throw CacheError(error)
        }
    }

    private static func outcome(
        of request: HTTPRequest, _ transport: any HTTPTransport, _ arrival: Arrival
    ) async -> Result<HTTPResponse, HTTPError> {
        defer { arrival.end() }
        do throws(HTTPError) {
            return .success(try await transport.send(request, to: { arrival.take($0, $1) }))
        } catch {
            return .failure(error)
        }
    }

    /// Of a part alone: where a server sends the whole resource, its size is known at the end.
    private func keepStart(
        of arrival: Arrival, _ range: Range<UInt64>, of resource: CachedResource, _ result: inout Fetched
    ) async {
        guard let response = arrival.response, response.status == 206,
            let start = try? RangeAnswer(
                response, to: range, of: resource, blockSize: store.blockSize, isWhole: false,
                isMedia: mediaURLs.contains(resource.url))
        else { return }
        await keep(start, &result)
        onChange()
    }

    /// Stores what is not stored yet of an answer, or of its start.
    private func keep(_ answer: RangeAnswer, _ result: inout Fetched) async {
        guard result.storageError == nil else { return }
        do throws(CacheError) {
            if answer.bytes.isEmpty {
                try await store.write(answer.resource)
            } else if result.stored < answer.bytes.count {
                let first = answer.first + UInt64(result.stored / store.blockSize)
                try await store.write(Array(answer.bytes[result.stored...]), from: first, of: answer.resource)
                result.stored = answer.bytes.count
            }
        } catch {
            result.storageError = error
            await store.learn(answer.resource)
        }
    }
}

extension CacheError {
    /// With the reason why what was on disk had to be fetched again.
    fileprivate func ofAltered(_ block: UInt64, _ resource: CachedResource, _ store: ItemStore) -> CacheError {
        let first = block * UInt64(store.blockSize)
        let last = min(first + UInt64(store.blockSize), resource.size ?? .max) - 1
        return CacheError(
            code,
            "bytes \(first) to \(last) of \(Self.printable(resource.url)) were altered on disk, and cannot be fetched "
                + "again: \(reason)", httpStatus: httpStatus)
    }
}

/// How much a player asks an origin for at once: it gets the first byte when the last one is there, and each request costs
/// the way to the origin and back. Follows the network, between a block and what a download asks for. A value.
struct PieceSize: Sendable {
    /// In bytes.
    private(set) var bytes: Int
    private let limits: ClosedRange<Int>

    /// GStreamer's HTTP source waits 15 seconds, and a demuxer has less than that in stock.
    private static let longest = Duration.seconds(4)
    /// Twice as much stays below the longest.
    private static let shortest = Duration.seconds(2)

    init(blockSize: Int, downloadSize: Int) {
        limits = min(blockSize, downloadSize)...downloadSize
        bytes = min(max(256 << 10, limits.lowerBound), limits.upperBound)
    }

    /// So many bytes came as one piece.
    mutating func note(_ count: Int, took time: Duration) {
        if time > Self.longest, count <= bytes {
            bytes = max(bytes / 2, limits.lowerBound)
        } else if time < Self.shortest, count == bytes {
            bytes = min(bytes * 2, limits.upperBound)
        }
    }
}

/// What an origin answered where a part of a resource was asked for, checked against what is known of the resource. A
/// value.
struct RangeAnswer: Sendable {
    /// The first block that is there as a whole.
    let first: UInt64
    /// Whole blocks; the last may be shorter where the resource ends.
    let bytes: [UInt8]
    /// With its size and its validator.
    let resource: CachedResource

    /// Throws `serverError`, `invalidContent` for what is no content and for a malformed answer, and `contentChanged` where size or
    /// validator are others than before: bytes of two versions never come together. `isWhole`: whether all of the body is
    /// there, and not only its start. `isMedia`: whether the resource has to begin as media does.
    init(
        _ response: HTTPResponse, to range: Range<UInt64>, of known: CachedResource, blockSize: Int,
        isWhole: Bool = true, isMedia: Bool = false
    ) throws(CacheError) {
        var resource = known
        var offset: UInt64 = 0
        let total: UInt64
        switch response.status {
        case 206:
            guard let range = response.contentRange, let first = range.first, let last = range.last,
                let size = range.size,
                isWhole ? last - first + 1 == response.body.count : last - first + 1 >= response.body.count
            else {
                throw .invalidContent("an answer with a part has no usable Content-Range", at: response.url)
            }
            (offset, total) = (UInt64(first), UInt64(size))
        case 200..<300: total = UInt64(response.body.count)
        // A resource without bytes has no part.
        case 416 where range.lowerBound == 0 && (known.size ?? 0) == 0: total = 0
        case 416: throw Self.changed(known)
        default: throw .serverError(response.status, at: response.url)
        }
        guard total <= CachedResource.largestSize else {
            throw .invalidContent("the server tells a size of \(total) bytes", at: response.url)
        }
        let body = response.status == 416 ? [] : response.body
        if let foreign = ForeignContent(start: body, isPart: offset > 0) {
            throw .invalidContent(
                "\(foreign.rawValue) came in the place of media, as from the log-in page of a network: open the URL in a browser",
                at: response.url)
        }
        if isMedia, offset == 0, !MediaStart.mayBeOne(body) { throw .noMedia(at: response.url) }
        let validator = response.header("ETag") ?? response.header("Last-Modified") ?? ""
        let isOther = !known.validator.isEmpty && !validator.isEmpty && validator != known.validator
        guard known.size == nil || known.size == total, !isOther else { throw Self.changed(known) }
        resource.size = total
        if !validator.isEmpty { resource.validator = validator }
        resource.answeringURL = response.url
        resource.contentType = response.header("Content-Type") ?? ""
        self.resource = resource

        // From the start of a block to the end of one, or of the resource.
        let size = UInt64(blockSize)
        first = (offset + size - 1) / size
        let skipped = first * size - offset
        let end = offset + UInt64(body.count)
        let stop = end >= total ? end : end / size * size
        bytes = stop > first * size ? Array(body[Int(skipped)..<Int(stop - offset)]) : []
        guard first * size <= range.lowerBound, stop > range.lowerBound || total <= range.lowerBound || !isWhole else {
            throw .invalidContent("the server sends other bytes than were asked for", at: response.url)
        }
    }

    /// One array for each block.
    func blocks(of size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    private static func changed(_ resource: CachedResource) -> CacheError {
        CacheError(
            .contentChanged,
            "\(CacheError.printable(resource.url)) is not any more what it was when a part of it was cached; "
                + "purge it and start again")
    }
}

/// The body of one answer as it comes. Thread-safe.
final class Arrival: Sendable {
    /// One for each whole block that may have come since; ends with the answer.
    let changes: AsyncStream<Void>

    private let blockSize: Int
    private let news: AsyncStream<Void>.Continuation
    private let state = Mutex<HTTPResponse?>(nil)

    init(blockSize: Int) {
        self.blockSize = blockSize
        (changes, news) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// What came so far; nil before the first byte.
    var response: HTTPResponse? { state.withLock { $0 } }

    func take(_ head: HTTPResponse, _ bytes: [UInt8]) {
        let isNews = state.withLock { state in
            var response: HTTPResponse? = nil
            swap(&response, &state)
            let before = response?.body.count ?? 0
            // Alone here, so that nothing is copied to append.
            if response == nil { response = head }
            response?.body += bytes
            swap(&response, &state)
            return before / blockSize != (before + bytes.count) / blockSize
        }
        if isNews { news.yield() }
    }

    func end() { news.finish() }
}
