// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
public import LatchkeyProtection

/// One session server as it is configured: an adapter, and what only its customer knows. Prints without values.
public struct SessionService: Hashable, Sendable {
    /// How the server is spoken to.
    public var adapter: SessionAdapter
    /// An absolute http or https URL, to which the adapter's paths are added.
    public var url: String
    /// What the application authenticates with, where the adapter wants it. A secret.
    public var credential: String?
    /// Values that the adapter asks for by name, as `account` and `device`.
    public var parameters: [String: String]
    /// Sent with every request.
    public var headers: [HTTPHeader]

    static let maximumResponseSize = 64 * 1024

    /// `headers` are sent as they are; `url` and `parameters` are checked when a request is made.
    public init(
        _ adapter: SessionAdapter = .latchkey, url: String, credential: String? = nil,
        parameters: [String: String] = [:], headers: [HTTPHeader] = []
    ) {
        self.adapter = adapter
        self.url = url
        self.credential = credential
        self.parameters = parameters
        self.headers = headers
    }

    /// The request to send. `session` is the client's own number of the session. Throws `invalidConfiguration` where a
    /// path wants a value that is not there.
    public func request(
        _ request: SessionState.Request, session: String, termination: String? = nil
    ) throws(KeyError) -> HTTPRequest {
        let exchange = adapter.exchange(request.kind)
        var values = parameters
        values["session"] = session
        values["token"] = request.token?.text
        values["reference"] = request.reference
        values["credential"] = credential
        values["termination"] = termination
        var result = HTTPRequest(
            method: exchange.method, url: try address(exchange, values),
            headers: headers + Self.fill(exchange.headers, values).map { HTTPHeader(name: $0.0, value: $0.1) })
        if let fields = exchange.fields {
            let members = Self.fill(fields, values).map { "\(SessionJSON.quote($0)):\(SessionJSON.quote($1))" }
            result.body = Array("{\(members.joined(separator: ","))}".utf8)
            result.headers.append(HTTPHeader(name: "Content-Type", value: "application/json"))
        }
        result.headers.append(HTTPHeader(name: "Accept", value: "application/json"))
        result.timeout = .milliseconds(request.timeout)
        result.connectTimeout = min(.seconds(5), result.timeout)
        result.maximumResponseSize = Self.maximumResponseSize
        result.staysWithinOrigin = true
        return result
    }

    /// Name and value of what has all its values, in the order of names.
    private static func fill(_ templates: [String: String], _ values: [String: String]) -> [(String, String)] {
        templates.sorted { $0.key < $1.key }.compactMap { name, template in
            guard let text = try? SessionTemplate.text(template, values) else { return nil }
            return (name, text)
        }
    }

    private func address(_ exchange: SessionAdapter.Exchange, _ values: [String: String]) throws(KeyError) -> String {
        var address: String
        if exchange.path == "{reference}" {
            address = try location(values["reference"])
        } else {
            let path = try SessionTemplate.text(exchange.path, values, encode: PercentEncoding.encode)
            address = (url.hasSuffix("/") ? String(url.dropLast()) : url) + path
        }
        for (name, value) in Self.fill(exchange.query, values) {
            let item = "\(PercentEncoding.encode(name))=\(PercentEncoding.encode(value))"
            address += (address.contains("?") ? "&" : "?") + item
        }
        return address
    }

    /// A server may name a place of its own, and no other server.
    private func location(_ reference: String?) throws(KeyError) -> String {
        guard let reference, !reference.isEmpty else {
            throw .invalidConfiguration("the session server “\(adapter.name)” gave no place to send heartbeats to")
        }
        let origin = SessionTemplate.origin(of: url)
        if reference.hasPrefix("/"), !reference.hasPrefix("//") { return origin + reference }
        guard !origin.isEmpty, SessionTemplate.origin(of: reference) == origin else {
            throw .denied("the session server names a place at another server, which is refused")
        }
        return reference
    }
}

