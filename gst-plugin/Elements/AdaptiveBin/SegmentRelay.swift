// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import Synchronization

/// Fetches media segments in the stock demuxer's place, and tries on where the network fails or something else comes in the
/// place of media: the stock demuxer gives up after four attempts within a twentieth of a second. Thread-safe.
final class SegmentRelay: Sendable {
    /// What others may want to know. URLs may have queries.
    enum Notice: Sendable {
        /// A segment was handed on, to its last byte, in so many nanoseconds. `type` is what the server calls it.
        case done(url: String, status: Int, type: String?, size: Int, time: UInt64)
        /// A status that is no success. Each time.
        case serverError(url: String, status: Int)
        /// No media. Once, until media came from there.
        case foreign(ForeignContent, url: String)
        /// Nothing can be had from the network. Once for each URL, until something came from there.
        case noNetwork(PresentationFailure)
        /// A segment that was handed on in part breaks off for good.
        ///
        /// Workaround (GStreamer <1.26): the stock demuxer takes a transport stream for complete then, and waits for ever
        /// for the rest of fragmented MP4.
        case lost(PresentationFailure)
    }

    /// Between two attempts.
    static let pause = Duration.seconds(1)
    /// How long no byte comes before a connection counts as broken: less than the stock demuxer waits, which is 10 s. Where
    /// trying on is up to that, it is longer, so that the stock demuxer ends what stalls, as with clear media.
    private static let stallTimeouts = (own: Duration.seconds(6), stock: Duration.seconds(12))

    private let origin: PresentationOrigin
    private let limit: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (Duration) async throws -> Void
    private let tell: @Sendable (Notice) -> Void
    private let outages = Mutex(Outages())
    /// A whole file is asked for, and by no one who asks again: server errors are waited for here. Before something came,
    /// nothing is told, and only a connection that fails is waited for, as long as for a byte: the player's source is another
    /// way then.
    private let isForPlayers: Bool
    private let hasCome = Atomic(false)

    /// Of each URL that fails: another one may be had meanwhile.
    private struct Outages {
        enum News { case noNetwork, foreignContent, serverError }
        struct Entry {
            let url: String
            let start: ContinuousClock.Instant
            var told: Set<News> = []
        }

        /// Streams that fail at one time, and more.
        private static let limit = 32
        private var entries: [Entry] = []

        /// Whether this is news of the URL's outage, which begins now unless it has begun.
        mutating func begin(_ url: String, at now: ContinuousClock.Instant, _ news: News?) -> Bool {
            if !entries.contains(where: { $0.url == url }) {
                if entries.count >= Self.limit { entries.removeFirst() }
                entries.append(Entry(url: url, start: now))
            }
            guard let news, let index = entries.firstIndex(where: { $0.url == url }) else { return false }
            return entries[index].told.insert(news).inserted
        }

        mutating func end(_ url: String) { entries.removeAll { $0.url == url } }

        func duration(of url: String, at now: ContinuousClock.Instant) -> Duration {
            entries.first { $0.url == url }.map { $0.start.duration(to: now) } ?? .zero
        }
    }

    /// Whether the player's source is another way to the file.
    private var isBeginning: Bool { isForPlayers && !hasCome.load(ordering: .relaxed) }

    /// `limit`: how long one outage may last before a request fails; zero: one attempt for each request. `sleep` throws when
    /// the task is cancelled, and `now` is the time that it is part of.
    init(
        _ origin: PresentationOrigin, limit: Duration, isForPlayers: Bool = false,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        tell: @escaping @Sendable (Notice) -> Void
    ) {
        (self.origin, self.limit, self.now, self.sleep, self.tell) = (origin, limit, now, sleep, tell)
        self.isForPlayers = isForPlayers
    }

    /// For `SegmentDownload`.
    var stallTimeout: Duration {
        isForPlayers || limit > .zero ? Self.stallTimeouts.own : Self.stallTimeouts.stock
    }

    // MARK: Outages

