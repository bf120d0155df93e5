// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The transport on libcurl.
///
/// One thread, started with the first request, runs all transfers of one instance and keeps its connections for the
/// next request. Thread-safe; control code uses `shared`. The thread ends with the instance.
///
/// - Only http and https, TLS 1.2 or later, certificates verified against the system's store.
/// - The proxy comes from the environment, as libcurl reads it: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.
/// - Redirects: at most 5. Credentials stay within the origin, and https never goes on as http.
/// - Cookies are kept where a request names a store for them, `.netrc` is not read, nothing is logged.
public final class CurlTransport: HTTPTransport {
    /// For all control code of the process. Its thread starts with the first request.
    public static let shared = CurlTransport()

    private let loop: CurlLoop
    private let now: @Sendable () -> ContinuousClock.Instant

    /// A transport with connections of its own. Most callers want `shared`.
    public convenience init() { self.init(settings: CurlSettings()) }

    init(settings: CurlSettings) {
        loop = CurlLoop(settings: settings)
        now = settings.now
    }

    deinit { loop.stop() }

    /// Sends the request and follows redirects, all within the timeout of the request. A response is no error, whatever
    /// its status.
    public func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        try await exchange(request, nil)
    }

    /// As `HTTPTransport` says; redirects are followed first.
    public func send(
        _ request: HTTPRequest, through gate: HTTPBodyGate?, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HTTPError) -> HTTPResponse { try await exchange(request, receiver, gate) }

    private func exchange(
        _ request: HTTPRequest, _ receiver: HTTPBodyReceiver?, _ gate: HTTPBodyGate? = nil
    ) async throws(HTTPError) -> HTTPResponse {
        var chain = try RedirectChain(request)
        try Self.check(request)
        // libcurl counts milliseconds in 32 bits; that many are 24 days.
        let timeout = min(request.timeout, .milliseconds(Int32.max))
        let deadline = now().advanced(by: max(timeout, .zero))
        while true {
            let left = now().duration(to: deadline)
            if request.forbidsLocalAddresses, chain.url.namesLocalAddress { throw .localAddress(at: chain.url) }
            guard left > .zero else { throw .timedOut(chain.url.text, "no complete response within \(timeout)") }
            var response: HTTPResponse
            do throws(HTTPError) {
                response = try await loop.response(to: chain.request, at: chain.url, within: left, receiver, gate)
            } catch {
                guard receiver == nil, error.isSameKind(as: .coding("")), chain.leavesCoding() else { throw error }
                continue
            }
            response.movedURL = chain.movedURL
            guard try chain.follow(response) else { return response }
        }
    }

    private static func check(_ request: HTTPRequest) throws(HTTPError) {
        guard isToken(request.method) else { throw .invalidRequest(request.url, "the method is not a token") }
        for header in request.headers {
            guard header.isWellFormed else {
                throw .invalidRequest(request.url, "a header field has a bad name, or a line break in its value")
            }
            guard !header.isNamed("Content-Length"), !header.isNamed("Transfer-Encoding") else {
                throw .invalidRequest(request.url, "Content-Length and Transfer-Encoding cannot be set")
            }
        }
    }
}

extension HTTPError {
    static func localAddress(at url: HTTPURL) -> HTTPError {
        .localAddress(
            url.text,
            "a URL that media or a license service names must not lead to a loopback, link-local or private address; name it "
                + "in the settings, or set media-license-urls=any")
    }
}

/// What tests set otherwise than the environment of the process.
struct CurlSettings: Sendable {
    /// Whether libcurl looks for a proxy in the environment.
    var usesProxyEnvironment = true
    /// A PEM file with the certificates to trust in place of the system's.
    var caFile: String?
    /// Entries of CURLOPT_RESOLVE, in the place of look-ups.
    var addresses: [String] = []
    /// The time that the timeout of a whole exchange is counted in.
    var now: @Sendable () -> ContinuousClock.Instant = { .now }
}

