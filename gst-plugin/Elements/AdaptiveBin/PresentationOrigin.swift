// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyKeySession
import LatchkeyManifests
import Synchronization

/// Fetches for the stock demuxer what it asks the loopback server for, as the stock demuxer would. Thread-safe.
final class PresentationOrigin: Sendable {
    /// What is fetched, with how much of it is taken.
    enum Content: String, Sendable {
        case playlist, manifest
        case initSegment = "init segment"
        case segment
        case key

        fileprivate var limit: Int {
            switch self {
            case .playlist: 16 << 20
            case .manifest: XMLLimits.manifest.size
            case .initSegment: 16 << 20
            case .segment: 512 << 20
            case .key: 4096
            }
        }
        fileprivate var isText: Bool { self == .playlist || self == .manifest }
        fileprivate var timeout: Duration {
            switch self {
            case .playlist, .manifest, .initSegment: .seconds(20)
            // Who waits for a key has a timeout for that.
            case .segment, .key: .seconds(120)
            }
        }
    }

    private struct State {
        /// What the source element sends beside what the stock demuxer takes over from it.
        var headers: [HTTPHeader] = []
        /// Scheme, host and port of the presentation's first URL.
        var home: String?
        /// The same of the URL that the application named, which may redirect there.
        var source: String?
        /// The same of others that get what the source element sends.
        var named: Set<String> = []
        /// All others get it.
        var namesAll = false
        var isLocal = false
        /// The last request of the stock demuxer, whose fields also go with what it does not ask for itself. Before the first one:
        /// what it takes over from the source element, and the presentation's URL as the referrer.
        var demuxerHeaders: [HTTPHeader] = []
        /// Where playlists and manifests have moved for good.
        var moved: [String: String] = [:]
    }

    /// The most moves that are remembered; later ones are redirected each time.
    private static let movedLimit = 1024

    private let transport: any HTTPTransport
    /// Those that servers set for the presentation. The application's are fields of the source element.
    let cookies = CookieStore()
    private let state = Mutex(State())

    /// What people call the media that comes in one request.
    let medium: String

    init(transport: any HTTPTransport, medium: String = Content.segment.rawValue) {
        (self.transport, self.medium) = (transport, medium)
    }

    /// The fields of the request that brought the manifest.
    func setHeaders(_ headers: [HTTPHeader]) { state.withLock { $0.headers = headers.filter(Self.isPassedOn) } }

    /// Other origins than the presentation's own that get what the source element sends, as `ControlSettings.sourceHeaderOrigins`.
    func setHeaderOrigins(_ origins: [String]) {
        state.withLock { state in
            state.named = Set(origins.compactMap { URIReference($0).origin })
            state.namesAll = origins.contains("*")
        }
    }

    /// The source element has the manifest: from `url`, with these `Set-Cookie` fields. It asked at `source`.
    func manifestDidCome(from url: String, source: String, setCookies: [String]) {
        cookies.take(setCookies, from: url)
        state.withLock { $0.source = URIReference(source).origin }
    }

    /// Where the presentation is. `source` is that before redirects; nil: there were none.
    func setHome(_ url: String, source: String? = nil) {
        let reference = URIReference(url)
        state.withLock { state in
            (state.home, state.isLocal) = (reference.origin, reference.filePath != nil)
            guard state.demuxerHeaders.isEmpty else { return }
            state.demuxerHeaders = state.headers.filter { $0.name.lowercased() == "user-agent" || Self.isReferrer($0) }
            if !state.demuxerHeaders.contains(where: Self.isReferrer) {
                state.demuxerHeaders.append(HTTPHeader(name: "Referer", value: source ?? url))
            }
        }
    }

    /// Whether the presentation is a file of this device: only such a one may name other files.
    var isLocal: Bool { state.withLock(\.isLocal) }

    private func transport(for url: String) -> any HTTPTransport {
        isLocal && URIReference(url).filePath != nil ? FileTransport() : transport
    }

    /// Remembers the fields of a request of the stock demuxer.
    func note(_ request: LoopbackRequest) {
        state.withLock { $0.demuxerHeaders = request.headers.filter(Self.isPassedOn) }
    }

