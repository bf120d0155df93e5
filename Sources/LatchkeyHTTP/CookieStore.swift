// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import Glibc
import LatchkeyProtection
import Synchronization

/// The cookies of one presentation (RFC 6265). Thread-safe.
///
/// Requests that name it (`HTTPRequest.cookies`) take along what fits their URL, and what their answers set, also those that
/// redirect, is kept for later ones. libcurl's cookie engine decides which fit: it goes by domain, path, `Secure` and time,
/// refuses domains that are public suffixes, and takes 50 cookies from one answer, sends 150 with one request, and leaves out
/// those of more than 4 KiB. Nothing is written to disk, and everything goes with this object.
package final class CookieStore: Sendable {
    /// The most cookies that are kept. With more, all are forgotten.
    static let limit = 1024

    private struct State {
        var jar: Jar?
        /// Cookies that were set since the last count, and those of the last count.
        var bound = 0
        var hasBeenUsed = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Whether an answer has ever set a cookie.
    package var hasBeenUsed: Bool { state.withLock { $0.hasBeenUsed } }

    /// Takes the values of `Set-Cookie` fields of an answer from `url` that other code has fetched. What cannot be kept is
    /// left out.
    package func take(_ fields: [String], from url: String) {
        guard !fields.isEmpty, let url = try? HTTPURL(url), let library = CurlLibrary.present, library.isReady else {
            return
        }
        let curl = library.functions
        let lines = fields.prefix(50).compactMap { Cookie($0, from: url, at: time(nil), curl)?.line }
        ExitGate.pass {
            guard let handle = curl.pointee.easy_init() else { return }
            defer { curl.pointee.easy_cleanup(handle) }
            guard attach(to: handle, curl) else { return }
            for line in lines { _ = latchkey_curl_set_string(curl, handle, CURLOPT_COOKIELIST, line) }
            didSet(lines.count, in: handle, curl)
        }
    }

    /// A `Set-Cookie` field of an answer from `url` as `take` gives it to libcurl; nil for one that must not be kept.
    package static func line(of field: String, from url: String, at now: Int) -> String? {
        guard let library = CurlLibrary.present, let url = try? HTTPURL(url) else { return nil }
        return Cookie(field, from: url, at: now, library.functions)?.line
    }

    /// Has a transfer use the cookies. The handle must go before this object does. False where libcurl has none.
    func attach(to handle: UnsafeMutableRawPointer, _ curl: UnsafePointer<latchkey_curl>) -> Bool {
        let jar = state.withLock { state in
            if state.jar == nil { state.jar = Jar(curl) }
            return state.jar
        }
        guard let jar else { return false }
        // Empty: no file, which is what begins the use of cookies.
        return latchkey_curl_set_pointer(curl, handle, CURLOPT_SHARE, jar.pointer.pointee.share) == CURLE_OK
            && latchkey_curl_set_string(curl, handle, CURLOPT_COOKIEFILE, "") == CURLE_OK
    }

    /// An answer of the transfer has set so many cookies: libcurl itself keeps any number.
    func didSet(_ count: Int, in handle: UnsafeMutableRawPointer, _ curl: UnsafePointer<latchkey_curl>) {
        guard count > 0 else { return }
        let isToCount = state.withLock { state in
            state.hasBeenUsed = true
            state.bound += count
            return state.bound > Self.limit
        }
        guard isToCount else { return }
        // Most were replaced or have expired.
        var left = latchkey_cookies_count(curl, handle)
        if left > Self.limit {
            _ = latchkey_curl_set_string(curl, handle, CURLOPT_COOKIELIST, "ALL")
            left = 0
        }
        state.withLock { $0.bound = left }
    }

    /// What libcurl keeps the cookies in.
    private final class Jar: @unchecked Sendable {
        // SAFETY: libcurl locks what it points to, and it is freed when neither the store nor one of its transfers is left.
        let pointer: UnsafeMutablePointer<latchkey_cookie_jar>
        private let curl: UnsafePointer<latchkey_curl>

        init?(_ curl: UnsafePointer<latchkey_curl>) {
            guard let pointer = latchkey_cookies_make(curl) else { return nil }
            self.pointer = pointer
            self.curl = curl
        }

        deinit { latchkey_cookies_free(curl, pointer) }
    }
}

extension CookieStore: Redacted {
    /// None of the cookies.
    package var description: String { "cookies" }
    /// Nothing.
    package var shown: KeyValuePairs<String, Any> { [:] }
}

/// A cookie of an answer that libcurl has not read (RFC 6265, 5.2 and 5.3). libcurl takes such a field alone, too, but without
/// the URL: the cookie would go to every host.
private struct Cookie {
    /// As in Netscape's files, which libcurl reads.
    let line: String

    /// Nil for one that must not be kept. `now` is in seconds since 1970.
    init?(_ field: String, from url: HTTPURL, at now: Int, _ curl: UnsafePointer<latchkey_curl>) {
        // The limit is libcurl's own. A tab or a line end would add columns or lines.
        guard field.utf8.count <= 5000, !field.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return nil }
        let parts = field.split(separator: ";", omittingEmptySubsequences: false).map(Self.pair)
        guard let first = parts.first, !first.name.isEmpty, let value = first.value else { return nil }
        let host = url.host.filter { $0 != "[" && $0 != "]" }
        var domain = ""
        var path = Self.folder(of: url)
        var (expires, maximumAge): (Int?, Int?)
        var (isSecure, isHTTPOnly) = (false, false)
        for (name, value) in parts.dropFirst() {
            let value = value ?? ""
            switch name.lowercased() {
            case "domain": domain = String(value.drop { $0 == "." }).lowercased()
            case "path": path = value.hasPrefix("/") ? value : Self.folder(of: url)
            case "secure": isSecure = true
            case "httponly": isHTTPOnly = true
            case "expires": expires = curl.pointee.getdate(value, nil)
            case "max-age": maximumAge = Int(value) ?? maximumAge
            default: break
            }
        }
        // As libcurl has it: who can change what goes in the clear does not choose what goes over TLS.
        guard !isSecure || url.scheme == "https" || Self.hostsInThisMachine.contains(host) else { return nil }
        let isForAll = !domain.isEmpty && !Self.isAddress(host) && !Self.isPublicSuffix(domain, curl)
        guard domain.isEmpty || domain == host || isForAll && host.hasSuffix("." + domain) else { return nil }
        // Zero: the end of the presentation.
        var end = expires.map { $0 < 0 ? 0 : max($0, 1) } ?? 0
        if let maximumAge { end = maximumAge <= 0 ? 1 : now + min(maximumAge, Int(Int32.max)) }
        line = [
            (isHTTPOnly ? "#HttpOnly_" : "") + (isForAll ? domain : host), isForAll ? "TRUE" : "FALSE", path,
            isSecure ? "TRUE" : "FALSE", String(end), first.name, value,
        ].joined(separator: "\t")
    }

    private static let hostsInThisMachine = ["localhost", "127.0.0.1", "::1"]

    private static func pair(_ text: Substring) -> (name: String, value: String?) {
        guard let sign = text.firstIndex(of: "=") else { return (trimmed(text), nil) }
        return (trimmed(text[..<sign]), trimmed(text[text.index(after: sign)...]))
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text.drop { $0 == " " }
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// The path of cookies that name none: up to the last slash, without it.
    private static func folder(of url: HTTPURL) -> String {
        let path = URIReference(url.text).path
        guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    private static func isAddress(_ host: String) -> Bool {
        var bytes = in6_addr()
        return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1
    }

    /// Whether hosts of that domain belong to several owners. By libpsl's list, if libcurl brings one, or a domain without a
    /// dot.
    private static func isPublicSuffix(_ domain: String, _ curl: UnsafePointer<latchkey_curl>) -> Bool {
        guard domain.contains(".") else { return true }
        guard let isAcceptable = curl.pointee.psl_is_cookie_domain_acceptable, let list = curl.pointee.psl_builtin?()
        else { return false }
        return isAcceptable(list, "x." + domain, domain) == 0
    }
}