    /// Whether to try again, after a pause, what failed at `url`. False where that cannot help, where the outage lasts too
    /// long, and where the task is cancelled.
    func triesAgain(_ failure: PresentationFailure, at url: String) async -> Bool {
        let mayCome =
            isBeginning
            ? failure.isOfConnection && !isOver(url, after: min(limit, stallTimeout))
            : didFail(failure, at: url) && !isOver(url, after: limit)
        guard mayCome else { return false }
        return await waits(Self.pause)
    }

    /// Whether the stock demuxer is to hear of what may be had later. Once in an outage.
    ///
    /// Workaround (GStreamer >=1.26): it takes the third server error in a row for the end of the stream, without an error.
    func handsOn(_ failure: PresentationFailure, at url: String) -> Bool {
        guard case .status = failure.cause, !isForPlayers else { return false }
        return begin(url, .serverError)
    }

    /// False where the task is cancelled.
    func waits(_ pause: Duration) async -> Bool {
        do {
            try await sleep(pause)
            return true
        } catch {
            return false
        }
    }

    /// Tells of what failed at `url`. Returns whether it may be had later.
    @discardableResult
    func didFail(_ failure: PresentationFailure, at url: String) -> Bool {
        switch failure.cause {
        case .foreign(let content): if begin(url, .foreignContent) { tell(.foreign(content, url: url)) }
        case .status(let status):
            tell(.serverError(url: url, status: status))
            if failure.mayPass { _ = begin(url, nil) }
        case .connection: if begin(url, .noNetwork) { tell(.noNetwork(failure)) }
        case .other: break
        }
        return failure.mayPass
    }

    /// What failed as the stock demuxer is to hear of it, which gives up where the outage has lasted too long. Where there
    /// is one attempt only, trying on is up to that.
    func ended(_ failure: PresentationFailure, at url: String) -> PresentationFailure {
        failure.givenUp(limit > .zero && isOver(url, after: limit))
    }

    /// A part of it went on, and no more will. Where there is one attempt only, that is up to the stock demuxer.
    func didLose(_ failure: PresentationFailure) {
        if limit > .zero { tell(.lost(failure)) }
    }

    /// It came over the network.
    func didSucceed(_ url: String) {
        hasCome.store(true, ordering: .relaxed)
        outages.withLock { $0.end(url) }
    }

    /// Whether the outage has lasted too long.
    private func isOver(_ url: String, after limit: Duration) -> Bool {
        let now = now()
        return outages.withLock { $0.duration(of: url, at: now) >= limit }
    }

    private func begin(_ url: String, _ news: Outages.News?) -> Bool {
        let now = now()
        return outages.withLock { $0.begin(url, at: now, news) }
    }

    // MARK: Segments

    /// What the origin answers, as it comes. The first server error of an outage goes on to the stock demuxer, which asks again.
    /// Once an outage has lasted too long, that gets 404, after which it gives up. Throws why nothing can be had.
    ///
    /// `isEncrypted`: the segment is decrypted as a whole before the stock demuxer sees it, and comes as it is.
    func answer(
        _ url: String, _ request: LoopbackRequest, isEncrypted: Bool = false
    ) async throws(PresentationFailure) -> LoopbackResponse {
        // An attempt that brings nothing counts from its start.
        if isBeginning { _ = begin(url, nil) }
        while true {
            let start = now()
            do throws(PresentationFailure) {
                return try await attempt(url, request, isEncrypted, since: start)
            } catch {
                guard await triesAgain(error, at: url) else { throw ended(error, at: url) }
                if handsOn(error, at: url) { throw error }
            }
        }
    }

