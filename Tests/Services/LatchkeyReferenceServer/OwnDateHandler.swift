// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Lets an answer have another date than the machine's: Hummingbird writes that into every answer.
///
/// One for each connection; used on its event loop alone.
final class OwnDateHandler: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The field whose value is sent as `Date`; it is not sent itself.
    static let field = HTTPField.Name("Latchkey-Own-Date") ?? .date

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = Self.unwrapOutboundIn(data), let date = head.headerFields[Self.field] else {
            context.write(data, promise: promise)
            return
        }
        head.headerFields[Self.field] = nil
        head.headerFields[.date] = date
        context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
    }
}