extension SessionService: Redacted {
    /// Adapter, URL without query, and the names of parameters and headers. Never a value or the credential.
    public var description: String {
        let names = parameters.keys.sorted() + headers.map(\.name)
        return "“\(adapter.name)” at \(HTTPRequest(url: url).printableURL)"
            + (names.isEmpty ? "" : " with \(names.joined(separator: ", "))")
    }
}

extension SessionService {
    private static let maximumMessageLength = 512
    private static let maximumConflicts = 32
    private static let maximumTokenSize = 16 * 1024

    /// What an answer means for the session. No bytes of a server make it trap. A failure does not repeat the credential and the
    /// values of `headers`.
    public func reply(to kind: SessionState.Request.Kind, _ response: HTTPResponse) -> SessionState.Reply {
        reply(to: kind, response, hiding: [credential].compactMap(\.self) + headers.map(\.value))
    }

    /// The same where the failure must not repeat these.
    func reply(
        to kind: SessionState.Request.Kind, _ response: HTTPResponse, hiding secrets: [String]
    ) -> SessionState.Reply {
        guard response.body.count <= Self.maximumResponseSize else {
            return .failed(SessionFailure(.unknown, status: response.status, message: "an answer of more than 64 KiB"))
        }
        // The status comes first: a proxy's page of HTML is no reason to fail over its brackets.
        guard (200...299).contains(response.status) else { return .failed(failure(kind, response, secrets)) }
        if kind == .teardown { return .granted(SessionGrant()) }
        let json = SessionJSON(response.body)
        var grant = SessionGrant()
        if let place = adapter.answer.token {
            guard let token = text(at: place, json, response), !token.isEmpty,
                token.utf8.count <= Self.maximumTokenSize
            else {
                return .failed(
                    SessionFailure(
                        .unknown, status: response.status, message: "the answer has no token: \(Self.name(place))"))
            }
            grant.token = SessionToken(token)
        }
        if kind == .setup, let place = adapter.answer.reference {
            guard let reference = text(at: place, json, response), !reference.isEmpty,
                reference.utf8.count <= Self.maximumTokenSize
            else {
                return .failed(
                    SessionFailure(
                        .refused, status: response.status,
                        message: "the answer does not name the session: \(Self.name(place))"))
            }
            grant.reference = reference
        }
        grant.interval = milliseconds(json, response)
        if let place = adapter.answer.interval, let interval = grant.interval,
            !SessionPolicy.intervals.contains(interval)
        {
            grant.intervalPlace = Self.name(place)
        }
        if let place = adapter.answer.missedBeats, let number = value(at: place, json, response)?.number {
            grant.missedBeats = Self.whole(number)
        }
        if adapter.answer.expiresHeader, grant.interval == nil, let lease = lease(response) {
            grant.missedBeats = grant.missedBeats ?? 3
            grant.interval = lease / SessionState.clamp(grant.missedBeats ?? 3, SessionPolicy.missedBeatCounts)
        }
        return .granted(grant)
    }

    /// The same where there was no answer. If the path has the token or another secret in it, the failure has the server's URL alone.
    public func reply(to kind: SessionState.Request.Kind, _ error: HTTPError) -> SessionState.Reply {
        let meaning: SessionFailure.Kind =
            if [.tls(""), .untrusted("")].contains(where: error.isSameKind) {
                .insecure
            } else if error.isSameKind(as: .invalidURL("")) || error.isSameKind(as: .invalidRequest("")) {
                .refused
            } else {
                .unknown
            }
        // The error has the path.
        let path = adapter.exchange(kind).path
        let hasSecret = ["{token}", "{credential}", "{termination}"].contains { path.contains($0) }
        let message =
            hasSecret ? "\(error.shortDescription): \(HTTPRequest(url: url).printableURL)" : error.description
        return .failed(SessionFailure(meaning, message: message))
    }

    // MARK: Errors

