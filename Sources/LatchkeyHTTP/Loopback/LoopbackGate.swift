// SPDX-License-Identifier: MPL-2.0

import NIOCore

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
