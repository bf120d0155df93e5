// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import Synchronization

/// Fetches a whole file in the place of a player's HTTP source. If the connection breaks, GStreamer's source asks once more
/// and ends playback; this waits, and goes on where it was. Thread-safe.
final class FileFetch: Sendable {
    enum Event: Sendable {
        /// The next bytes.
        case bytes(ArraySlice<UInt8>)
        /// There are no more.
        case end
        /// Nothing of it came to this fetch. The source may know more, such as a log-in, a proxy or certificates.
        case refused
        case failure(PresentationFailure)
    }

    /// Takes what comes of the run with this number. Returns how many bytes it has taken; more is for later, after `wake`.
    /// Nil: that run is over.
    typealias Receiver = @Sendable (_ run: UInt64, Event) -> Int?

    private struct State {
        var headers: [HTTPHeader] = []
        /// Something of the file has come.
        var hasCome = false
        var task: Task<Void, Never>?
        var wish: AsyncStream<Void>.Continuation?
    }

    private let url: String
    private let size: UInt64
    private let origin: PresentationOrigin
    private let relay: SegmentRelay
    private let receive: Receiver
    private let state = Mutex(State())

    /// `size` is that of the file, in bytes, `limit` how long one outage may last, and `tell` hears of each. `now` and `sleep`: as
    /// for `SegmentRelay`. Nil for what is no file at an HTTP server, and if nothing is to be waited for.
    init?(
        _ url: String, size: UInt64, limit: Duration, transport: any HTTPTransport = CurlTransport.shared,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        tell: @escaping @Sendable (SegmentRelay.Notice) -> Void, receive: @escaping Receiver
    ) {
        guard limit > .zero, let scheme = url.firstRange(of: "://").map({ url[..<$0.lowerBound].lowercased() }),
            ["http", "https"].contains(scheme)
        else { return nil }
        (self.url, self.size, self.receive) = (url, size, receive)
        origin = PresentationOrigin(transport: transport, medium: "file")
        // What the source sends is for there.
        origin.setHome(url)
        relay = SegmentRelay(origin, limit: limit, isForPlayers: true, now: now, sleep: sleep, tell: tell)
    }

    deinit { end() }

    /// The fields that the source sends, without the range that it asked for.
    func setHeaders(_ headers: [HTTPHeader]) {
        // Which passes the cookies on.
        origin.setHeaders(headers)
        state.withLock { $0.headers = headers.filter { $0.name.lowercased() != "range" } }
    }

    /// The `Set-Cookie` fields of the answer from `url` that the source reads. Once.
    func take(cookies: [String], from url: String) {
        if !origin.cookies.hasBeenUsed { origin.cookies.take(cookies, from: url) }
    }

    /// Goes on at this byte. What comes from there has this number, and nothing comes of former runs but what is on its way.
    func begin(at place: UInt64, run: UInt64) {
        let (wishes, wish) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { state in
            state.task?.cancel()
            state.wish = wish
            let headers = state.headers + [HTTPHeader(name: "Range", value: "bytes=\(place)-")]
            let request = LoopbackRequest(path: "", headers: headers)
            state.task = Task { [weak self] in await self?.fetch(request, place, run, wishes) }
        }
    }

    /// There may be room for more bytes.
    func wake() { state.withLock { $0.wish }?.yield() }

    /// Ends the run.
    func end() { state.withLock { $0.task.take() }?.cancel() }

    private func fetch(
        _ request: LoopbackRequest, _ place: UInt64, _ run: UInt64, _ wishes: AsyncStream<Void>
    ) async {
        // A digest is for one request, and lasts no longer than its nonce: the source can make others.
        guard request.header("Authorization")?.lowercased().hasPrefix("digest") != true else {
            _ = receive(run, .refused)
            return
        }
        do throws(PresentationFailure) {
            let response = try await relay.answer(url, request)
            guard isRest(response, from: place) else { throw .changed(url, "file") }
            relay.didSucceed(url)
            state.withLock { $0.hasCome = true }
            await handOn(response, run, wishes)
        } catch {
            guard !Task.isCancelled else { return }
            _ = receive(run, state.withLock { $0.hasCome } ? .failure(error) : .refused)
        }
    }

    /// Whether it has what follows `place` in the file that the source has begun.
    private func isRest(_ response: LoopbackResponse, from place: UInt64) -> Bool {
        guard let field = response.headers.first(where: { $0.name.lowercased() == "content-range" }) else {
            // A server may send all of a file to one that asks for all of it.
            return place == 0 && response.status == 200 && response.length.map { $0 == size } ?? true
        }
        guard let range = ContentRange(field.value) else { return false }
        return range.first.map { UInt64($0) } == place && (range.size.map { UInt64($0) == size } ?? true)
    }

    private func handOn(_ response: LoopbackResponse, _ run: UInt64, _ wishes: AsyncStream<Void>) async {
        var wishes = wishes.makeAsyncIterator()
        var rest = response.body[...]
        var left = response.stream?.length
        while true {
            while !rest.isEmpty {
                guard let count = receive(run, .bytes(rest)) else { return }
                rest = rest.dropFirst(count)
                if !rest.isEmpty, await wishes.next() == nil { return }
            }
            // A stream is not asked for more than it has announced.
            guard left != 0, let stream = response.stream else { break }
            // What breaks off for good was told by the relay.
            guard let piece = try? await stream.next() else { break }
            left = left.map { $0 - min($0, UInt64(piece.count)) }
            rest = piece[...]
        }
        if !Task.isCancelled { _ = receive(run, .end) }
    }
}

extension LoopbackResponse {
    /// Of the body, in bytes; nil if that is not known.
    fileprivate var length: UInt64? { stream.map { $0.length } ?? UInt64(body.count) }
}