    private func attempt(
        _ url: String, _ request: LoopbackRequest, _ isEncrypted: Bool, since start: ContinuousClock.Instant
    ) async throws(PresentationFailure) -> LoopbackResponse {
        let filters = !isForPlayers && !isEncrypted
        let download = SegmentDownload(
            url, for: request, range: request.header("Range"), stallTimeout: stallTimeout, from: origin)
        let (head, bytes, isComplete) = try await beginning(of: download, url)
        let isPart = head.status == 206 && head.contentRange?.first ?? 0 > 0
        if let foreign = ForeignContent(start: bytes, isPart: isPart, isEncrypted: isEncrypted) {
            let failure = PresentationFailure.foreign(foreign, inPlaceOf: "media", at: url)
            // If nothing is waited for, what becomes of it is up to the stock demuxer.
            guard limit == .zero, !isEncrypted, !isForPlayers else { throw failure }
            didFail(failure, at: url)
        }
        let part = RelayedPart(of: head, for: request)
        guard !isComplete, let part, part.sent.length.map({ $0 > bytes.count }) ?? true else {
            let all = isComplete ? bytes : try await rest(of: download, after: bytes, url)
            didSucceed(url)
            didHandOn(url, head, all.count, since: start)
            return LoopbackResponse(
                status: head.status, headers: headers(head), body: filters ? ID3Filter.filter(whole: all) : all)
        }
        let body = RelayedBody(
            url, request, download, head: head, start: bytes, part: part,
            isEncrypted: isEncrypted, filter: filters ? ID3Filter() : nil, relay: self, origin: origin
        ) { [weak self] size in
            self?.didHandOn(url, head, size, since: start)
        }
        var headers = headers(head)
        if let range = part.contentRange { headers.append(HTTPHeader(name: "Content-Range", value: range)) }
        let length = part.length.map { UInt64($0) }
        return LoopbackResponse(
            status: part.contentRange == nil ? head.status : 206, headers: headers,
            stream: LoopbackStream(length: length) { () async throws(LoopbackStream.Broken) in
                try await body.next()
            })
    }

    /// The head, enough of the body to tell what it is, and whether that is all.
    private func beginning(
        of download: SegmentDownload, _ url: String
    ) async throws(PresentationFailure) -> (HTTPResponse, [UInt8], isComplete: Bool) {
        var bytes: [UInt8] = []
        while let event = await download.next() {
            switch event {
            case .piece(let head, let piece):
                bytes += piece
                if bytes.count >= ForeignContent.size { return (head, bytes, false) }
            case .end(let response):
                guard 200...299 ~= response.status else {
                    throw .status(response.status, of: origin.medium, at: response.url)
                }
                return (response, bytes, true)
            case .failure(let failure): throw failure
            }
        }
        throw .transport(.cancelled(url), of: origin.medium)
    }

    private func rest(
        of download: SegmentDownload, after start: [UInt8], _ url: String
    ) async throws(PresentationFailure) -> [UInt8] {
        var bytes = start
        while let event = await download.next() {
            switch event {
            case .piece(_, let piece):
                bytes += piece
                guard bytes.count <= PresentationOrigin.segmentLimit else {
                    throw .transport(
                        .tooLarge(url, "more than \(PresentationOrigin.segmentLimit) bytes"), of: origin.medium)
                }
            case .end: return bytes
            case .failure(let failure): throw failure
            }
        }
        throw .transport(.cancelled(url), of: origin.medium)
    }

    private func headers(_ head: HTTPResponse) -> [HTTPHeader] {
        PresentationOrigin.returned(head.headers)
            + ["Accept-Ranges", "Content-Range", "Content-Encoding"].compactMap { name in
                head.header(name).map { HTTPHeader(name: name, value: $0) }
            }
    }

    private func didHandOn(_ url: String, _ head: HTTPResponse, _ size: Int, since start: ContinuousClock.Instant) {
        let (seconds, attoseconds) = start.duration(to: now()).components
        let time = UInt64(clamping: seconds) &* 1_000_000_000 &+ UInt64(clamping: attoseconds / 1_000_000_000)
        tell(.done(url: url, status: head.status, type: head.header("Content-Type"), size: size, time: time))
    }
}

extension PresentationFailure {
    /// As the stock demuxer is to hear of it: where all was tried, with a status after which it gives up.
    func givenUp(_ isOver: Bool) -> PresentationFailure {
        var failure = self
        if isOver { failure.status = 404 }
        return failure
    }
}

