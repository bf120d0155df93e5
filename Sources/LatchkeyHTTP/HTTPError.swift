// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import CLatchkeyCurl

/// Why there is no response. A response with an error status is no `HTTPError`.
///
/// `description` is for people: it names the URL, without query and user information, and what went wrong.
/// `shortDescription` has no values in it and suits metrics.
public struct HTTPError: Error, Sendable, Hashable {
    private enum Code: String {
        case invalidURL = "invalid URL"
        case invalidRequest = "invalid request"
        case unresolvedHost = "host not found"
        case refused = "no connection"
        case tls = "no secure connection"
        case untrusted = "server not trusted"
        case redirect = "redirect refused"
        case localAddress = "address refused"
        case timedOut = "timed out"
        case tooLarge = "response too large"
        case tooManyRedirects = "too many redirects"
        case truncated = "response incomplete"
        case coding = "response cannot be unpacked"
        case cancelled
        case other = "HTTP failure"
    }

    private let code: Code
    private let url: String
    private let detail: String

    // The only way in, so that no query and no user information gets past it.
    private init(_ code: Code, _ url: String, _ detail: String) {
        self.code = code
        self.url = url.isEmpty ? "" : URIReference.printable(url)
        self.detail = detail
    }

    /// The URL, or the target of a redirect, is not an absolute http or https URL.
    public static func invalidURL(_ url: String, _ detail: String = "") -> HTTPError { Self(.invalidURL, url, detail) }
    /// A method or a header field that must not be sent.
    public static func invalidRequest(_ url: String, _ detail: String = "") -> HTTPError {
        Self(.invalidRequest, url, detail)
    }
    /// The name of the host, or of the proxy, has no address.
    public static func unresolvedHost(_ url: String, _ detail: String = "") -> HTTPError {
        Self(.unresolvedHost, url, detail)
    }
    /// No server accepts the connection.
    public static func refused(_ url: String, _ detail: String = "") -> HTTPError { Self(.refused, url, detail) }
    /// The TLS handshake failed, which a network that breaks off may be the cause of.
    public static func tls(_ url: String, _ detail: String = "") -> HTTPError { Self(.tls, url, detail) }
    /// The certificate of the server, or what is to verify it, is not one to trust.
    public static func untrusted(_ url: String, _ detail: String = "") -> HTTPError { Self(.untrusted, url, detail) }
    /// A redirect that must not be followed: from https to http, or with credentials to another origin.
    public static func redirect(_ url: String, _ detail: String = "") -> HTTPError { Self(.redirect, url, detail) }
    /// The URL, or a redirect, leads to an address that the request must not reach (`HTTPRequest.forbidsLocalAddresses`).
    public static func localAddress(_ url: String, _ detail: String = "") -> HTTPError {
        Self(.localAddress, url, detail)
    }
    /// The exchange, or the connection, took longer than the request allows.
    public static func timedOut(_ url: String, _ detail: String = "") -> HTTPError { Self(.timedOut, url, detail) }
    /// The response is larger than the request allows.
    public static func tooLarge(_ url: String, _ detail: String = "") -> HTTPError { Self(.tooLarge, url, detail) }
    /// More redirects than are followed, as in a loop.
    public static func tooManyRedirects(_ url: String, _ detail: String = "") -> HTTPError {
        Self(.tooManyRedirects, url, detail)
    }
    /// The connection ended before the whole response was there.
    public static func truncated(_ url: String, _ detail: String = "") -> HTTPError { Self(.truncated, url, detail) }
    /// The response names a content coding that is not known, or that its body does not have.
    static func coding(_ url: String, _ detail: String = "") -> HTTPError { Self(.coding, url, detail) }
    /// The task that waited for the response was cancelled.
    public static func cancelled(_ url: String, _ detail: String = "") -> HTTPError { Self(.cancelled, url, detail) }
    /// Any other failure.
    public static func other(_ url: String, _ detail: String = "") -> HTTPError { Self(.other, url, detail) }

    /// The URL and the details without the kind, for an error that has a kind of its own.
    package var reason: String { [url, detail].filter { !$0.isEmpty }.joined(separator: ": ") }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// Whether `other` is of the same kind, whatever the URL and the details.
    public func isSameKind(as other: HTTPError) -> Bool { code == other.code }

    /// Whether the network or the server broke off, so that the same request may succeed when sent again.
    public var isConnectionFailure: Bool {
        switch code {
        case .unresolvedHost, .refused, .timedOut, .truncated: true
        default: false
        }
    }

    /// Whether the same request may have a response later, without any other change: the network and its servers come and go,
    /// while a certificate, a redirect or an answer that is not HTTP stays as it is.
    public var isTemporary: Bool { isConnectionFailure || code == .tls }
}

extension HTTPError: CustomStringConvertible {
    /// The kind, the URL without query and user information, and the details, as far as they are there.
    public var description: String {
        [code.rawValue, reason].filter { !$0.isEmpty }.joined(separator: ": ")
    }
}

extension HTTPError {
    /// What a result code of libcurl means here.
    ///
    /// `meaning` is libcurl's own text for the code, `detail` its text for what happened. `detail` is taken only for the
    /// kinds whose texts cannot hold the URL of a proxy, which may have a password in it.
    init(_ code: CURLcode, at url: String, meaning: String, detail: String) {
        let text = detail.isEmpty ? meaning : detail
        switch code {
        case CURLE_URL_MALFORMAT:
            self = .invalidURL(url, meaning)
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY:
            // The scheme was checked before.
            self = .other(url, "the answer is not HTTP, or libcurl was built without TLS")
        case CURLE_COULDNT_RESOLVE_HOST:
            self = .unresolvedHost(url, "check the name of the host and the network")
        case CURLE_COULDNT_RESOLVE_PROXY:
            self = .unresolvedHost(url, "check the name of the proxy in the environment")
        case CURLE_COULDNT_CONNECT:
            self = .refused(url, "check that the server runs and that host and port are right")
        case CURLE_OPERATION_TIMEDOUT:
            self = .timedOut(url, text)
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_HTTP2,
            CURLE_HTTP2_STREAM:
            self = .truncated(url, text)
        case CURLE_BAD_CONTENT_ENCODING:
            self = .coding(url, text)
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_SHUTDOWN_FAILED:
            self = .tls(url, text)
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CLIENTCERT,
            CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED,
            CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_CRL_BADFILE, CURLE_USE_SSL_FAILED:
            self = .untrusted(url, text)
        default:
            self = .other(url, meaning)
        }
    }
}
