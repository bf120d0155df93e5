// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection that has no whole request in time: from its start, and from the end of each answer on. Bytes that
/// come slowly do not extend the time. It does not run while a request is answered.
///
/// One for each connection; used on its event loop alone.
final class RequestDeadlineHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let timeout: TimeAmount
    private var deadline: Scheduled<Void>?
    /// Requests that came as a whole, less the answers: below zero where one was answered before its end.
    private var unanswered = 0

    init(timeout: TimeAmount) { self.timeout = timeout }

    func handlerAdded(context: ChannelHandlerContext) { restart(context) }

    func handlerRemoved(context: ChannelHandlerContext) { deadline?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        deadline?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = Self.unwrapInboundIn(data) {
            unanswered += 1
            restart(context)
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = Self.unwrapOutboundIn(data) {
            unanswered -= 1
            restart(context)
        }
        context.write(data, promise: promise)
    }

    private func restart(_ context: ChannelHandlerContext) {
        deadline?.cancel()
        deadline = nil
        guard unanswered <= 0 else { return }
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
    }
}
