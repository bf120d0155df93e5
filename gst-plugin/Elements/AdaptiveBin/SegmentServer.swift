// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Serves the media of a presentation to the stock demuxer: each of its URLs stands for one of an origin that the manifest
/// names, and what is asked for there comes through a `SegmentRelay`. Thread-safe.
///
/// Nobody else can make such a URL up, and none leads to another origin.
final class SegmentServer: Sendable {
    /// The most origins of one presentation. Media of further ones does not come through here.
    static let originLimit = 64
    private static let manifestName = "m"
    private static let failureLimit = 8
    /// How often a live segment that is not there is asked for again, the first of a row and those behind it, and how many of
    /// them are left out in a row. The first one is asked for more often if segments are long, up to `mostAttempts`.
    private static let absence = (firstAttempts: 4, mostAttempts: 20, attempts: 2, limit: 8)
    /// How many of a stream are left out in a row because they are refused: a token that has expired is to be told soon.
    private static let refusedLimit = 2
    /// Of what cannot be had at all, the stock demuxer gives up the fourth. Of a live presentation, it would ask for ever.
    private static let attempts = 4

    /// Reads what was fetched of the manifest; nil where it is the stock demuxer's own matter.
    typealias Rewrite = @Sendable (HTTPResponse) -> [UInt8]?

    private struct State {
        var servers: PresentationServers?
        /// The number in a URL is the place in here.
        var origins: [String] = []
        /// The presentation's URL.
        var home = ""
        /// Where later versions of the manifest come from, and what is made of them.
        var manifest: (url: String, rewrite: Rewrite)?
        /// How many segments of a live presentation were left out since one came; nil: none has come.
        var absent: Int?
        /// How many of a stream were refused in a row.
        var refused: [String: Int] = [:]
        /// For `absence`, the first of a row.
        var firstAttempts = SegmentServer.absence.firstAttempts
        var isHandedOut = false
        var requestCount = 0
        /// How often in a row a URL could not be had at all.
        var unreached: [String: Int] = [:]
        /// What the stock demuxer heard of, with the number of the request.
        var failures: [(number: Int, failure: PresentationFailure)] = []
    }

    private let origin: PresentationOrigin
    private let relay: SegmentRelay
    private let giveUp: @Sendable (PresentationFailure) -> Void
    private let answers = RelayedAnswers()
    private let state = Mutex(State())

    /// `giveUp` hears why playback cannot go on.
    init(
        _ origin: PresentationOrigin, relay: SegmentRelay, giveUp: @escaping @Sendable (PresentationFailure) -> Void
    ) {
        (self.origin, self.relay, self.giveUp) = (origin, relay, giveUp)
    }

    /// Opens the loopback servers.
    func open() throws(HTTPError) {
        let servers = try PresentationServers { [weak self] request in await self?.answer(request) ?? .notFound }
        state.withLock { $0.servers = servers }
    }

    /// Answers everything that the stock demuxer still waits for, at once. The ports stay open: the demuxer does not take
    /// broken connections well.
    func end() { answers.end() }

    /// Closes the ports.
    func close() {
        end()
        let servers = state.withLock { state in
            defer { state.servers = nil }
            return state.servers
        }
        servers?.close()
    }

    deinit { close() }

    // MARK: URLs

    /// The manifest's URL before redirects, which is the referrer of what is fetched.
    func setHome(_ url: String) { state.withLock { $0.home = url } }

    /// What stands for an origin, `scheme://authority`, without a slash at the end. Nil where its media cannot come through
    /// here.
    func route(_ origin: String) -> String? {
        // What goes with a name and a password in URLs is the stock demuxer's matter.
        guard !origin.contains("@"), URIReference(origin).filePath == nil || self.origin.isLocal else { return nil }
        return state.withLock { state in
            guard let servers = state.servers else { return nil }
            var place = state.origins.firstIndex(of: origin)
            if place == nil, state.origins.count < Self.originLimit {
                place = state.origins.count
                state.origins.append(origin)
            }
            return place.map { servers.url(String($0), from: origin) }
        }
    }

    /// The URL for later versions of the manifest at `url`, which `rewrite` reads each time. `longestSegment`: if the clocks of
    /// this machine and the server differ, or an encoder is late, each segment is asked for when the one before it is there.
    /// So it may be awaited for as long as it lasts.
    func serveManifest(_ url: String, longestSegment: Duration? = nil, _ rewrite: @escaping Rewrite) -> String? {
        let seconds = max(Int(clamping: longestSegment?.components.seconds ?? 0), 0)
        let attempts = min(seconds, Self.absence.mostAttempts) * 3 / 2
        return state.withLock { state in
            state.manifest = (url, rewrite)
            state.firstAttempts = min(max(attempts, Self.absence.firstAttempts), Self.absence.mostAttempts)
            return state.servers?.url(Self.manifestName, from: nil)
        }
    }

