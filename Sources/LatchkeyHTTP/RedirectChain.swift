// SPDX-License-Identifier: MPL-2.0

/// Follows redirects (RFC 9110, section 15.4): what to send next, and what must not go along.
///
/// - At most `maximum` redirects.
/// - 307 and 308 keep method and body. 303, and 301 and 302 after a POST, go on as GET without a body.
/// - Once a redirect leaves the origin (scheme, host, port), only fields that cannot hold a credential are sent, also
///   if a later one leads back.
/// - To another origin is refused where the request says so.
/// - From https to http is refused: it would show the request to everybody on the way.
struct RedirectChain: Sendable {
    static let maximum = 5

    private(set) var request: HTTPRequest
    private(set) var url: HTTPURL
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
                "it redirects a request with credentials to another origin, \(HTTPURL.printable(target.text)); name "
                    + "that one in the settings, if it is the right one")
        }
        followed += 1
        if !target.isSameOrigin(as: url) { removeCredentials() }
        if response.status == 303 && request.method != "HEAD"
            || response.status <= 302 && request.method == "POST"
        {
            becomeGet()
        }
        url = target
        request.url = target.text
        return true
    }

    // A service's own fields (X-…-Token) carry credentials too, so that a list of what may go is the safe one. Without its
    // range, a request would be for all of what may be a film.
    private mutating func removeCredentials() {
        let harmless = ["Accept", "Accept-Language", "Content-Type", "Range", "SOAPAction", "User-Agent"]
        request.headers.removeAll { header in !harmless.contains { header.isNamed($0) } }
    }

    private mutating func becomeGet() {
        request.method = "GET"
        request.body = []
        let aboutBody = ["Content-Encoding", "Content-Language", "Content-Type", "SOAPAction"]
        request.headers.removeAll { header in aboutBody.contains { header.isNamed($0) } }
    }
}