    private func failure(
        _ kind: SessionState.Request.Kind, _ response: HTTPResponse, _ secrets: [String]
    ) -> SessionFailure {
        let json = SessionJSON(response.body)
        let code = adapter.answer.code.flatMap { text(at: $0, json, response) }
        var failure = SessionFailure(
            meaning(of: response.status, code.map { Self.printable($0, upTo: 32) }, isJSON: json != nil, for: kind))
        failure.status = response.status
        failure.code = code.map { Self.printable(Self.removing(secrets, from: $0), upTo: 32) }
        failure.message =
            adapter.answer.message.flatMap { text(at: $0, json, response) }
            .map { Self.printable(Self.removing(secrets, from: $0), upTo: Self.maximumMessageLength) } ?? ""
        failure.retryAfter = retryAfter(response)
        if let place = adapter.answer.conflicts, case .array(let items)? = value(at: place, json, response) {
            failure.conflicts = items.prefix(Self.maximumConflicts).compactMap { conflict($0, secrets) }
        }
        return failure
    }

    private func meaning(
        of status: Int, _ code: String?, isJSON: Bool, for kind: SessionState.Request.Kind
    ) -> SessionFailure.Kind {
        if adapter.errorsAreJSON, !isJSON { return .unknown }
        let rule = adapter.rules.first { rule in
            (rule.request == nil || rule.request == kind) && (rule.status == nil || rule.status == status)
                && (rule.code == nil || rule.code == code)
        }
        if let rule { return rule.means.kind }
        switch status {
        case 408, 425, 429, 500...599: return .unknown
        case 401: return .credential
        case 404, 410: return kind == .setup ? .refused : .ended
        default: return .refused
        }
    }

    private func conflict(_ item: SessionJSON, _ secrets: [String]) -> SessionFailure.Conflict? {
        func text(_ place: String?) -> String? {
            place.flatMap { item.value(at: $0.split(separator: ".")[...])?.text }
        }
        let reference = text(adapter.answer.conflictReference)
        let termination = text(adapter.answer.conflictTermination)
        guard reference != nil || termination != nil else { return nil }
        return SessionFailure.Conflict(
            reference: Self.printable(Self.removing(secrets, from: reference ?? ""), upTo: 256),
            label: Self.printable(Self.removing(secrets, from: text(adapter.answer.conflictLabel) ?? ""), upTo: 256),
            terminationCode: termination.flatMap { $0.utf8.count <= Self.maximumTokenSize ? $0 : nil })
    }

    // MARK: Values

    /// A place in an answer, for errors.
    private static func name(_ place: String) -> String {
        place.hasPrefix("header:") ? "the header \(place.dropFirst(7))" : "the member \(place)"
    }

    private func value(at place: String, _ json: SessionJSON?, _ response: HTTPResponse) -> SessionJSON? {
        if place.hasPrefix("header:") { return response.header(String(place.dropFirst(7))).map { .string($0) } }
        return json?.value(at: place.split(separator: ".")[...])
    }

    private func text(at place: String, _ json: SessionJSON?, _ response: HTTPResponse) -> String? {
        value(at: place, json, response)?.text
    }

    private func milliseconds(_ json: SessionJSON?, _ response: HTTPResponse) -> Int64? {
        guard let place = adapter.answer.interval, let found = value(at: place, json, response) else { return nil }
        // What is there and is no number is an interval that makes no sense, and the session state says so.
        guard let number = found.number else { return 0 }
        return Self.whole(number * Double(adapter.answer.intervalUnit))
    }

    private static func whole(_ number: Double) -> Int64 {
        guard number.isFinite, abs(number) < 1e15 else { return number > 0 ? 1_000_000_000_000_000 : 0 }
        return Int64(number)
    }

    private func lease(_ response: HTTPResponse) -> Int64? {
        guard let expires = response.header("Expires").flatMap({ HTTPDate.seconds($0) }),
            let date = response.header("Date").flatMap({ HTTPDate.seconds($0) })
        else { return nil }
        return (expires - date) * 1000
    }

