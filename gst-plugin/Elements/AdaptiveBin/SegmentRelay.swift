// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers
import Synchronization

/// Fetches media segments in the stock demuxer's place, and tries on where the network fails or a web page comes in the
/// place of media: the stock demuxer gives up after four attempts within a twentieth of a second. Thread-safe.
final class SegmentRelay: Sendable {
    /// What others may want to know. URLs may have queries.
    enum Notice: Sendable {
        /// A segment was handed on, to its last byte, in so many nanoseconds.
        case done(url: String, status: Int, size: Int, time: UInt64)
        /// A status that is no success. Each time.
        case serverError(url: String, status: Int)
        /// Once, until something else came from there.
        case webPage(url: String)
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

    private let origin: PresentationOrigin
    private let limit: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (Duration) async throws -> Void
    private let tell: @Sendable (Notice) -> Void
    private let outages = Mutex(Outages())
    /// Who asks is a source element, which asks for nothing again: server errors are waited for here, and nothing is
    /// before something came.
    private let isForPlayers: Bool
    private let hasCome = Atomic(false)

    /// Of each URL that fails: another one may be had meanwhile.
    private struct Outages {
        struct Entry {
            let url: String
            let start: ContinuousClock.Instant
            var isTold = false
        }

        /// Streams that fail at one time, and more.
        private static let limit = 32
        private var entries: [Entry] = []

        /// Whether this is what is to be told of the URL's outage, which begins now unless it has begun.
        mutating func begin(_ url: String, at now: ContinuousClock.Instant, isTold: Bool) -> Bool {
            if !entries.contains(where: { $0.url == url }) {
                if entries.count >= Self.limit { entries.removeFirst() }
                entries.append(Entry(url: url, start: now))
            }
            guard isTold, let index = entries.firstIndex(where: { $0.url == url }) else { return false }
            defer { entries[index].isTold = true }
            return !entries[index].isTold
        }

        mutating func end(_ url: String) { entries.removeAll { $0.url == url } }

        func duration(of url: String, at now: ContinuousClock.Instant) -> Duration {
            entries.first { $0.url == url }.map { $0.start.duration(to: now) } ?? .zero
        }
    }

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

    // MARK: Outages

    /// Whether to try again, after a pause, what failed at `url`. False where that cannot help, where the outage lasts too
    /// long, and where the task is cancelled.
    func triesAgain(_ failure: PresentationFailure, at url: String) async -> Bool {
        guard didFail(failure, at: url), !isOver(url), !isForPlayers || hasCome.load(ordering: .relaxed) else {
            return false
        }
        do {
            try await sleep(Self.pause)
            return true
        } catch {
            return false
        }
    }

    /// Tells of what failed at `url`. Returns whether it may be had later.
    @discardableResult
    func didFail(_ failure: PresentationFailure, at url: String) -> Bool {
        switch failure.cause {
        case .webPage: if begin(url, isTold: true) { tell(.webPage(url: url)) }
        case .status(let status):
            tell(.serverError(url: url, status: status))
            guard status >= 500 else { return false }
            _ = begin(url, isTold: false)
        case .connection: if begin(url, isTold: true) { tell(.noNetwork(failure)) }
        case .other: return false
        }
        return true
    }

    /// What failed as the stock demuxer is to hear of it, which gives up where the outage has lasted too long. Where there
    /// is one attempt only, trying on is up to that.
    func ended(_ failure: PresentationFailure, at url: String) -> PresentationFailure {
        failure.givenUp(limit > .zero && isOver(url))
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
    private func isOver(_ url: String) -> Bool {
        let now = now()
        return outages.withLock { $0.duration(of: url, at: now) >= limit }
    }

    private func begin(_ url: String, isTold: Bool) -> Bool {
        let now = now()
        return outages.withLock { $0.begin(url, at: now, isTold: isTold) }
    }

    // MARK: Segments

    /// What the origin answers, as it comes. Server errors go on to the stock demuxer, which asks again; once an outage
    /// has lasted too long, that gets 404, after which it gives up. Throws why nothing can be had.
    ///
    /// `isEncrypted`: the segment is decrypted as a whole before the stock demuxer sees it, and comes as it is.
    func answer(
        _ url: String, _ request: LoopbackRequest, isEncrypted: Bool = false
    ) async throws(PresentationFailure) -> LoopbackResponse {
        while true {
            let start = now()
            do throws(PresentationFailure) {
                return try await attempt(url, request, filters: !isForPlayers && !isEncrypted, since: start)
            } catch {
                guard await triesAgain(error, at: url) else { throw ended(error, at: url) }
                if case .status = error.cause, !isForPlayers { throw error }
            }
        }
    }

    private func attempt(
        _ url: String, _ request: LoopbackRequest, filters: Bool, since start: ContinuousClock.Instant
    ) async throws(PresentationFailure) -> LoopbackResponse {
        let download = SegmentDownload(url, for: request, range: request.header("Range"), from: origin)
        let (head, bytes, isComplete) = try await beginning(of: download, url)
        if WebPage.isOne(start: bytes) { throw .webPageInPlaceOfMedia(at: url) }
        let part = RelayedPart(of: head, for: request)
        guard !isComplete, let part, part.sent.length.map({ $0 > bytes.count }) ?? true else {
            let all = isComplete ? bytes : try await rest(of: download, after: bytes, url)
            didSucceed(url)
            didHandOn(url, head.status, all.count, since: start)
            return LoopbackResponse(
                status: head.status, headers: headers(head), body: filters ? ID3Filter.filter(whole: all) : all)
        }
        let body = RelayedBody(
            url, request, download, head: head, start: bytes, part: part,
            filter: filters ? ID3Filter() : nil, relay: self, origin: origin
        ) { [weak self] size in
            self?.didHandOn(url, head.status, size, since: start)
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
                if bytes.count >= WebPage.size { return (head, bytes, false) }
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

    private func didHandOn(_ url: String, _ status: Int, _ size: Int, since start: ContinuousClock.Instant) {
        let (seconds, attoseconds) = start.duration(to: now()).components
        let time = UInt64(clamping: seconds) &* 1_000_000_000 &+ UInt64(clamping: attoseconds / 1_000_000_000)
        tell(.done(url: url, status: status, size: size, time: time))
    }
}

extension PresentationFailure {
    /// A web page where media should be.
    static func webPageInPlaceOfMedia(at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .format, text: "\(HTTPRequest(url: url).printableURL) is no media but a web page.",
            advice: "Open the URL in a browser: the network may want a log-in.", cause: .webPage)
    }

    /// As the stock demuxer is to hear of it: where all was tried, with a status after which it gives up.
    fileprivate func givenUp(_ isOver: Bool) -> PresentationFailure {
        var failure = self
        if isOver { failure.status = 404 }
        return failure
    }
}