    /// A later version of the manifest names another place for those behind it.
    func manifestDidMove(to url: String) { state.withLock { $0.manifest?.url = url } }

    /// Where a request leads; nil: nowhere.
    private func target(_ path: some StringProtocol, _ query: String?) -> String? {
        let parts = path.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let place = Int(first), parts.count == 2 else { return nil }
        let origin = state.withLock { $0.origins.indices.contains(place) ? $0.origins[place] : nil }
        return origin.map { "\($0)/\(parts[1])" + (query.map { "?\($0)" } ?? "") }
    }

    /// A text of the stock demuxer, with the origin's URL in place of each of these servers. `isForPeople`: without queries,
    /// where tokens are.
    func withOriginURLs(_ text: String, isForPeople: Bool) -> String {
        let (servers, home) = state.withLock { ($0.servers, $0.home) }
        guard let servers else { return text }
        return servers.replacingURLs(in: text, isForPeople: isForPeople) { path, query in
            target(path, query.map(String.init)) ?? home
        }
    }

    // MARK: What the demuxer asks

    /// The stock demuxer gets URLs of this server.
    func didHandOut() { state.withLock { $0.isHandedOut = true } }

    /// Whether the stock demuxer was given URLs of this server.
    var isUsed: Bool { state.withLock { $0.isHandedOut } }

    /// Whether it ever came.
    var wasReached: Bool { state.withLock { $0.requestCount > 0 } }

    /// Why it lately got nothing. Once.
    func takeFailure() -> PresentationFailure? {
        state.withLock { state in
            defer { state.failures = [] }
            return state.failures.last?.failure
        }
    }

    // MARK: Answers

    func answer(_ request: LoopbackRequest) async -> LoopbackResponse {
        let (number, request) = takeIn(request)
        if request.path == Self.manifestName, let manifest = state.withLock({ $0.manifest }) {
            return await answers.answer { [self] in await self.manifest(manifest.url, request, manifest.rewrite) }
        }
        guard let url = target(request.path, request.query) else { return .notFound }
        return await answers.answer { [self] in
            do throws(PresentationFailure) {
                let response = try await segment(url, request)
                // What failed before is no news any more.
                state.withLock { $0.failures.removeAll { $0.number < number } }
                return response
            } catch {
                return LoopbackResponse(status: Task.isCancelled ? error.status : failed(error, url, number))
            }
        }
    }

    /// The status that the stock demuxer gets: the origin's own, as long as it may ask again. It hears of anything else as of a
    /// segment that is not there. At a server error, it would ask for ever before GStreamer 1.26, and end without an error
    /// from there on.
    private func failed(_ failure: PresentationFailure, _ url: String, _ number: Int) -> Int {
        note(failure, number)
        if case .status(let status) = failure.cause, status == failure.status { return status }
        let count = state.withLock { state in
            if state.unreached.count >= Self.failureLimit { state.unreached = state.unreached.filter { $0.key == url } }
            state.unreached[url, default: 0] += 1
            return state.unreached[url]
        }
        if count == Self.attempts { giveUp(failure) }
        return 404
    }

    /// Of a live presentation, a segment that is not there, or is refused, comes late or is there no more: the stock demuxer would
    /// ask for it for ever, and goes on behind an empty one.
    private func segment(_ url: String, _ request: LoopbackRequest) async throws(PresentationFailure)
        -> LoopbackResponse
    {
        var attempt = 0
        while true {
            do throws(PresentationFailure) {
                let response = try await relay.answer(url, request)
                state.withLock { state in
                    state.absent = 0
                    state.unreached[url] = nil
                    state.refused[Self.stream(of: url)] = nil
                }
                return response
            } catch {
                let (isLive, absent) = state.withLock { ($0.manifest != nil, $0.manifest == nil ? nil : $0.absent) }
                // At the edge of a timeline, the stock demuxer waits for the next version of the manifest if a connection fails.
                // At a status it asks again at once, so all attempts would be over within a moment.
                if isLive, case .connection = error.cause { _ = await relay.waits(SegmentRelay.pause) }
                guard error.isRefusal, let absent, absent < Self.absence.limit else { throw error }
                let attempts = absent == 0 ? state.withLock { $0.firstAttempts } : Self.absence.attempts
                if attempt >= attempts {
                    if !error.isAbsence, countRefusal(Self.stream(of: url)) > Self.refusedLimit {
                        giveUp(error)
                        throw error
                    }
                    state.withLock { $0.absent = absent + 1 }
                    return LoopbackResponse(status: 204)
                }
                guard await relay.waits(SegmentRelay.pause) else { throw error }
                attempt += 1
            }
        }
    }

