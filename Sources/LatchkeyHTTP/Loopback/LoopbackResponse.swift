// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

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
    /// In the place of both: the server wipes its copy when that is sent. Ranges are ignored.
    package var key: ContentKey?

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

    /// An answer whose body is a key.
    package init(key: ContentKey, contentType: String) {
        self.init(headers: [HTTPHeader(name: "Content-Type", value: contentType)])
        self.key = key
    }

    /// 404, without a body.
    public static let notFound = LoopbackResponse(status: 404)
    static let methodNotAllowed = LoopbackResponse(
        status: 405, headers: [HTTPHeader(name: "Allow", value: "GET, HEAD")])

    /// The part of a whole answer that a request asks for (RFC 9110, section 14).
    func part(_ range: LoopbackRange?) -> LoopbackResponse {
        guard status == 200, stream == nil, key == nil, let range else { return self }
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

    /// Of the body, in bytes; nil if that is not known.
    var length: UInt64? {
        if let stream { return stream.length }
        return UInt64(key == nil ? body.count : ContentKey.size)
    }
}

extension LoopbackResponse: Redacted {
    /// Status and size of the body, as far as that is known.
    public var description: String { "\(status), \(length.map { "\($0)" } ?? "some") bytes" }
    /// The same two; the body may be a key.
    public var shown: KeyValuePairs<String, Any> { ["status": status, "bodySize": body.count] }
}

/// A body that comes piece by piece, as fast as the client takes it.
public struct LoopbackStream: Sendable {
    /// Something of the body is missing, and cannot be had.
    public struct Broken: Error {
        /// The only one there is.
        public init() {}
    }

    /// Gives the next piece, which is not empty; nil after the last one. Throws where the body breaks off: the connection is closed then, by
    /// which the client sees that something is missing.
    public typealias Next = @Sendable () async throws(Broken) -> [UInt8]?

    /// Of all pieces together, in bytes; nil where that is not known. The body goes out in chunks then (RFC 9112, section
    /// 7.1), and to a client of HTTP/1.0 as all that comes until the connection ends.
    public var length: UInt64?
    /// Nil before `length` counts as a body that breaks off.
    public var next: Next

    /// `next` is asked for a piece when the client has taken the one before, and not again after `length` bytes, nil or an
    /// error.
    public init(length: UInt64?, next: @escaping Next) {
        self.length = length
        self.next = next
    }
}
