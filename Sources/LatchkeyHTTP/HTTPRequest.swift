// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What to send, and how long and how much to wait for.
///
/// Prints its method and its URL without query and user information; never fields or body.
public struct HTTPRequest: Sendable {
    /// `GET`, `POST`, … A token (RFC 9110, section 9).
    public var method: String
    /// An absolute http or https URL. User information in it is sent as Basic authentication.
    public var url: String
    /// Sent as they are. `Content-Length` and `Transfer-Encoding` are the transport's own and are refused.
    public var headers: [HTTPHeader]
    /// Sent as it is; empty: none.
    public var body: [UInt8]
    /// For the whole exchange: look-up, connection, redirects and the last byte of the response.
    public var timeout: Duration = .seconds(10)
    /// How long no byte may come, once the request is sent: ends with `timedOut`. Whole seconds, at least one; nil: as long
    /// as `timeout` lasts. For what may be large, on networks of any speed, with a `timeout` that is out of the way.
    public var stallTimeout: Duration?
    /// For one connection, from its look-up to the end of the TLS handshake.
    public var connectTimeout: Duration = .seconds(5)
    /// The most bytes that a response body may have.
    public var maximumResponseSize: Int = 1 << 20
    /// Whether the body may come compressed (RFC 9110, section 8.4); the response has it without that. The limit counts
    /// what is unpacked.
    public var acceptsCompression = false
    /// Whether a body that comes compressed is unpacked, although the request asks for one that is not. For keys and licenses:
    /// unpacking leaves copies in memory, and some servers have nothing else. If it cannot be unpacked, the request is sent once
    /// more, and the body is taken as it comes: some servers name a coding that it does not have, such as its character set.
    /// With `acceptsCompression`, the first request asks for codings, and the second one for none.
    package var toleratesCompression = false
    /// Whether such a body could not be unpacked, and is taken as it comes now. Set by the transport.
    var isTakenAsItComes = false
    /// Whether a redirect to another origin is refused: where the body holds credentials.
    public var staysWithinOrigin = false
    /// Whether the request fails where it, or a redirect, leads to a loopback, link-local or private address, given as such
    /// or looked up: for URLs that came from somewhere else than the settings. Through a proxy, addresses are the proxy's
    /// matter, and exceptions (`no_proxy`) do not count.
    public var forbidsLocalAddresses = false
    /// Whether the token of a viewing session may go along: a license request to a server that the configuration names.
    /// Transports leave it alone.
    public var mayCarrySessionToken = false
    /// Those that go along and those that the answers set; nil: none are kept. A `Cookie` field of `headers` goes along too.
    package var cookies: CookieStore?

    /// Checks nothing: the transport refuses what must not be sent. Times and sizes are the usual ones.
    public init(method: String = "GET", url: String, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
    }

    /// The URL for logs and error texts: without query, fragment and user information.
    public var printableURL: String { URIReference.printable(url) }

    /// Scheme, host and port of the URL; empty for a URL that cannot be read.
    package var origin: String { (try? HTTPURL(url)).map { "\($0.scheme)://\($0.host):\($0.port)" } ?? "" }
}

extension HTTPRequest: Redacted {
    /// Method and `printableURL`.
    public var description: String { "\(method) \(printableURL)" }
    /// The same two for `dump`.
    public var shown: KeyValuePairs<String, Any> { ["method": method, "url": printableURL] }
}

/// One field of a request or a response (RFC 9110, section 5).
///
/// Names compare without regard to case in `HTTPResponse.header(_:)`; `==` compares both strings exactly. The value
/// can be a credential, so it never prints.
public struct HTTPHeader: Sendable, Hashable {
    /// Compared without regard to case (RFC 9110, 5.1).
    public var name: String
    /// Sent as it is; the transport refuses a line break in it.
    public var value: String

    /// Checks nothing: a field that must not be sent is refused by the transport, with `HTTPError.invalidRequest`.
    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    /// Whether the field has this name. ASCII letters match in either case.
    func isNamed(_ other: String) -> Bool {
        name.utf8.count == other.utf8.count && zip(name.utf8, other.utf8).allSatisfy { lowercase($0) == lowercase($1) }
    }

    /// Whether the field fits in a request: a token as its name, no control characters in its value.
    ///
    /// A line break in a value would let the source of the value add further fields.
    var isWellFormed: Bool {
        isToken(name) && value.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }
}

extension HTTPHeader: Redacted {
    /// The name alone, because the value may be a credential.
    public var description: String { "\(name): <redacted>" }
    /// The name; `dump` shows no value.
    public var shown: KeyValuePairs<String, Any> { ["name": name] }
}

/// Whether the text is a token (RFC 9110, section 5.6.2), as methods and field names are.
func isToken(_ text: String) -> Bool {
    !text.isEmpty
        && text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default:
                "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
        }
}

private func lowercase(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}
