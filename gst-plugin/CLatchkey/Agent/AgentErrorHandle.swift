// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import Latchkey

/// A `LatchkeyAgentError`: why an agent did not do what C asked.
final class AgentErrorHandle: OpaqueReference, Sendable {
    let code: LatchkeyAgentErrorCode
    let message: CMemory
    let httpStatus: CInt
    let keyError: LatchkeyErrorCode
    let isTemporary: Bool

    /// What fails after it was cancelled was cancelled.
    init(_ error: AgentError, isCancelled: Bool = false) {
        code = isCancelled ? LATCHKEY_AGENT_ERROR_CANCELLED : LatchkeyAgentErrorCode(error.code)
        message = CMemory(text: error.description)
        httpStatus = CInt(clamping: error.httpStatus ?? 0)
        keyError = error.keyError.map { LatchkeyErrorCode($0) } ?? LATCHKEY_ERROR_NONE
        isTemporary = error.isTemporary
    }

    init(invalidArgument message: String) {
        code = LATCHKEY_AGENT_ERROR_INVALID_ARGUMENT
        self.message = CMemory(text: message)
        httpStatus = 0
        keyError = LATCHKEY_ERROR_NONE
        isTemporary = false
    }
}

extension LatchkeyAgentErrorCode {
    init(_ code: AgentError.Code) {
        self =
            switch code {
            case .invalidURL: LATCHKEY_AGENT_ERROR_INVALID_URL
            case .unreachable: LATCHKEY_AGENT_ERROR_UNREACHABLE
            case .serverError: LATCHKEY_AGENT_ERROR_SERVER_ERROR
            case .invalidContent: LATCHKEY_AGENT_ERROR_INVALID_CONTENT
            case .unsupportedContent: LATCHKEY_AGENT_ERROR_UNSUPPORTED_CONTENT
            case .notProtected: LATCHKEY_AGENT_ERROR_NOT_PROTECTED
            case .licenseNotAcquired: LATCHKEY_AGENT_ERROR_LICENSE_NOT_ACQUIRED
            case .configuration: LATCHKEY_AGENT_ERROR_CONFIGURATION
            case .cancelled: LATCHKEY_AGENT_ERROR_CANCELLED
            }
    }
}
