// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import NIOCore
import NIOHTTP1
import Synchronization

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
        let length = response.length
        if hasContent, let length { fields.add(name: "Content-Length", value: String(length)) }
        // swift-nio puts chunks into answers of HTTP/1.1 alone; after a HEAD, it would send the last one.
        let isOld = hasContent && length == nil && (head.version != .http1_1 || head.method == .HEAD)
        let isLast = isLast || isOld
        if isLast { fields.add(name: "Connection", value: "close") }
        let status = HTTPResponseStatus(statusCode: (200...599).contains(response.status) ? response.status : 500)
        channel.write(
            HTTPServerResponsePart.head(
                HTTPResponseHead(version: isOld ? .http1_0 : .http1_1, status: status, headers: fields)),
            promise: nil)
        if head.method != .HEAD, hasContent, let stream = response.stream {
            return send(stream, on: channel, isLast: isLast, endsWithConnection: isOld)
        }
        if head.method != .HEAD, hasContent, let key = response.key {
            send(key, on: channel)
        } else if head.method != .HEAD, hasContent, !response.body.isEmpty {
            channel.write(
                HTTPServerResponsePart.body(.byteBuffer(channel.allocator.buffer(bytes: response.body))), promise: nil)
        }
        gate.answerDidStart(channel)
        end(on: channel, isLast: isLast)
    }

    /// Goes out with the end of the answer. The copy in ordinary memory is wiped when the kernel has it, or the connection ends.
    private func send(_ key: ContentKey, on channel: any Channel) {
        var buffer = channel.allocator.buffer(capacity: ContentKey.size)
        key.withBytes { bytes in _ = buffer.writeBytes(bytes) }
        let sent = buffer
        channel.write(HTTPServerResponsePart.body(.byteBuffer(sent))).whenComplete { _ in
            // SAFETY: what was written shares this memory, and nothing reads that any more.
            sent.withUnsafeReadableBytes { bytes in explicitBzero(UnsafeMutableRawBufferPointer(mutating: bytes)) }
        }
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
    private func send(
        _ stream: LoopbackStream, on channel: any Channel, isLast: Bool, endsWithConnection: Bool
    ) {
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        channel.flush()
        answering = Task {
            if await stream.write(to: channel) {
                channel.eventLoop.execute {
                    connection.value.answering = nil
                    connection.value.end(on: channel, isLast: isLast)
                }
            } else {
                // Else a client would take the end for that of a whole body.
                if endsWithConnection { await LoopbackSocket.resetAtClose(channel) }
                channel.close(promise: nil)
            }
        }
    }

    /// The server decides about these itself.
    private static let ownFields = [
        "Connection", "Content-Length", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    ]
}

extension LoopbackStream {
    /// Whether all of it is there and with the client.
    fileprivate func write(to channel: any Channel) async -> Bool {
        var sent: UInt64 = 0
        do {
            while length != sent, !Task.isCancelled {
                guard let piece = try await next() else { return length == nil }
                guard !piece.isEmpty else { return false }
                let part = piece.prefix(Int(clamping: (length ?? .max) - sent))
                let buffer = channel.allocator.buffer(bytes: part)
                try await channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(buffer)))
                sent += UInt64(part.count)
            }
        } catch {
            return false
        }
        return length == sent
    }
}

/// The open connections of one server. Thread-safe.
final class LoopbackConnections: Sendable {
    private struct Entry {
        let channel: any Channel
        /// Showed the token once.
        var isKnown = false
    }

    private struct State {
        /// In the order of arrival.
        var entries: [Entry] = []
        var isClosed = false
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    var count: Int { state.withLock { $0.entries.count } }

    /// Takes a connection in and makes it answer, or fails, which ends it.
    func add(_ channel: any Channel, _ service: LoopbackService) -> EventLoopFuture<Void> {
        let (isWelcome, evicted) = state.withLock { state -> (Bool, (any Channel)?) in
            guard !state.isClosed else { return (false, nil) }
            var evicted: (any Channel)?
            if state.entries.count >= limit {
                guard let stranger = state.entries.firstIndex(where: { !$0.isKnown }) else { return (false, nil) }
                evicted = state.entries.remove(at: stranger).channel
            }
            state.entries.append(Entry(channel: channel))
            return (true, evicted)
        }
        evicted?.close(promise: nil)
        guard isWelcome else { return channel.eventLoop.makeFailedFuture(ChannelError.eof) }
        channel.closeFuture.whenComplete { [weak self] _ in self?.remove(channel) }
        return channel.eventLoop.makeCompletedFuture {
            try LoopbackSocket.keepFromChildren(channel)
            var limits = NIOHTTPDecoderLimitConfiguration()
            limits.maxHeaderFieldSize = service.limits.requestSize
            limits.maxHeaderListSize = service.limits.requestSize
            limits.maxHeaderFieldCount = service.limits.fieldCount
            let pipeline = channel.pipeline.syncOperations
            let gate = LoopbackGate(limits: service.limits)
            try pipeline.addHandler(gate)
            try pipeline.configureHTTPServerPipeline(
                withErrorHandling: false, withEncoderConfiguration: .init(), withDecoderLimitConfiguration: limits)
            try pipeline.addHandler(
                LoopbackConnection(service: service, gate: gate) { [weak self] in self?.know(channel) })
        }
    }

    /// The connections to close; nil where that was asked for before.
    func close() -> [any Channel]? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            state.isClosed = true
            defer { state.entries = [] }
            return state.entries.map(\.channel)
        }
    }

    private func know(_ channel: any Channel) {
        state.withLock { state in
            if let index = state.entries.firstIndex(where: { $0.channel === channel }) {
                state.entries[index].isKnown = true
            }
        }
    }

    private func remove(_ channel: any Channel) {
        state.withLock { $0.entries.removeAll { $0.channel === channel } }
    }
}

/// The first handler of a connection: counts bytes and time before anything reads them. Used on the loop only.
final class LoopbackGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private enum Stage {
        case idle
        case reading
        case answering
    }

    private let limits: LoopbackLimits
    private var stage = Stage.idle
    private var size = 0
    private var alarm: Scheduled<Void>?

    init(limits: LoopbackLimits) { self.limits = limits }

    func channelActive(context: ChannelHandlerContext) {
        enter(.idle, limits.idleTime, context.channel)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        alarm?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A request may have no body, so a client has nothing more to say until the answer is there.
        size += unwrapInboundIn(data).readableBytes
        guard size <= limits.requestSize else {
            context.close(promise: nil)
            return
        }
        if case .idle = stage { enter(.reading, limits.requestTime, context.channel) }
        context.fireChannelRead(data)
    }

    /// The request is there and may take as long as its handler needs.
    func requestDidEnd() {
        stage = .answering
        alarm?.cancel()
    }

    /// The answer is on its way out.
    func answerDidStart(_ channel: any Channel) { enter(.answering, limits.answerTime, channel) }

    /// The client has the answer.
    func answerDidEnd(_ channel: any Channel) {
        size = 0
        enter(.idle, limits.idleTime, channel)
    }

    private func enter(_ next: Stage, _ time: Duration, _ channel: any Channel) {
        stage = next
        alarm?.cancel()
        alarm = channel.eventLoop.scheduleTask(in: TimeAmount(time)) { channel.close(promise: nil) }
    }
}
