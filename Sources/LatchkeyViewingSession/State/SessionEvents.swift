// SPDX-License-Identifier: MPL-2.0

// What goes into `SessionState.handle`, and what comes out of it.

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
        /// A license brought the session along: it was asked for at this time.
        case adopt(SessionGrant, sentAt: Int64)
        /// The application's answer to `Action.wantsCredential`: whether there is a new one.
        case credential(isNew: Bool)
        /// Playback stands still; the session is kept for `SessionPolicy.pauseLimit`.
        case pause
        /// What stands still is about to play, such as a start that takes long: its pause begins anew.
        case awaitPlay
        /// Playback goes on.
        case play
        /// The application is not in front any more. What plays keeps the session; one that is lost meanwhile is set up
        /// again in front.
        case background
        /// The application is in front again, or its picture is (picture-in-picture).
        case foreground
        /// The machine is about to sleep.
        case suspend
        /// The machine is awake again.
        case resume
        /// Something says that the server may have ended the session: ask it now, if `canBeChecked`.
        case check
    }

    /// What the driver of a session makes of the server's answer.
    public enum Reply: Equatable, Sendable {
        /// A status of success whose answer can be read.
        case granted(SessionGrant)
        /// Everything else, no answer included.
        case failed(SessionFailure)
    }

    /// A request to the server. Two are never under way at the same time.
    public struct Request: Equatable, Sendable {
        /// The raw value is for logs; a heartbeat's name in files is `heartbeat`.
        public enum Kind: String, Sendable {
            /// The three exchanges of `SessionAdapter`.
            case setup, beat, teardown
        }

        /// Which exchange to send.
        public let kind: Kind
        /// Of the session that it is for: each setup begins another one.
        public let generation: UInt32
        /// Its own, never used twice.
        public let number: UInt32
        /// When it is sent, by the session's clock, in milliseconds. The lease counts from here.
        public let sentAt: Int64
        /// Milliseconds after which the machine gives the answer up.
        public let timeout: Int64
        /// The latest of the session; nil before a setup was granted. A secret.
        public let token: SessionToken?
        /// The server's name for the session; nil before a setup was granted.
        public let reference: String?
    }

    /// What is to be reported.
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

    /// Whether media may be decrypted and shown from now on.
    public enum GateChange: Equatable, Sendable {
        /// `closed` has to be done before anything else of the action.
        case opened, closed
    }

    /// What is to be written down, so that a session that the server counts is not forgotten.
    public enum RecordChange: Equatable, Sendable {
        /// A session is there, or will be: keep this.
        case write(generation: UInt32, token: SessionToken?, reference: String?)
        /// The server does not count the session any more.
        case remove(generation: UInt32)
        /// The server may count the session on, and this process stops trying to end it: leave that to the next start.
        case leave(generation: UInt32)
    }

    /// A session that the server holds and this client does not want. To be ended, whatever comes of it.
    public struct Stray: Equatable, Sendable {
        /// Of the setup that brought it about.
        public let generation: UInt32
        /// What the teardown is authorised with; nil where the server has no tokens. A secret.
        public let token: SessionToken?
        /// The server's name for it; nil where the client's number is enough.
        public let reference: String?
    }

    /// What follows from an event, to be done in this order: gate, records, cancel, send, dispose, notices.
    public struct Action: Equatable, Sendable {
        /// Nil: nothing changes.
        public var gate: GateChange?
        /// In order.
        public var records: [RecordChange] = []
        /// This request's answer is not waited for any more.
        public var cancels: Request?
        /// To be sent at once. Its answer comes back as `Event.reply`.
        public var send: Request?
        /// A session that an old request has brought about. End it.
        public var dispose: Stray?
        /// The application is asked for a new credential; `.credential` is its answer.
        public var wantsCredential = false
        /// In order, to be sent after everything else is done.
        public var notices: [Notice] = []

        /// An action that does nothing.
        public init() {}
    }
}
