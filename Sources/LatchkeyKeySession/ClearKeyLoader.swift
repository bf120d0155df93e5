// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// Gets keys from a Clear Key license service over HTTP (W3C Encrypted Media Extensions, 9.1).
///
/// With a URL of its own it takes every request whose KIDs are known. Without, it takes the Clear Key requests whose
/// media names an http or https URL, and asks there as far as `MediaLicenseURLs` allows. A request that media without a KID
/// makes is left to others: the protocol has no way to say it. A lost connection is tried once more; a timeout and an HTTP
/// status are not. If a service cannot be reached or may not be, or answers with status 404 or one from 500 on, the next one
/// that the media names is asked; with several, all exchanges end within the key time-out. If services refuse 2 to 16 keys
/// together with status 400, 403 or 404, and none has them, each is asked for alone there, once.
///
/// Thread-safe; exchanges run on tasks of their own.
public final class ClearKeyLoader: ResourceLoader {
    /// For logs.
    public let name: String
    private let url: String?
    private let headers: [HTTPHeader]
    private let timeout: Duration?
    private let mediaLicenseURLs: MediaLicenseURLs
    private let transport: any HTTPTransport
    private let keyTimeout: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let tasks = Mutex<[UInt64: Task<Void, Never>]>([:])
    /// With these, a service may refuse one of several keys.
    private static let refusalStatuses = [400, 403, 404]
    /// So many keys of a request are asked for alone.
    private static let aloneLimit = 16

    /// `headers` are sent to `url` only, and never to a URL that media names, because they may hold credentials.
    /// `timeout` is for one exchange; nil leaves the transport's own.
    public convenience init(
        url: String? = nil, headers: [HTTPHeader] = [], timeout: Duration? = nil,
        mediaLicenseURLs: MediaLicenseURLs = .https, transport: any HTTPTransport = CurlTransport.shared
    ) {
        self.init(
            url: url, headers: headers, timeout: timeout, mediaLicenseURLs: mediaLicenseURLs, transport: transport,
            keyTimeout: ControlSettings().keyWait)
    }

    /// `keyTimeout`: how long streams wait for a key.
    package init(
        url: String?, headers: [HTTPHeader], timeout: Duration?, mediaLicenseURLs: MediaLicenseURLs,
        transport: any HTTPTransport, keyTimeout: Duration,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.keyTimeout = keyTimeout
        self.now = now
        self.url = url
        self.headers = url == nil ? [] : headers
        self.timeout = timeout
        self.mediaLicenseURLs = mediaLicenseURLs
        self.transport = transport
        name = "Clear Key"
    }

    /// Any with a URL of its own, else Clear Key.
    public var keySystems: Set<KeySystem>? { url == nil ? [.clearKey] : nil }