    private func countRefusal(_ stream: String) -> Int {
        state.withLock { state in
            if state.refused.count >= Self.failureLimit { state.refused = state.refused.filter { $0.key == stream } }
            state.refused[stream, default: 0] += 1
            return state.refused[stream] ?? 0
        }
    }

    /// The same for all segments of a stream, as far as their URLs differ in numbers alone.
    private static func stream(of url: String) -> String { url.prefix { $0 != "?" }.filter { !$0.isNumber } }

    /// The manifest as it is now. What fails is not held up: the stock demuxer asks again when the next version is due.
    private func manifest(_ url: String, _ request: LoopbackRequest, _ rewrite: Rewrite) async -> LoopbackResponse {
        do throws(PresentationFailure) {
            let response = try await origin.response(.manifest, url, for: request)
            guard response.status == 200 else { throw .status(response.status, of: "manifest", at: response.url) }
            if let foreign = ForeignContent(start: response.body) {
                throw .foreign(foreign, inPlaceOf: "manifest", at: url)
            }
            relay.didSucceed(url)
            guard let bytes = rewrite(response) else {
                return LoopbackResponse(status: 302, headers: [HTTPHeader(name: "Location", value: response.url)])
            }
            return LoopbackResponse(headers: PresentationOrigin.returned(response.headers), body: bytes)
        } catch {
            relay.didFail(error, at: url)
            return LoopbackResponse(status: error.status)
        }
    }

    /// Notes a request of the stock demuxer, and gives it as the origin gets it.
    private func takeIn(_ request: LoopbackRequest) -> (Int, LoopbackRequest) {
        let (number, servers, home) = state.withLock { state in
            state.requestCount += 1
            return (state.requestCount, state.servers, state.home)
        }
        let request = servers?.withoutOwnReferrer(request, home: home) ?? request
        origin.note(request)
        return (number, request)
    }

    private func note(_ failure: PresentationFailure, _ number: Int) {
        state.withLock { state in
            if state.failures.count >= Self.failureLimit { state.failures.removeFirst() }
            state.failures.append((number, failure))
        }
    }
}

extension AdaptiveBin {
    /// A relay that waits for no outage, and tells what it does on the bus.
    final var makePlainRelay: @Sendable (PresentationOrigin) -> SegmentRelay {
        { [element = WeakElement(reference)] origin in
            SegmentRelay(origin, limit: .zero) { notice in
                // Nobody waits for the network.
                if case .noNetwork = notice { return }
                element.withElement { notice.post(on: $0.reference) }
            }
        }
    }

    /// Makes the server of a protected presentation that waits for no outage, and opens it. Nil where the stock demuxer could
    /// not reach it.
    final var makePlainSegments: @Sendable (PresentationOrigin) -> SegmentServer? {
        { [giveUp, makePlainRelay] origin in
            guard LoopbackReach.isDirect(Environment.variable) else { return nil }
            let server = SegmentServer(origin, relay: makePlainRelay(origin), giveUp: giveUp)
            return (try? server.open()).map { server }
        }
    }
}

/// The loopback servers of one presentation. GStreamer's demuxers have no more than two connections to each server, so that
/// origins which do not answer would keep what comes from others waiting: each origin has a server of its own, as long as
/// there are any. Thread-safe.
final class PresentationServers: Sendable {
    /// For what has no origin, and for as many origins; further origins share them.
    static let count = 8
    /// Origins that are told apart. All later ones share a server.
    private static let originLimit = 256

    private let servers: [LoopbackServer]
    /// 1 where what has no origin has a server to itself.
    private let firstOfOrigins: Int
    private let origins = Mutex<[String]>([])

    /// Opens all of them, which answer the same. `sharesFirst`: what has no origin goes over the connections of the first
    /// origin, which a playback's start then need not open twice.
    init(
        sharesFirst: Bool = false, quick: @escaping LoopbackServer.QuickHandler = { _ in nil },
        handler: @escaping LoopbackServer.Handler
    ) throws(HTTPError) {
        var servers: [LoopbackServer] = []
        for _ in 0..<Self.count { servers.append(try LoopbackServer(quick: quick, handler: handler)) }
        self.servers = servers
        firstOfOrigins = sharesFirst ? 0 : 1
    }