    private func retryAfter(_ response: HTTPResponse) -> Int64? {
        guard let text = response.header("Retry-After") else { return nil }
        let day: ClosedRange<Int64> = 0...86_400
        if let seconds = Int64(text) { return SessionState.clamp(seconds, day) * 1000 }
        guard let then = HTTPDate.seconds(text), let date = response.header("Date").flatMap({ HTTPDate.seconds($0) })
        else { return nil }
        return SessionState.clamp(then - date, day) * 1000
    }

    /// What a failure must not repeat of a request: the secrets in it, and the values of its header fields.
    func secrets(of request: SessionState.Request, in message: HTTPRequest, termination: String?) -> [String] {
        let fields = message.headers.filter { !["accept", "content-type"].contains($0.name.lowercased()) }.map(\.value)
        return [credential, request.token?.text, termination].compactMap(\.self) + fields
            + fields.flatMap { $0.split(separator: " ").map(String.init) }
    }

    /// The text with `[…]` in the place of each secret of 4 bytes or more.
    private static func removing(_ secrets: [String], from text: String) -> String {
        // The longest first: one may be part of another.
        secrets.filter { $0.utf8.count >= 4 }.sorted { $0.utf8.count > $1.utf8.count }
            .reduce(text) { text, secret in text.replacing(secret, with: "[…]") }
    }

    private static func printable(_ text: String, upTo length: Int) -> String {
        let scalars = text.unicodeScalars.prefix(length).map { scalar in
            scalar.properties.generalCategory == .control ? " " : scalar
        }
        return String(String.UnicodeScalarView(scalars))
    }
}

/// Times in header fields (RFC 9110, section 5.6.7, `IMF-fixdate`). Only differences of a server's own are of use: its
/// clock need not be ours.
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Seconds since 1970; nil where the text is no such date.
    static func seconds(_ text: String) -> Int64? {
        guard text.utf8.count <= 64 else { return nil }
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT", let day = number(parts[1], 1...31),
            let month = months.firstIndex(of: String(parts[2])), let year = number(parts[3], 1970...9999)
        else { return nil }
        let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = number(time[0], 0...23), let minute = number(time[1], 0...59),
            let second = number(time[2], 0...60)
        else { return nil }
        // Days from the civil calendar: years begin in March, so that the leap day is the last one.
        let shifted = Int64(month) < 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * ((Int64(month) + 10) % 12) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * 146_097 + dayOfEra - 719_468
        return days * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.count <= 4, let number = Int64(text), range.contains(number) else { return nil }
        return number
    }
}

/// Texts with names in braces.
enum SessionTemplate {
    /// The text with the values filled in, each through `encode`. Throws `invalidConfiguration` with the name of a value
    /// that is not there.
    static func text(
        _ template: String, _ values: [String: String], encode: (String) -> String = { $0 }
    ) throws(KeyError) -> String {
        var result = ""
        var rest = template[...]
        while let open = rest.firstIndex(of: "{"), let close = rest[open...].firstIndex(of: "}") {
            let name = String(rest[rest.index(after: open)..<close])
            guard let value = values[name] else {
                throw .invalidConfiguration("the session server wants “\(name)”; set it in the configuration")
            }
            result += rest[..<open] + encode(value)
            rest = rest[rest.index(after: close)...]
        }
        return result + rest
    }

    /// Scheme and authority, in lower case; empty where there are none, or where user information could hide the host. For libcurl, a
    /// backslash ends no authority.
    static func origin(of url: String) -> String {
        guard let colon = url.firstIndex(of: ":"), url[colon...].hasPrefix("://") else { return "" }
        let start = url.index(colon, offsetBy: 3)
        let authority = url[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard !authority.contains(where: { $0 == "@" || $0 == "\\" }) else { return "" }
        return (url[..<start] + authority).lowercased()
    }
}
