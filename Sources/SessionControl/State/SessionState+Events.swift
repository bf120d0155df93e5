// SPDX-License-Identifier: MPL-2.0

extension SessionState {
    /// What happens to a session.
    public enum Event: Equatable, Sendable {
        /// Playback wants a session. After a denial or a loss: wants one again.
        case start
        /// Playback is over.
        case stop
        /// Time has come to `deadline`.
        case tick
        /// The answer to a request.
        case reply(to: Request, Reply)
        /// A licence brought the session along: it was asked for at this time.
        case adopt(SessionGrant, sentAt: Int64)
        /// The application's answer to `Action.wantsCredential`: whether there is a new one.
        case credential(isNew: Bool)
        case pause
        case play
        /// The application is not in front any more. With picture-in-picture, nothing changes.
        case background(pictureInPicture: Bool)
        case foreground
        /// The machine is about to sleep.
        case suspend
        /// The machine is awake again.
        case resume
    }

    public enum Reply: Equatable, Sendable {
        case granted(SessionGrant)
        case failed(SessionFailure)
    }

    /// A request to the server. Two are never under way at the same time.
    public struct Request: Equatable, Sendable {
        public enum Kind: String, Sendable {
            case setup, beat, teardown
        }

        public let kind: Kind
        /// Of the session that it is for: each setup begins another one.
        public let generation: UInt32
        /// Its own, never used twice.
        public let number: UInt32
        /// By the session's clock.
        public let sentAt: Int64
        /// Milliseconds after which the machine gives the answer up.
        public let timeout: Int64
        public let token: SessionToken?
        public let reference: String?
    }

    /// What is to be told.
    public enum Notice: Equatable, Sendable {
        /// The session is there.
        case established
        /// The session could not be set up.
        case setupError(SessionFailure)
        /// A heartbeat failed. `isFinal`: the session is lost, and playback must not go on.
        case heartbeatError(SessionFailure, isFinal: Bool)
        /// The session could not be ended; it is left for the next start, or for the server to find out.
        case teardownError(SessionFailure)
        /// The session was ended for a pause that was long, or for sleep; playing on sets up another one.
        case released
        /// The session is over.
        case closed
    }

    public enum GateChange: Equatable, Sendable {
        case opened, closed
    }

    /// What is to be written down, so that nobody forgets a session that the server counts.
    public enum RecordChange: Equatable, Sendable {
        /// A session is there, or will be: keep this.
        case write(generation: UInt32, token: SessionToken?, reference: String?)
        /// The server does not count the session any more.
        case remove(generation: UInt32)
        /// The server may count the session on, and nobody here tries to end it any more: leave that to the next start.
        case leave(generation: UInt32)
    }

    /// A session that the server holds and nobody here wants. To be ended, whatever comes of it.
    public struct Stray: Equatable, Sendable {
        public let generation: UInt32
        public let token: SessionToken?
        public let reference: String?
    }

    /// What follows from an event, to be done in this order: gate, records, cancel, send, dispose, notices.
    public struct Action: Equatable, Sendable {
        public var gate: GateChange?
        /// In order.
        public var records: [RecordChange] = []
        /// This request's answer is not waited for any more.
        public var cancels: Request?
        public var send: Request?
        /// A session that an old request has brought about. End it.
        public var dispose: Stray?
        /// The application is asked for a new credential; `.credential` is its answer.
        public var wantsCredential = false
        public var notices: [Notice] = []

        public init() {}
    }

    public enum Phase: String, Equatable, Sendable {
        case idle
        case settingUp
        case active
        /// A heartbeat failed; the server still waits for another one.
        case grace
        /// The process stood still for longer than the server waits. One heartbeat tells what became of the session.
        case verifying
        /// Ended for a pause; another one is set up when playback goes on.
        case dormant
        case denied
        case lost
        case tearingDown
        case closed
    }
}
