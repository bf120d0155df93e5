// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Whether the viewing session lets keys be used.
enum ViewingGate {
    /// There is no session server.
    case unguarded
    /// Nobody wants a session, or it is not there at the moment.
    case closed
    /// What plays is stored here, with keys that are: nobody has to be asked.
    case unneeded
    case opening
    case open
    /// No session, until somebody asks who retries failures of this generation.
    case refused(KeyError, generation: UInt64)

    /// Whether keys may be used, and what they have decrypted may be shown.
    var isOpen: Bool {
        switch self {
        case .unguarded, .unneeded, .open: true
        case .closed, .opening, .refused: false
        }
    }

    /// How a key stands that the session has.
    func hold(_ status: KeyStatus) -> KeyStatus {
        guard case .usable = status else { return status }
        switch self {
        case .unguarded, .unneeded, .open: return status
        case .closed: return .absent
        case .opening: return .pending(requestID: 0)
        case .refused(let error, let generation): return .failed(error, generation: generation)
        }
    }

    /// Whether who retries failures up to that generation brings about a session.
    func begins(retryFailuresUpTo limit: UInt64) -> Bool {
        switch self {
        case .closed: true
        case .refused(_, let generation): generation <= limit
        case .unguarded, .unneeded, .opening, .open: false
        }
    }
}