extension SegmentRelay.Notice {
    /// The name of the message; its field `outcome` says what happened.
    private static let messageName = "latchkey-fetch"

    /// What is lost is an error, no message. URLs go without their queries, where tokens are.
    func post(on element: ElementReference) {
        if case .lost = self { return }
        element.post(Self.messageName, fields)
    }

    /// Those of the message. Empty for what is lost.
    var fields: [(String, FieldValue)] {
        switch self {
        case .done(let url, let status, let type, let size, let time):
            Self.fields("done", url, status)
                + [("size", .uint64(UInt64(clamping: size))), ("time", .uint64(time))]
                + (type.map { [("content-type", .string($0))] } ?? [])
        case .serverError(let url, let status): Self.fields("server-error", url, status)
        case .foreign(let content, let url):
            Self.fields("invalid-content", url, 200) + [("reason", .string(content.rawValue))]
        case .noNetwork(let failure):
            [("outcome", .string("no-network")), ("reason", .string(failure.text))]
        case .lost: []
        }
    }

    private static func fields(_ outcome: String, _ url: String, _ status: Int) -> [(String, FieldValue)] {
        [
            ("outcome", .string(outcome)), ("url", .string(HTTPRequest(url: url).printableURL)),
            ("http-status", .uint(UInt32(clamping: status))),
        ]
    }
}

/// The body of a segment on its way to the stock demuxer, which cannot mend one that breaks off. Where the connection breaks,
/// it goes on where it was.
actor RelayedBody {
    private let url: String
    private let request: LoopbackRequest
    private var download: SegmentDownload
    private let head: HTTPResponse
    private var start: [UInt8]
    private var body: ResumableBody
    private let relay: SegmentRelay
    private let origin: PresentationOrigin
    private let onEnd: @Sendable (Int) -> Void
    private let isEncrypted: Bool
    /// The connection broke, and nothing came since.
    private var isResumed = false
    /// Nil: everything goes on as it comes.
    private var filter: ID3Filter?
    private var hasEnded = false

    /// `start` is what came of it already; `onEnd` hears how many bytes were handed on, when all were.
    init(
        _ url: String, _ request: LoopbackRequest, _ download: SegmentDownload, head: HTTPResponse, start: [UInt8],
        part: RelayedPart, isEncrypted: Bool, filter: ID3Filter?, relay: SegmentRelay, origin: PresentationOrigin,
        onEnd: @escaping @Sendable (Int) -> Void
    ) {
        (self.url, self.request, self.download, self.head) = (url, request, download, head)
        (self.start, self.filter, self.relay, self.origin, self.onEnd) = (start, filter, relay, origin, onEnd)
        self.isEncrypted = isEncrypted
        body = ResumableBody(head, part)
    }

    /// The next piece; nil after the last one.
    func next() async throws(LoopbackStream.Broken) -> [UInt8]? {
        if hasEnded { return nil }
        if !start.isEmpty {
            let left = try take(start, of: head)
            start = []
            if !left.isEmpty { return left }
        }
        while let event = await download.next() {
            switch event {
            case .piece(let head, let piece):
                if isResumed, let foreign = foreign(piece, head) {
                    try await goOn(after: .foreign(foreign, inPlaceOf: "media", at: url))
                    continue
                }
                isResumed = false
                let left = try take(piece, of: head)
                if !left.isEmpty { return left }
            case .end(let response):
                if body.isWhole(at: response) {
                    onEnd(body.count)
                    hasEnded = true
                    let rest = filter?.end() ?? []
                    return rest.isEmpty ? nil : rest
                }
                guard !(200...299 ~= response.status) else { throw lost(.changed(url, origin.medium)) }
                try await goOn(after: .status(response.status, of: origin.medium, at: url))
            case .failure(let failure): try await goOn(after: failure)
            }
        }
        throw LoopbackStream.Broken()
    }

    /// What of a piece goes on.
    private func take(_ piece: [UInt8], of head: HTTPResponse) throws(LoopbackStream.Broken) -> [UInt8] {
        guard let left = body.take(piece, of: head) else { throw lost(.changed(url, origin.medium)) }
        if !left.isEmpty {
            relay.didSucceed(url)
            if body.isAtEnd, let length = body.part.length { onEnd(length) }
        }
        var filtered = filter?.filter(left) ?? left
        // The reader stops at the length that was announced, and does not ask again.
        if body.isAtEnd, let rest = filter?.end() { filtered += rest }
        return filtered
    }

    /// What came in the place of the rest: all of something else. A first piece may be too short to tell.
    private func foreign(_ piece: [UInt8], _ head: HTTPResponse) -> ForeignContent? {
        guard head.status != 206, piece.count >= 16 else { return nil }
        return ForeignContent(start: piece, isEncrypted: isEncrypted)
    }

    private func goOn(after failure: PresentationFailure) async throws(LoopbackStream.Broken) {
        guard await relay.triesAgain(failure, at: url) else { throw lost(failure) }
        isResumed = true
        let range = body.resume(request.header("Range"))
        download = SegmentDownload(
            url, for: request, range: range, stallTimeout: relay.stallTimeout, from: origin)
    }

    /// Tells of it, unless the body is not wanted any more.
    private func lost(_ failure: PresentationFailure) -> LoopbackStream.Broken {
        if !Task.isCancelled { relay.didLose(failure) }
        return LoopbackStream.Broken()
    }
}

