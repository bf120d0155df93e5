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
            let path = try SessionTemplate.text(exchange.path, values, encode: SessionTemplate.percentEncoded)
            address = (url.hasSuffix("/") ? String(url.dropLast()) : url) + path
        }
        for (name, value) in Self.fill(exchange.query, values) {
            let item = "\(SessionTemplate.percentEncoded(name))=\(SessionTemplate.percentEncoded(value))"
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

extension SessionService: CustomStringConvertible, CustomReflectable {
    /// Adapter, URL without query, and the names of parameters and headers. Never a value or the credential.
    public var description: String {
        let names = parameters.keys.sorted() + headers.map(\.name)
        return "“\(adapter.name)” at \(HTTPRequest(url: url).printableURL)"
            + (names.isEmpty ? "" : " with \(names.joined(separator: ", "))")
    }

    /// The same text; the credential does not show in `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["service": description]) }
}