/// Follows redirects (RFC 9110, section 15.4): what to send next, and what must not go along.
///
/// - At most `maximum` redirects.
/// - 307 and 308 keep method and body. 303, and 301 and 302 after a POST, go on as GET without a body.
/// - Once a redirect leaves the origin (scheme, host, port), only fields that cannot hold a credential are sent, also
///   if a later one leads back. Of the referrer, that is its origin, as with browsers.
/// - To another origin is refused where the request says so.
/// - From https to http is refused: it would show the request to everybody on the way.
struct RedirectChain: Sendable {
    static let maximum = 5

    private(set) var request: HTTPRequest
    private(set) var url: HTTPURL
    /// Where redirects for good led, up to the first that is none; nil: nowhere.
    private(set) var movedURL: String?
    private var isMoved = true
    private var followed = 0

    init(_ request: HTTPRequest) throws(HTTPError) {
        self.request = request
        url = try HTTPURL(request.url)
    }

    /// Whether the response is a redirect to follow. `request` and `url` are then the next ones to send.
    mutating func follow(_ response: HTTPResponse) throws(HTTPError) -> Bool {
        guard [301, 302, 303, 307, 308].contains(response.status), let location = response.header("Location") else {
            return false
        }
        guard followed < Self.maximum else {
            throw .tooManyRedirects(url.text, "the server redirects more than \(Self.maximum) times")
        }
        let target = try url.resolving(location)
        if url.scheme == "https", target.scheme == "http" {
            throw .redirect(url.text, "the server redirects from https to http, which is refused")
        }
        if request.staysWithinOrigin, !target.isSameOrigin(as: url) {
            throw .redirect(
                url.text,
                "it redirects a request with credentials to another origin, \(URIReference.printable(target.text)); name "
                    + "that one in the settings, if it is the right one")
        }
        followed += 1
        if !target.isSameOrigin(as: url) { removeCredentials(for: target) }
        if response.status == 303 && request.method != "HEAD"
            || response.status <= 302 && request.method == "POST"
        {
            becomeGet()
        }
        url = target
        request.url = target.text
        isMoved = isMoved && [301, 308].contains(response.status)
        if isMoved { movedURL = target.text }
        return true
    }

    /// Whether the request is to be sent again, with a body that is taken as it comes.
    mutating func leavesCoding() -> Bool {
        guard request.toleratesCompression, !request.isTakenAsItComes else { return false }
        (request.acceptsCompression, request.isTakenAsItComes) = (false, true)
        return true
    }

    // A service's own fields (X-…-Token) carry credentials too, so that a list of what may go is the safe one. Without its
    // range, a request would be for all of what may be a film.
    private mutating func removeCredentials(for target: HTTPURL) {
        let harmless = ["Accept", "Accept-Language", "Content-Type", "Range", "SOAPAction", "User-Agent"]
        request.headers = request.headers.compactMap { header in
            if header.isNamed("Referer") { return Self.origin(ofReferrer: header, for: target) }
            return harmless.contains { header.isNamed($0) } ? header : nil
        }
    }

    /// Nil for a referrer that is no URL, and from https to http.
    private static func origin(ofReferrer header: HTTPHeader, for target: HTTPURL) -> HTTPHeader? {
        var referrer = URIReference(header.value)
        guard referrer.isHTTP, referrer.scheme?.lowercased() == "http" || target.scheme == "https",
            let host = referrer.authority?.split(separator: "@", omittingEmptySubsequences: false).last, !host.isEmpty
        else { return nil }
        (referrer.authority, referrer.path, referrer.query, referrer.fragment) = (String(host), "/", nil, nil)
        return HTTPHeader(name: header.name, value: referrer.text)
    }

    private mutating func becomeGet() {
        request.method = "GET"
        request.body = []
        let aboutBody = ["Content-Encoding", "Content-Language", "Content-Type", "SOAPAction"]
        request.headers.removeAll { header in aboutBody.contains { header.isNamed($0) } }
    }
}
