// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOPosix

/// Sends requests to the server under test, each over a connection of its own.
struct TestClient: Sendable {
    let port: Int

    func execute(
        uri: String, method: HTTPRequest.Method, headers: HTTPFields = [:], body: ByteBuffer? = nil
    ) async throws -> TestResponse {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    return try NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>(
                        wrappingChannelSynchronously: channel)
                }
            }
        var head = HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method.rawValue), uri: uri)
        head.headers.add(name: "Host", value: "localhost:\(port)")
        head.headers.add(name: "Connection", value: "close")
        if let body { head.headers.add(name: "Content-Length", value: String(body.readableBytes)) }
        for field in headers { head.headers.add(name: field.name.rawName, value: field.value) }
        let parts: [HTTPClientRequestPart] = [.head(head)] + (body.map { [.body(.byteBuffer($0))] } ?? []) + [.end(nil)]
        return try await channel.executeThenClose { inbound, outbound in
            // At once: the server closes when it has answered, which it may do before the end is written.
            try await outbound.write(contentsOf: parts)
            return try await TestResponse(inbound)
        }
    }
}

/// What came back for a request.
struct TestResponse: Sendable {
    let status: HTTPResponse.Status
    let headers: HTTPFields
    let body: ByteBuffer

    /// The connection closed before the answer was whole.
    struct Incomplete: Error {}

    var text: String { String(buffer: body) }
    var bytes: [UInt8] { Array(buffer: body) }

    fileprivate init(_ parts: NIOAsyncChannelInboundStream<HTTPClientResponsePart>) async throws {
        var head: HTTPResponseHead?
        var body = ByteBuffer()
        var isWhole = false
        reading: for try await part in parts {
            switch part {
            case .head(let it): head = it
            case .body(let piece): body.writeImmutableBuffer(piece)
            case .end:
                isWhole = true
                break reading
            }
        }
        guard isWhole, let head else { throw Incomplete() }
        status = HTTPResponse.Status(code: Int(head.status.code), reasonPhrase: head.status.reasonPhrase)
        var fields = HTTPFields()
        for (name, value) in head.headers {
            if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
        }
        headers = fields
        self.body = body
    }
}
