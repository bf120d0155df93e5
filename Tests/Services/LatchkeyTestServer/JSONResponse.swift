// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

/// The body of every answer that is an error of the server's own.
struct ErrorBody: Codable {
    /// What is wrong, for people.
    var error: String
    /// The KIDs that it is about, as 32 hexadecimal digits each.
    var kids: [String]?
    /// The number that the key server documents for it.
    var code: Int?
}

extension Response {
    static func json(
        _ value: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]
    ) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let body = try? encoder.encode(value) else { return Response(status: .internalServerError) }
        var headers = headers
        headers[.contentType] = "application/json"
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }

    static func error(
        _ status: HTTPResponse.Status, _ text: String, kids: [String]? = nil, headers: HTTPFields = [:]
    ) -> Response {
        json(ErrorBody(error: text, kids: kids), status: status, headers: headers)
    }
}

extension Request {
    /// The whole body, which stays in the request for those that come later; nil if it is longer than `limit` bytes.
    mutating func keepBytes(upTo limit: Int) async throws -> [UInt8]? {
        guard let bytes = try await bytes(upTo: limit) else { return nil }
        body = RequestBody(buffer: ByteBuffer(bytes: bytes))
        return bytes
    }

    /// The whole body, or nil if it is longer than `limit` bytes: at once if its header says so.
    func bytes(upTo limit: Int) async throws -> [UInt8]? {
        if let length = headers[.contentLength].flatMap({ UInt64($0) }), length > limit { return nil }
        do {
            return Array(buffer: try await body.collect(upTo: limit))
        } catch is NIOTooManyBytesError {
            return nil
        }
    }
}

extension StringProtocol {
    /// Without white space at its ends.
    func trimmed() -> String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[first...last])
    }
}