    /// The response, whatever its status; 203 is 200 here.
    ///
    /// What the stock demuxer sent goes along as it was, but for what is secret in its referrer, and for its cookies, which may
    /// be those that servers set: `cookies` has these. What only the source element knows, such as Authorization and the
    /// application's cookies, goes to the origins that it was sent to, and to those that a setting names.
    func response(
        _ content: Content, _ url: String, for request: LoopbackRequest? = nil, range: HLSByteRange? = nil,
        method: String = "GET"
    ) async throws(HLSFailure) -> HTTPResponse {
        let place = content.isText ? state.withLock { $0.moved[url] } ?? url : url
        var outgoing = self.request(content, place, for: request, range: range?.httpRange, method: method)
        // As the redirect would leave them behind.
        if place != url, URIReference(place).origin != URIReference(url).origin {
            outgoing.headers.removeAll(where: Self.isCookie)
        }
        do {
            let response = try await transport(for: place).send(outgoing).withPlainStatus
            if content.isText { note(response, of: url) }
            return response
        } catch {
            if content.isText { state.withLock { $0.moved[url] = nil } }
            throw .transport(error, of: content.rawValue)
        }
    }

    /// A playlist or manifest that has moved for good (301, 308) is asked for there from now on, as long as it is there.
    private func note(_ response: HTTPResponse, of url: String) {
        // A network that wants a log-in may lead to its page for good.
        let isForeign = ForeignContent(start: response.body) != nil
        state.withLock { state in
            if response.status >= 400 || isForeign {
                state.moved[url] = nil
            } else if let place = response.movedURL, state.moved.count < Self.movedLimit || state.moved[url] != nil {
                state.moved[url] = place
            }
        }
    }

    /// A segment, whose body goes to `receiver` as it comes and as `gate` lets it (`HTTPTransport`). `range` is the value of
    /// a `Range` field. Fails if no byte comes for `stallTimeout`. The status 203 is 200 here.
    func receive(
        _ url: String, for request: LoopbackRequest, range: String?, stallTimeout: Duration,
        through gate: HTTPBodyGate, to receiver: @escaping HTTPBodyReceiver
    ) async throws(HLSFailure) -> HTTPResponse {
        var outgoing = self.request(.segment, url, for: request, range: range, method: "GET")
        // A player may stand still for long, and a segment may be a whole film.
        outgoing.timeout = .seconds(86_400)
        outgoing.maximumResponseSize = ContentRange.limit
        outgoing.stallTimeout = stallTimeout
        let plain: HTTPBodyReceiver = { head, piece in receiver(head.withPlainStatus, piece) }
        do {
            return try await transport(for: url).send(outgoing, through: gate, to: plain).withPlainStatus
        } catch {
            throw .transport(error, of: medium)
        }
    }

    /// The most of a segment that is kept at once, in bytes.
    static var segmentLimit: Int { Content.segment.limit }

    private func request(
        _ content: Content, _ url: String, for request: LoopbackRequest?, range: String?, method: String
    ) -> HTTPRequest {
        var headers = request.map { $0.headers.filter(Self.isPassedOn) } ?? state.withLock { $0.demuxerHeaders }
        headers.removeAll(where: Self.isCookie)
        let target = URIReference(url)
        headers = headers.compactMap { Self.isReferrer($0) ? Self.referrer($0, for: target) : $0 }
        let (own, homes) = state.withLock { ($0.headers, [$0.home, $0.source]) }
        let (named, namesAll) = state.withLock { ($0.named, $0.namesAll) }
        let isHome = target.origin.map { homes.contains($0) } ?? false
        let isNamed = namesAll || target.origin.map { named.contains($0) } ?? false
        if isHome || isNamed {
            headers += own.filter { mine in
                // That of the source element may have more in it than others should see.
                (isHome || !Self.isReferrer(mine)) && !headers.contains { $0.isSameField(as: mine) }
            }
        }
        if let range { headers.append(HTTPHeader(name: "Range", value: range)) }
        var outgoing = HTTPRequest(method: method, url: url, headers: headers)
        outgoing.cookies = cookies
        outgoing.timeout = content.timeout
        outgoing.connectTimeout = .seconds(15)
        outgoing.maximumResponseSize = content.limit
        // As the stock demuxers do; some servers have nothing else.
        outgoing.acceptsCompression = content.isText
        // Some servers name a coding that text or a key does not have.
        outgoing.toleratesCompression = content.isText || content == .key
        return outgoing
    }

