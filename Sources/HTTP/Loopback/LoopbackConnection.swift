// SPDX-License-Identifier: MPL-2.0

import NIOCore
import NIOHTTP1

/// What all connections of one server share.
struct LoopbackService: Sendable {
    let token: LoopbackToken
    /// What a client that means this server names in its Host field.
    let authority: String
    let limits: LoopbackLimits
    let quick: LoopbackServer.QuickHandler
    let handler: LoopbackServer.Handler

    /// What the head asks for; nil where it lacks the token, so that nothing may be told.
    func request(_ head: HTTPRequestHead) -> LoopbackRequest? {
        guard head.uri.hasPrefix("/"), head.headers["Host"] == [authority] else { return nil }
        let parts = head.uri.dropFirst().split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard path.count == 2, token.matches(path[0]) else { return nil }
        return LoopbackRequest(
            method: head.method.rawValue, path: String(path[1]), query: parts.count > 1 ? String(parts[1]) : nil,
            headers: head.headers.map { HTTPHeader(name: $0.name, value: $0.value) })
    }
}

/// One connection: reads requests, asks the handler, writes answers. Used on the loop only.
final class LoopbackConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let service: LoopbackService
    private let gate: LoopbackGate
    private let onToken: () -> Void
    private var head: HTTPRequestHead?
    private var hasBody = false
    private var answering: Task<Void, Never>?
    private var interim: RepeatedTask?

    init(service: LoopbackService, gate: LoopbackGate, onToken: @escaping () -> Void) {
        self.service = service
        self.gate = gate
        self.onToken = onToken
    }

    func channelInactive(context: ChannelHandlerContext) {
        answering?.cancel()
        interim?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            hasBody = false
        case .body:
            hasBody = true
        case .end:
            guard let head else { return }
            self.head = nil
            gate.requestDidEnd()
            answer(head, on: context.channel)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func answer(_ head: HTTPRequestHead, on channel: any Channel) {
        guard let request = service.request(head), !hasBody else {
            return write(.notFound, to: head, on: channel, isLast: true)
        }
        onToken()
        guard head.method == .GET || head.method == .HEAD else {
            return write(.methodNotAllowed, to: head, on: channel, isLast: true)
        }
        if let response = service.quick(request) {
            return write(response.part(request.range), to: head, on: channel, isLast: !head.isKeepAlive)
        }
        let handler = service.handler
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        // HTTP/1.0 has no interim responses.
        if head.version == .http1_1 {
            let time = TimeAmount(service.limits.interimTime)
            interim = channel.eventLoop.scheduleRepeatedTask(initialDelay: time, delay: time) { _ in
                let head = HTTPResponseHead(version: .http1_1, status: .processing)
                channel.writeAndFlush(HTTPServerResponsePart.head(head), promise: nil)
            }
        }
        answering = Task {
            let response = await handler(request).part(request.range)
            channel.eventLoop.execute {
                connection.value.write(response, to: head, on: channel, isLast: !head.isKeepAlive)
            }
        }
    }

    private func write(_ response: LoopbackResponse, to head: HTTPRequestHead, on channel: any Channel, isLast: Bool) {
        answering = nil
        interim?.cancel()
        interim = nil
        guard channel.isActive else { return }
        var fields = HTTPHeaders()
        for header in response.headers where header.isWellFormed && !Self.ownFields.contains(where: header.isNamed) {
            fields.add(name: header.name, value: header.value)
        }
        let hasContent = response.status != 204 && response.status != 304
        let length = response.stream?.length ?? UInt64(response.body.count)
        if hasContent { fields.add(name: "Content-Length", value: String(length)) }
        if isLast { fields.add(name: "Connection", value: "close") }
        let status = (200...599).contains(response.status) ? response.status : 500
        channel.write(
            HTTPServerResponsePart.head(
                HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: fields)),
            promise: nil)
        if head.method != .HEAD, hasContent, let stream = response.stream {
            return send(stream, on: channel, isLast: isLast)
        }
        if head.method != .HEAD, hasContent, !response.body.isEmpty {
            channel.write(
                HTTPServerResponsePart.body(.byteBuffer(channel.allocator.buffer(bytes: response.body))), promise: nil)
        }
        gate.answerDidStart(channel)
        end(on: channel, isLast: isLast)
    }

    private func end(on channel: any Channel, isLast: Bool) {
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        channel.writeAndFlush(HTTPServerResponsePart.end(nil)).whenComplete { _ in
            if isLast {
                channel.close(promise: nil)
            } else {
                connection.value.gate.answerDidEnd(channel)
            }
        }
    }

    /// Piece by piece, each when the client has taken the last one. A player that stands still takes none for hours, so
    /// no clock runs.
    private func send(_ stream: LoopbackStream, on channel: any Channel, isLast: Bool) {
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        channel.flush()
        answering = Task {
            var left = stream.length
            while left > 0, !Task.isCancelled, var piece = await stream.next(), !piece.isEmpty {
                if UInt64(piece.count) > left { piece = Array(piece.prefix(Int(left))) }
                left -= UInt64(piece.count)
                let buffer = channel.allocator.buffer(bytes: piece)
                do {
                    try await channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(buffer)))
                } catch {
                    return
                }
            }
            guard left == 0 else { return channel.close(promise: nil) }
            channel.eventLoop.execute {
                connection.value.answering = nil
                connection.value.end(on: channel, isLast: isLast)
            }
        }
    }

    /// The server decides about these itself.
    private static let ownFields = [
        "Connection", "Content-Length", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    ]
}