    /// Takes requests that name a KID and whose service is configured, or named by Clear Key media itself. Answers from
    /// a task of its own; any thread may call.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        let keyIDs = keyIDs(of: request)
        let exchanges: [HTTPRequest]
        do throws(KeyError) {
            exchanges = try self.exchanges(for: request, keyIDs)
        } catch {
            request.finishLoading(with: error)
            return true
        }
        guard let first = exchanges.first else { return false }
        // The rest of the time is for what comes behind the answers.
        let deadline = exchanges.count > 1 ? Deadline(end: now() + keyTimeout * 9 / 10, now: now) : nil
        let transport = transport
        tasks.withLock { tasks in
            // Made inside the lock, so that its end cannot come before its entry.
            tasks[request.id] = Task { [weak self] in
                do throws(KeyError) {
                    let keys = try await Self.keys(
                        keyIDs, for: request, first, exchanges.dropFirst(), deadline, over: transport)
                    request.finishLoading(with: .keys(keys))
                } catch {
                    request.finishLoading(with: error)
                }
                self?.forget(request)
            }
        }
        return true
    }

    /// Ends the exchange, if one is under way.
    public func didCancel(_ request: KeyLoadingRequest) { forget(request)?.cancel() }

    @discardableResult
    private func forget(_ request: KeyLoadingRequest) -> Task<Void, Never>? {
        tasks.withLock { $0.removeValue(forKey: request.id) }
    }

    private func keyIDs(of request: KeyLoadingRequest) -> [KeyID] {
        let missing = request.sayMissingKeyIDs()
        return missing.isEmpty && request.keyIDs.isEmpty ? request.initializationData.flatMap(\.keyIDs) : missing
    }

    /// To the services that may be asked, in order. None: the application may answer. Throws why the first may not be asked, if
    /// none may.
    private func exchanges(for request: KeyLoadingRequest, _ keyIDs: [KeyID]) throws(KeyError) -> [HTTPRequest] {
        let urls = url.map { [$0] } ?? namedByMedia(request)
        guard !keyIDs.isEmpty, !urls.isEmpty else { return [] }
        let type =
            headers.contains { $0.name.lowercased() == "content-type" }
            ? [] : [HTTPHeader(name: "Content-Type", value: "application/json")]
        let body = ClearKey.licenseRequest(for: keyIDs)
        var (exchanges, seen, refusal) = ([HTTPRequest](), Set<String>(), KeyError?.none)
        for target in urls where seen.insert(target).inserted {
            var exchange = HTTPRequest(method: "POST", url: target, headers: type + headers, body: body)
            exchange.maximumResponseSize = ClearKey.maximumSize
            exchange.mayCarrySessionToken = url != nil
            exchange.cookies = request.cookies
            exchange.toleratesCompression = true
            if let timeout { exchange.timeout = timeout }
            do throws(KeyError) {
                if url == nil { try mediaLicenseURLs.check(&exchange, mediaURL: request.mediaURL) }
                exchanges.append(exchange)
            } catch {
                refusal = refusal ?? error
            }
        }
        if exchanges.isEmpty, let refusal { throw refusal }
        return exchanges
    }

    private static func isHTTP(_ url: String) -> Bool {
        let scheme = url.prefix { $0 != ":" }.lowercased()
        return scheme == "http" || scheme == "https"
    }

    /// The media's URLs, where the media also says that they are for Clear Key. None where no such URL is asked: then the
    /// application may answer.
    private func namedByMedia(_ request: KeyLoadingRequest) -> [String] {
        guard mediaLicenseURLs != .none, request.keySystem == .clearKey, let url = request.suggestedURL else {
            return []
        }
        return ([url] + request.otherURLs).filter(Self.isHTTP)
    }

    /// When all exchanges of a request with several services end.
    private struct Deadline: Sendable {
        let end: ContinuousClock.Instant
        let now: @Sendable () -> ContinuousClock.Instant

        /// The exchange, in no more than its share of the time that is left for so many.
        func limited(_ exchange: HTTPRequest, share: Int) -> HTTPRequest {
            var exchange = exchange
            exchange.timeout = max(min(exchange.timeout, (end - now()) / share), .milliseconds(1))
            return exchange
        }
    }

    private struct Refusal: Error {
        var error: KeyError
        /// It may be for some of the keys alone.
        var isPartial = false
        /// Another service may have the keys.
        var isElsewhere = false
    }

    /// The keys, of the first service that has an answer.
    private static func keys(
        _ keyIDs: [KeyID], for request: KeyLoadingRequest, _ first: HTTPRequest,
        _ others: ArraySlice<HTTPRequest>, _ deadline: Deadline?, over transport: any HTTPTransport
    ) async throws(KeyError) -> [KeyID: ContentKey] {
        var (exchange, others) = (first, others)
        // A service that refuses all together may have some of them.
        var partial: [HTTPRequest] = []
        while true {
            let refusal: Refusal
            do throws(Refusal) {
                return try await answer(to: exchange, deadline, share: others.count + 1, over: transport)
            } catch {
                refusal = error
            }
            if refusal.isPartial { partial.append(exchange) }
            if refusal.isElsewhere, !Task.isCancelled, let next = others.popFirst() {
                exchange = next
            } else {
                guard !partial.isEmpty, (2...aloneLimit).contains(keyIDs.count), !Task.isCancelled else {
                    throw refusal.error
                }
                return try await keysAlone(keyIDs, for: request, partial, refusal.error, deadline, over: transport)
            }
        }
    }

    /// Those that a service gives alone, after these refusals of all together, are provided one by one, and the error is that
    /// of the others.
    private static func keysAlone(
        _ keyIDs: [KeyID], for request: KeyLoadingRequest, _ exchanges: [HTTPRequest], _ refusal: KeyError,
        _ deadline: Deadline?, over transport: any HTTPTransport
    ) async throws(KeyError) -> [KeyID: ContentKey] {
        request.noteAloneIsNoUse()
        var exchanges = exchanges
        var keys: [KeyID: ContentKey] = [:]
        var refusalAlone: KeyError?
        for keyID in keyIDs {
            for var exchange in exchanges where keys[keyID] == nil {
                exchange.body = ClearKey.licenseRequest(for: [keyID])
                do throws(Refusal) {
                    let some = try await answer(to: exchange, deadline, over: transport)
                    request.provide(some)
                    keys.merge(some) { first, _ in first }
                } catch {
                    // One that fails otherwise is not asked on.
                    if !error.isPartial { exchanges.removeAll { $0.url == exchange.url } }
                    guard !exchanges.isEmpty else { throw error.error }
                    refusalAlone = error.error
                }
            }
        }
        if keys.isEmpty { throw refusal }
        if let refusalAlone, keyIDs.contains(where: { keys[$0] == nil }) { throw refusalAlone }
        return keys
    }

    private static func answer(
        to exchange: HTTPRequest, _ deadline: Deadline?, share: Int = 1, over transport: any HTTPTransport
    ) async throws(Refusal) -> [KeyID: ContentKey] {
        var response: HTTPResponse
        do throws(KeyError) {
            (_, response) = try await transport.exchange { deadline?.limited(exchange, share: share) ?? exchange }
        } catch {
            // One is denied whose address must not be reached.
            let kinds: [KeyError] = [.network(""), .timedOut(""), .denied("")]
            throw Refusal(error: error, isElsewhere: kinds.contains { $0.isSameKind(as: error) })
        }
        defer { wipe(&response.body) }
        guard 200..<300 ~= response.status else {
            throw Refusal(
                error: .serverStatus(response.refusal(of: exchange)),
                isPartial: refusalStatuses.contains(response.status),
                isElsewhere: response.status == 404 || response.status >= 500)
        }
        do throws(KeyError) {
            return try ClearKey.keys(inLicense: response.body)
        } catch {
            throw Refusal(error: .malformedResponse("\(response.printableURL): \(error.reason)"))
        }
    }
}

extension ClearKeyLoader: Redacted {
    /// The name, which has no query and no header in it.
    public var description: String { name }
    /// The name alone; headers may hold credentials.
    public var shown: KeyValuePairs<String, Any> { ["name": name] }
}
