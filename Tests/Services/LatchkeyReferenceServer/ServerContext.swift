// SPDX-License-Identifier: MPL-2.0

import Hummingbird
import NIOCore

/// What the middleware and the endpoints know of one request.
struct ServerContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The client's connection, for faults that break it.
    let channel: any Channel
    /// The request's place in the log; nil for the endpoints that control the server.
    var logEntry: RequestLog.ID?

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}
