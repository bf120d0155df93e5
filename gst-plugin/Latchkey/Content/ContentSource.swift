// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// Fetches what is looked at before playback: playlists, manifests and the heads of files. Thread-safe.
struct ContentSource: Sendable {
    let transport: any HTTPTransport
    /// What servers set while the content is looked at.
    let cookies = CookieStore()
    /// Called for every fetch, for the log.
    var onFetch: @Sendable (String) -> Void = { _ in }
    /// Gets each resource that was fetched as a whole over the network, with the URL that was asked for.
    var onWhole: @Sendable (String, Answer) -> Void = { _, _ in }
    /// How long an outage may last once something has come from a URL; before, nothing is waited for. Zero: one attempt.
    var outageLimit = Duration.zero
    /// Called once for each outage, with what failed.
    var onOutage: @Sendable (AgentError) -> Void = { _ in }
    /// The time that `sleep` is part of, which throws when the task is cancelled.
    var now: @Sendable () -> ContinuousClock.Instant = { .now }
    var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    private let begun = BegunURLs()

    /// Those from which something has come.
    private final class BegunURLs: Sendable {
        private let urls = Mutex<Set<String>>([])

        func add(_ url: String) { urls.withLock { _ = $0.insert(url) } }
        func has(_ url: String) -> Bool { urls.withLock { $0.contains(url) } }
    }

    /// What came from where; `url` is the one that answered.
    struct Answer: Sendable {
        var bytes: [UInt8]
        var url: String
        var contentType: String?
        /// It, a redirect that led to it, or an earlier answer.
        var setsCookies = false
    }

    private static let timeout = Duration.seconds(20)
    /// Between two attempts.
    private static let pause = Duration.seconds(1)

    /// The same without waiting, for what is looked at only if it can be had.
    var once: ContentSource {
        var source = self
        source.outageLimit = .zero
        return source
    }

    /// The whole of a resource, of at most so many bytes. Throws `unreachable`, `serverError`, `invalidContent` where
    /// there are more, and `invalidURL`.
    func whole(_ url: String, limit: Int) async throws(AgentError) -> Answer {
        let answer = try await fetch(url, range: nil, limit: limit)
        if URIReference(url).filePath == nil { onWhole(url, answer) }
        return answer
    }

    /// A part of a resource; shorter only where the resource ends.
    func part(_ url: String, offset: UInt64, count: Int) async throws(AgentError) -> Answer {
        if let path = URIReference(url).filePath {
            return Answer(bytes: try Self.read(path, offset: offset, count: count), url: url)
        }
        guard let range = HLSByteRange(offset: offset, length: UInt64(max(count, 1))) else {
            throw .invalidContent("it asks for bytes from \(offset) on", at: url)
        }
        return try await fetch(url, range: range, limit: count)
    }

    private func fetch(_ url: String, range: HLSByteRange?, limit: Int) async throws(AgentError) -> Answer {
        if let path = URIReference(url).filePath {
            let bytes = try Self.read(path, offset: 0, count: limit + 1)
            guard bytes.count <= limit else { throw .invalidContent("it has more than \(limit) bytes", at: url) }
            return Answer(bytes: bytes, url: url)
        }
        var request = HTTPRequest(url: url)
        if let range { request.headers = [HTTPHeader(name: "Range", value: range.httpRange)] }
        request.timeout = Self.timeout
        request.cookies = cookies
        // A server without ranges sends all.
        request.maximumResponseSize = range == nil ? limit : max(limit, Self.unrangedLimit)
        let (response, time) = try await self.response(to: request, isPart: range != nil)
        let type = response.header("Content-Type")
        let foreign = (200..<300).contains(response.status) ? type.flatMap(ForeignContent.type) : nil
        onFetch(
            "\(response.printableURL): HTTP \(response.status), \(response.body.count) bytes in "
                + "\(time.milliseconds) ms"
                + (foreign.map { ", with the wrong type \($0)" } ?? ""))
        switch response.status {
        case 416 where range != nil: return Answer(bytes: [], url: response.url, contentType: type)
        case 206: return Answer(bytes: Array(response.body.prefix(limit)), url: response.url, contentType: type)
        case 200..<300:
            let skipped = Int(clamping: range?.offset ?? 0)
            return Answer(
                bytes: Array(response.body.dropFirst(skipped).prefix(limit)), url: response.url, contentType: type,
                setsCookies: cookies.hasBeenUsed)
        default: throw .serverError(response.status, at: response.url)
        }
    }

    /// The response, after as many attempts as it takes, and how long the last one took. In an outage, server errors are waited
    /// for, too: gateways send them.
    private func response(
        to request: HTTPRequest, isPart: Bool
    ) async throws(AgentError) -> (HTTPResponse, Duration) {
        var outage: ContinuousClock.Instant?
        while true {
            let start = ContinuousClock.now
            let failure: AgentError
            do throws(HTTPError) {
                let response = try await send(request)
                guard response.status >= 500, outage != nil else { return (response, ContinuousClock.now - start) }
                failure = .serverError(response.status, at: response.url)
                onFetch("\(failure)")
            } catch {
                onFetch("\(request.printableURL): \(error)")
                failure = Self.failure(error, of: request, isPart: isPart)
                guard outageLimit > .zero, error.isTemporary, begun.has(request.url) else { throw failure }
            }
            if outage == nil { onOutage(failure) }
            let first = outage ?? now()
            guard first.duration(to: now()) < outageLimit else { throw failure }
            outage = first
            guard (try? await sleep(Self.pause)) != nil else { throw .cancelled(request.printableURL) }
        }
    }

    /// The response with its body, of which each piece is noted.
    private func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        guard outageLimit > .zero else { return try await transport.send(request) }
        let body = Mutex<[UInt8]>([])
        var response = try await transport.send(request) { [begun] _, piece in
            begun.add(request.url)
            body.withLock { $0 += piece }
        }
        if 200..<300 ~= response.status { response.body = body.withLock { $0 } }
        return response
    }

    private static func failure(_ error: HTTPError, of request: HTTPRequest, isPart: Bool) -> AgentError {
        if error.isSameKind(as: .tooLarge("")) {
            return .invalidContent(
                isPart
                    ? "the server sends all of it where a part is asked for: byte ranges have to be supported"
                    : "it has more than \(request.maximumResponseSize) bytes",
                at: request.url)
        }
        if error.isSameKind(as: .invalidURL("")) {
            let isFile = URIReference(request.url).scheme?.lowercased() == "file"
            return .invalidURL(
                isFile ? "\(request.printableURL): files are at file:///PATH, with three slashes" : error.reason)
        }
        return error.isSameKind(as: .cancelled("")) ? .cancelled(error.reason) : .unreachable("\(error)")
    }

    private static let unrangedLimit = 64 << 20

    // MARK: Files

    private static func read(_ path: String, offset: UInt64, count: Int) throws(AgentError) -> [UInt8] {
        if FileAccess(ofTarget: path)?.isRegularFile == false { throw .invalidURL("\(path) is no regular file") }
        do throws(KeyError) {
            return try RegularFile(path: path, kind: "file", has: .untrusted).part(at: offset, count: count)
        } catch {
            throw .unreachable("the \(error.reason)")
        }
    }
}

extension Duration {
    /// Whole milliseconds, for people.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
