// SPDX-License-Identifier: MPL-2.0

/// A request that reached a `LoopbackServer` with its token. Prints nothing of it but the method.
public struct LoopbackRequest: Sendable {
    /// `GET` or `HEAD`. The server leaves the body of an answer to `HEAD` out.
    public var method: String
    /// What follows the token, without a slash in front and without the query. Not decoded.
    public var path: String
    /// What follows the question mark; nil where there is none. Not decoded.
    public var query: String?
    /// The fields of the request, in its order.
    public var headers: [HTTPHeader]

    /// For tests of handlers; the server makes its own.
    public init(method: String = "GET", path: String, query: String? = nil, headers: [HTTPHeader] = []) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The value of the first field with this name, in any case.
    public func header(_ name: String) -> String? { headers.first { $0.isNamed(name) }?.value }

    /// The part that the client asks for; nil for all. The server cuts it out of an answer with the status 200.
    public var range: LoopbackRange? { header("Range").flatMap { LoopbackRange($0) } }
}

extension LoopbackRequest: CustomStringConvertible, CustomReflectable {
    /// Without the path, which may stand for a secret URL.
    public var description: String { "\(method) of a loopback request" }
    /// The method alone, for the same reason.
    public var customMirror: Mirror { Mirror(self, children: ["method": method]) }
}
