// SPDX-License-Identifier: MPL-2.0

public import LatchkeyViewingSession

/// The session server of a `KeySession`, and how licence requests show its token.
public struct ViewingConfiguration: Sendable {
    /// Server, policy and records.
    public var session: ViewingSession.Configuration
    /// How licence requests show that a session is there.
    public var token: SessionTokenPlacement
    /// Whether content that is stored here, with keys that are stored too, plays without a session.
    public var allowsOffline = true
    /// Makes a session that is not started. Tests bring their own transport and clock.
    public var makeSession: @Sendable (ViewingSession.Configuration) -> ViewingSession = { ViewingSession($0) }

    /// The session is made with libcurl and the system's clock, unless `makeSession` says otherwise.
    public init(_ session: ViewingSession.Configuration, token: SessionTokenPlacement = SessionTokenPlacement()) {
        self.session = session
        self.token = token
    }
}
