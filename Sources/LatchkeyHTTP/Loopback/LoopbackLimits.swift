// SPDX-License-Identifier: MPL-2.0

/// How much a `LoopbackServer` takes from its clients before it ends their connections.
public struct LoopbackLimits: Sendable, Hashable {
    /// Request line and fields together, in bytes.
    public var requestSize = 32_768
    /// Fields of one request.
    public var fieldCount = 100
    /// Connections at one time. One more ends the oldest that never showed the token, or is itself refused.
    public var connections = 32
    /// From the first byte of a request to its end.
    public var requestTime: Duration = .seconds(10)
    /// Between an answer and the next request, and from the start to the first request.
    public var idleTime: Duration = .seconds(60)
    /// How often a client hears, while a handler works, that its request is not forgotten: clients give up after some
    /// time without a byte. As an interim response with the status 102 (RFC 2518, section 10.1).
    public var interimTime: Duration = .seconds(4)
    /// From an answer to the moment when the client has taken it.
    public var answerTime: Duration = .seconds(60)

    /// The usual limits.
    public init() {}
}