extension PresentationFailure {
    static func changed(_ url: String, _ what: String) -> PresentationFailure {
        PresentationFailure(
            kind: .network,
            text:
                "The \(what) \(HTTPRequest(url: url).printableURL) cannot be had: its connection broke, and what came "
                + "next is of another size or content.",
            advice: "Check whether the server changed it, or give it an ETag that stays the same while its bytes do.")
    }
}

/// One request for a segment, with what arrives of it. For one reader, which holds the origin back where it takes nothing;
/// ends with the last reference. Thread-safe.
final class SegmentDownload: Sendable {
    enum Event: Sendable {
        /// A piece of a success, which is not empty, with the head.
        case piece(HTTPResponse, [UInt8])
        /// All is there. Where the status is no success, the response has the body.
        case end(HTTPResponse)
        case failure(PresentationFailure)
    }

    /// In bytes, of what came and was not taken: no more comes then but one piece, until half of it is taken.
    static let bufferLimit = 256 << 10

    /// What waits for the reader.
    private final class Buffer: Sendable {
        let gate = HTTPBodyGate()
        private let size = Mutex(0)

        func add(_ count: Int) {
            size.withLock {
                $0 += count
                if $0 >= SegmentDownload.bufferLimit { gate.close() }
            }
        }

        func remove(_ count: Int) {
            size.withLock {
                $0 -= count
                if $0 <= SegmentDownload.bufferLimit / 2 { gate.open() }
            }
        }
    }

    private let events: AsyncStream<Event>
    private let buffer: Buffer
    private let task: Task<Void, Never>

    /// `range` is the value of a `Range` field. The download fails if no byte comes for `stallTimeout`.
    init(
        _ url: String, for request: LoopbackRequest, range: String?, stallTimeout: Duration,
        from origin: PresentationOrigin
    ) {
        let (events, sender) = AsyncStream.makeStream(of: Event.self)
        let buffer = Buffer()
        (self.events, self.buffer) = (events, buffer)
        task = Task {
            do throws(PresentationFailure) {
                let end = try await origin.receive(
                    url, for: request, range: range, stallTimeout: stallTimeout, through: buffer.gate
                ) {
                    buffer.add($1.count)
                    sender.yield(.piece($0, $1))
                }
                sender.yield(.end(end))
            } catch {
                sender.yield(.failure(error))
            }
            sender.finish()
        }
    }

    deinit { task.cancel() }

    /// Nil after the end, and where the task that asks is cancelled.
    func next() async -> Event? {
        var iterator = events.makeAsyncIterator()
        let event = await iterator.next()
        if case .piece(_, let piece) = event { buffer.remove(piece.count) }
        return event
    }
}