    /// The URL of a path, which is always the same one. `origin`: scheme, host and port that its content comes from; nil:
    /// from none that it would have to wait for. `isApart`: over other connections than the rest from there.
    func url(_ path: String, from origin: String?, isApart: Bool = false) -> String {
        guard let origin else { return servers[isApart ? servers.count / 2 : 0].url(path) }
        let place = origins.withLock { origins in
            if let place = origins.firstIndex(of: origin) { return place }
            if origins.count < Self.originLimit { origins.append(origin) }
            return origins.count - 1
        }
        let count = servers.count - firstOfOrigins
        return servers[firstOfOrigins + (place + (isApart ? count / 2 : 0)) % count].url(path)
    }

    /// The path in a URL of one of them; nil in any other.
    func path(in url: String) -> Substring? {
        servers.first { $0.isOwn(url) }.map { url.dropFirst($0.url("").count) }
    }

    /// Whether the URL leads to one of them.
    func isOwn(_ url: String) -> Bool { servers.contains { $0.isOwn(url) } }

    /// The stock demuxer names what it read from one of them as the referrer. The origin knows `home`, the presentation's URL.
    func withoutOwnReferrer(_ request: LoopbackRequest, home: String) -> LoopbackRequest {
        var request = request
        for index in request.headers.indices where request.headers[index].name.lowercased() == "referer" {
            if isOwn(request.headers[index].value) { request.headers[index].value = home }
        }
        return request
    }

    /// A text with what `url` makes of the path and the query of each URL of one of them. `isForPeople`: without queries, where
    /// tokens are.
    func replacingURLs(
        in text: String, isForPeople: Bool, _ url: (_ path: Substring, _ query: Substring?) -> String
    ) -> String {
        var result = ""
        var rest = text[...]
        while let range = servers.compactMap({ rest.firstRange(of: $0.url("")) }).min(by: {
            $0.lowerBound < $1.lowerBound
        }) {
            result += rest[..<range.lowerBound]
            var own = rest[range.upperBound...].prefix { !$0.isWhitespace && !"\"'<>()[]“”‘’".contains($0) }
            // The end of a sentence.
            while let last = own.last, ".,;:".contains(last) { own.removeLast() }
            rest = rest[own.endIndex...]
            let query = own.firstIndex(of: "?")
            let origin = url(own[..<(query ?? own.endIndex)], query.map { own[own.index(after: $0)...] })
            result += isForPeople ? HTTPRequest(url: origin).printableURL : origin
        }
        return result + rest
    }

    /// Closes the ports.
    func close() {
        for server in servers { server.close() }
    }
}

/// Answers that come as they arrive from elsewhere, each for one request alone. Thread-safe.
final class RelayedAnswers: Sendable {
    private typealias Work = Task<LoopbackResponse, Never>

    private struct State {
        var works: [UInt64: Work] = [:]
        var lastID: UInt64 = 0
        var hasEnded = false
    }

    private let state = Mutex(State())

    /// What `make` answers, however long it takes: it is cancelled with the task that waits. 404 after the end.
    func answer(_ make: @escaping @Sendable () async -> LoopbackResponse) async -> LoopbackResponse {
        let begun = state.withLock { state -> (UInt64, Work)? in
            guard !state.hasEnded else { return nil }
            state.lastID += 1
            let work = Work { await make() }
            state.works[state.lastID] = work
            return (state.lastID, work)
        }
        guard let (id, work) = begun else { return .notFound }
        defer { state.withLock { $0.works[id] = nil } }
        return await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
    }

    /// Ends all work: who waits gets an answer at once, and so does who comes later.
    func end() {
        let works = state.withLock { state in
            state.hasEnded = true
            return state.works.values
        }
        for work in works { work.cancel() }
    }
}

/// Whether requests to 127.0.0.1 go there, as far as the environment tells.
enum LoopbackReach {
    static let advice =
        "Set the environment variable no_proxy=127.0.0.1,localhost (or that exception in the desktop's proxy settings)."

    /// The proxy of the environment, as it is written there.
    static func proxy(_ variable: (String) -> String?) -> String? {
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].lazy.compactMap(variable).first
    }

    /// `variable` gives the value of an environment variable.
    static func isDirect(_ variable: (String) -> String?) -> Bool {
        guard proxy(variable) != nil else { return true }
        let exceptions = variable("no_proxy") ?? variable("NO_PROXY") ?? ""
        return exceptions.split { $0 == "," || $0.isWhitespace }.contains {
            $0 == "*" || $0 == "127.0.0.1" || $0.hasPrefix("127.0.0.0/")
        }
    }
}
