// SPDX-License-Identifier: MPL-2.0

/// What a `LoopbackServer` answers. Prints its status and size; never fields or body.
public struct LoopbackResponse: Sendable {
    /// 200 to 599; anything else goes out as 500.
    public var status: Int
    /// Fields about the connection and the length of the body are the server's own, and are left out here.
    public var headers: [HTTPHeader]
    /// Not sent in answer to HEAD.
    public var body: [UInt8]
    /// In the place of `body`, for what is too large or not there yet.
    public var stream: LoopbackStream?

    /// The server adds `Content-Length`, and cuts a range out of a body with the status 200.
    public init(status: Int = 200, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// An answer whose body comes piece by piece. Ranges are the handler's business: `status` is 206 and `headers` have a
    /// `Content-Range` where it is a part.
    public init(status: Int, headers: [HTTPHeader], stream: LoopbackStream) {
        self.init(status: status, headers: headers)
        self.stream = stream
    }

    /// 404, without a body.
    public static let notFound = LoopbackResponse(status: 404)
    static let methodNotAllowed = LoopbackResponse(
        status: 405, headers: [HTTPHeader(name: "Allow", value: "GET, HEAD")])

    /// The part of a whole answer that a request asks for (RFC 9110, section 14).
    func part(_ range: LoopbackRange?) -> LoopbackResponse {
        guard status == 200, stream == nil, let range else { return self }
        guard let bounds = range.bounds(in: body.count) else {
            return LoopbackResponse(
                status: 416, headers: [HTTPHeader(name: "Content-Range", value: "bytes */\(body.count)")])
        }
        var part = self
        part.status = 206
        let bytes = "bytes \(bounds.lowerBound)-\(bounds.upperBound - 1)/\(body.count)"
        part.headers.append(HTTPHeader(name: "Content-Range", value: bytes))
        part.body = Array(body[bounds])
        return part
    }
}

extension LoopbackResponse: CustomStringConvertible, CustomReflectable {
    /// Status and size of the body, as far as that is known.
    public var description: String {
        let size = if let stream { stream.length } else { UInt64(body.count) }
        return "\(status), \(size.map { "\($0)" } ?? "some") bytes"
    }
    /// The same two; the body may be a key.
    public var customMirror: Mirror { Mirror(self, children: ["status": status, "bodySize": body.count]) }
}
