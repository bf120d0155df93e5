// SPDX-License-Identifier: MPL-2.0

import CLatchkeyLoader
import LatchkeyProtection

extension LatchkeyErrorCode {
    private static let kinds: [(code: LatchkeyErrorCode, error: @Sendable (String) -> KeyError)] = [
        (LATCHKEY_ERROR_DENIED, KeyError.denied), (LATCHKEY_ERROR_KEY_NOT_FOUND, KeyError.keyNotInResponse),
        (LATCHKEY_ERROR_MALFORMED_RESPONSE, KeyError.malformedResponse),
        (LATCHKEY_ERROR_MALFORMED_REQUEST, KeyError.malformedRequest), (LATCHKEY_ERROR_NETWORK, KeyError.network),
        (LATCHKEY_ERROR_SERVER_STATUS, KeyError.serverStatus), (LATCHKEY_ERROR_TIMED_OUT, KeyError.timedOut),
        (LATCHKEY_ERROR_CANCELLED, KeyError.cancelled), (LATCHKEY_ERROR_SESSION_CLOSED, KeyError.sessionClosed),
        (LATCHKEY_ERROR_INVALID_CONFIGURATION, KeyError.invalidConfiguration),
        (LATCHKEY_ERROR_LEASE_EXPIRED, KeyError.leaseExpired), (LATCHKEY_ERROR_NO_LOADER, KeyError.noLoader),
    ]

    init(_ error: KeyError) {
        self = Self.kinds.first { $0.error("").isSameKind(as: error) }?.code ?? LATCHKEY_ERROR_DENIED
    }

    /// C can pass any number.
    func error(_ text: String) -> KeyError {
        (Self.kinds.first { $0.code == self }?.error ?? KeyError.denied)(text)
    }
}