    /// The bytes; any other status than success is a failure. `needed`: as for `HLSByteRange.cut`. If the server refuses `range`,
    /// which may end behind the resource, it is asked for that.
    func bytes(
        _ content: Content, _ url: String, for request: LoopbackRequest? = nil, range: HLSByteRange? = nil,
        needing needed: HLSByteRange? = nil
    ) async throws(HLSFailure) -> [UInt8] {
        let response = try await response(content, url, for: request, range: range)
        if content == .segment || content == .initSegment, response.status < 300,
            let foreign = ForeignContent(start: response.body)
        {
            throw .foreign(foreign, inPlaceOf: "media", at: url)
        }
        switch response.status {
        case 206: return response.body
        case 200:
            // A server without ranges sends all.
            return try range?.cut(from: response.body, needing: needed, of: content.rawValue, at: url) ?? response.body
        case 416 where needed != nil && needed != range:
            return try await bytes(content, url, for: request, range: needed)
        default:
            throw .status(response.status, of: content.rawValue, at: url)
        }
    }

    /// Fields that belong to one connection, or that the transport or the rewriting decides about.
    private static func isPassedOn(_ header: HTTPHeader) -> Bool {
        !unpassed.contains { header.isSameField(as: HTTPHeader(name: $0, value: "")) }
    }

    private static func isReferrer(_ header: HTTPHeader) -> Bool { header.name.lowercased() == "referer" }

    /// Without user name and fragment (RFC 9110, 10.1.3), and for another origin without path and query, where tokens are, as
    /// browsers do. Nil from https to http.
    private static func referrer(_ header: HTTPHeader, for target: URIReference) -> HTTPHeader? {
        var referrer = URIReference(header.value)
        guard let origin = referrer.origin, let authority = referrer.authority,
            referrer.scheme?.lowercased() != "https" || target.scheme?.lowercased() == "https"
        else { return nil }
        if let sign = authority.utf8.lastIndex(of: UInt8(ascii: "@")) {
            referrer.authority = String(authority[authority.utf8.index(after: sign)...])
        }
        referrer.fragment = nil
        if origin != target.origin {
            referrer.path = "/"
            referrer.query = nil
        }
        return HTTPHeader(name: header.name, value: referrer.text)
    }

    private static func isCookie(_ header: HTTPHeader) -> Bool { header.name.lowercased() == "cookie" }

    private static let unpassed = [
        "Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "icy-metadata", "Keep-Alive",
        "Proxy-Authorization", "Proxy-Connection", "Range", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    ]

    /// Fields of an answer that also hold for what was made of it. Cookies stay here.
    static func returned(_ headers: [HTTPHeader]) -> [HTTPHeader] {
        headers.filter { header in
            returned.contains { header.isSameField(as: HTTPHeader(name: $0, value: "")) }
        }
    }

    private static let returned = [
        "Age", "Cache-Control", "Content-Type", "Date", "ETag", "Expires", "Last-Modified", "Retry-After", "Server",
    ]
}

extension HLSByteRange {
    /// The range of a whole resource, which may end with the range `needed`; nil: all of this one is. `what` and `url` are for
    /// people.
    func cut(
        from bytes: [UInt8], needing needed: HLSByteRange? = nil, of what: String, at url: String
    ) throws(HLSFailure) -> [UInt8] {
        guard let last = Int(exactly: end), let start = Int(exactly: offset), start <= bytes.count,
            (needed ?? self).end <= UInt64(bytes.count)
        else { throw .media(what, at: url, "it ends before its byte range does") }
        return Array(bytes[start..<min(last, bytes.count)])
    }
}

extension HTTPHeader {
    fileprivate func isSameField(as other: HTTPHeader) -> Bool { name.lowercased() == other.name.lowercased() }
}

extension AdaptiveBin {
    /// Where more goes of what the application gave the source element.
    static let sourceHeaderOrigins = Property(
        "source-header-origins", nick: "Source header origins",
        blurb:
            "Origins that get the header fields and cookies of the source element, beside the manifest's own: such as "
            + "https://host:8443, separated by semicolons, or “*” for all; unset: as configured, or none. Set it before the "
            + "demuxer starts",
        kind: .string(default: nil),
        get: { .string(($0 as? AdaptiveBin)?.withGuarded { $0.headerOrigins }) },
        set: { element, value in
            guard case .string(let text) = value else { return }
            (element as? AdaptiveBin)?.withGuarded { $0.headerOrigins = text }
        })

    /// The element's own setting, or the configured one.
    final func headerOrigins(_ shared: SharedSession) throws(AdaptiveStartFailure) -> [String] {
        guard let text = withGuarded({ $0.headerOrigins }) else { return shared.settings.sourceHeaderOrigins }
        do throws(KeyError) {
            return try ConfigurationGroup.origins(text, of: "source-header-origins")
        } catch {
            throw .configuration(error)
        }
    }
}
