// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import LatchkeyProtection

/// An absolute http or https URL, read by libcurl's own parser, so that what is checked is what is fetched.
struct HTTPURL: Sendable {
    /// The most bytes that are read as a URL.
    static let maximumSize = 65_536

    /// The whole URL without its fragment.
    let text: String
    let scheme: String
    /// In lower case; an IPv6 address with its brackets.
    let host: String
    /// As decimal digits; the scheme's own where the URL names none.
    let port: String
    /// The host as it goes to a resolver or a proxy: digits, letters and dots beyond ASCII may be those of an address there.
    private let asciiHost: String
    private let user: String?
    private let password: String?

    init(_ text: String) throws(HTTPError) {
        guard let parts = URLParts(text, flags: 0, try .shared(for: text)) else {
            throw .invalidURL(text, Self.problem(of: text))
        }
        try self.init(parts, origin: text)
    }

    /// Where a `Location` field leads, relative to this URL.
    ///
    /// User information follows within an origin only, and a server cannot choose it.
    func resolving(_ location: String) throws(HTTPError) -> HTTPURL {
        guard let parts = URLParts(text, flags: 0, try .shared(for: text)),
            parts.set(CURLUPART_URL, location, UInt32(CURLU_URLENCODE))
        else {
            throw .invalidURL(text, "the server redirects to a URL that cannot be read")
        }
        let target = try HTTPURL(parts, origin: text)
        let keepsCredentials = target.isSameOrigin(as: self)
        guard parts.set(CURLUPART_USER, keepsCredentials ? user : nil, 0),
            parts.set(CURLUPART_PASSWORD, keepsCredentials ? password : nil, 0)
        else { throw .invalidURL(text, "the server redirects to a URL that cannot be read") }
        return try HTTPURL(parts, origin: text)
    }

    /// What is wrong with a URL that cannot be read.
    private static func problem(of text: String) -> String {
        guard let scheme = URIReference(text).scheme?.lowercased() else { return "give an absolute http or https URL" }
        return ["http", "https"].contains(scheme)
            ? "its host or port cannot be read, or it has characters that URLs do not have" : onlyHTTP
    }

    private static let onlyHTTP = "only http and https are supported"

    private init(_ parts: URLParts, origin: String) throws(HTTPError) {
        guard let scheme = parts.get(CURLUPART_SCHEME)?.lowercased(), scheme == "http" || scheme == "https" else {
            throw .invalidURL(
                parts.get(CURLUPART_URL) ?? origin, Self.onlyHTTP)
        }
        guard parts.set(CURLUPART_FRAGMENT, nil, 0), let text = parts.get(CURLUPART_URL),
            let host = parts.get(CURLUPART_HOST), !host.isEmpty,
            let port = parts.get(CURLUPART_PORT, UInt32(CURLU_DEFAULT_PORT))
        else { throw .invalidURL(origin, Self.problem(of: origin)) }
        self.text = text
        self.scheme = scheme
        self.host = host.lowercased()
        asciiHost = parts.get(CURLUPART_HOST, latchkey_curl_ascii_host())?.lowercased() ?? host.lowercased()
        self.port = port
        user = parts.get(CURLUPART_USER)
        password = parts.get(CURLUPART_PASSWORD)
    }

    /// Whether the host is a loopback, link-local or private address, as far as its text says it.
    var namesLocalAddress: Bool { LocalAddress.isOne(host: asciiHost) }

    /// Same scheme, host and port (RFC 6454).
    func isSameOrigin(as other: HTTPURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }
}

/// The text with a space for each control character, so that it cannot forge lines in a log.
func withoutControlCharacters(_ text: some StringProtocol) -> String {
    String(
        String.UnicodeScalarView(
            text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
}

/// libcurl's URL parser. Not thread-safe; used within one call.
private final class URLParts {
    private let curl: UnsafePointer<latchkey_curl>
    private let handle: OpaquePointer

    init?(_ text: String, flags: UInt32, _ library: CurlLibrary) {
        curl = library.functions
        guard let handle = curl.pointee.url() else { return nil }
        self.handle = handle
        guard set(CURLUPART_URL, text, flags) else { return nil }
    }

    deinit { curl.pointee.url_cleanup(handle) }

    /// Sets a part, or removes it with nil. False where libcurl does not take it.
    func set(_ part: CURLUPart, _ value: String?, _ flags: UInt32) -> Bool {
        guard let value else { return curl.pointee.url_set(handle, part, nil, flags) == CURLUE_OK }
        // A NUL would end the C string early, and what is checked would not be what is fetched.
        guard value.utf8.count <= HTTPURL.maximumSize, !value.utf8.contains(0) else { return false }
        return curl.pointee.url_set(handle, part, value, flags) == CURLUE_OK
    }

    func get(_ part: CURLUPart, _ flags: UInt32 = 0) -> String? {
        var value: UnsafeMutablePointer<CChar>?
        // SAFETY: libcurl allocates a string that ends in NUL; it is copied and freed here.
        guard curl.pointee.url_get(handle, part, &value, flags) == CURLUE_OK, let value else { return nil }
        defer { curl.pointee.free(value) }
        return String(cString: value)
    }
}
