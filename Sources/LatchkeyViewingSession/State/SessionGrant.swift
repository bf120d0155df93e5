// SPDX-License-Identifier: MPL-2.0

/// What a server gives with a session and with each accepted heartbeat.
public struct SessionGrant: Equatable, Sendable {
    /// The token for the next request. Nil: the one that is there stays.
    public var token: SessionToken?
    /// The server's own name for the session, or its URL. Nil: the one that is there stays.
    public var reference: String?
    /// Time between heartbeats in milliseconds, where the server names it.
    public var interval: Int64?
    /// Where the answer has it, in words for errors.
    public var intervalPlace = "the answer"
    /// How many intervals the server waits, where it says so.
    public var missedBeats: Int64?

    /// What is not given stays as it is.
    public init(
        token: SessionToken? = nil, reference: String? = nil, interval: Int64? = nil, missedBeats: Int64? = nil
    ) {
        self.token = token
        self.reference = reference
        self.interval = interval
        self.missedBeats = missedBeats
    }
}
