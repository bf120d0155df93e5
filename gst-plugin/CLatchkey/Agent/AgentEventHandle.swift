// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import Latchkey
import LatchkeyProtection

/// A `LatchkeyAgentEvent`: an event with what it says in memory that C can read.
final class AgentEventHandle: OpaqueReference {
    let type: LatchkeyAgentEventType
    private(set) var reason: CMemory?
    private(set) var url: CMemory?
    private(set) var httpStatus: CInt = 0
    private(set) var rights: RightsHandle?
    private(set) var keyIDs: [CMemory] = []
    private(set) var serverCode: CMemory?
    private(set) var serverMessage: CMemory?
    private(set) var conflicts: [CMemory] = []
    private(set) var isFinal = false
    private(set) var outputStatus: LatchkeyOutputStatus?
    private(set) var state = LATCHKEY_AGENT_STATE_INITIALIZED
    private(set) var logLevel = LATCHKEY_LOG_DEFAULT

    init(_ event: AgentEvent) {
        switch event {
        case .rightsNotAvailable(let status, let keyIDs):
            type = LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE
            reason = CMemory(text: status.reason)
            rights = RightsHandle(status)
            self.keyIDs = keyIDs.map { CMemory($0.bytes) }
        case .untrustedSystemTime(let reason):
            type = LATCHKEY_AGENT_EVENT_UNTRUSTED_SYSTEM_TIME
            self.reason = CMemory(text: reason)
        case .invalidContent(let url, let reason):
            type = LATCHKEY_AGENT_EVENT_INVALID_CONTENT
            self.url = CMemory(text: url)
            self.reason = CMemory(text: reason)
        case .serverError(let url, let status):
            type = LATCHKEY_AGENT_EVENT_SERVER_ERROR
            self.url = CMemory(text: url)
            httpStatus = CInt(clamping: status)
        case .playbackShouldBeAborted(let reason):
            type = LATCHKEY_AGENT_EVENT_PLAYBACK_SHOULD_BE_ABORTED
            self.reason = CMemory(text: reason)
        case .playbackWillBeAborted(let reason):
            type = LATCHKEY_AGENT_EVENT_PLAYBACK_WILL_BE_ABORTED
            self.reason = CMemory(text: reason)
        case .cacheEdgeReached(_, let reason):
            type = LATCHKEY_AGENT_EVENT_CACHE_EDGE_REACHED
            self.reason = CMemory(text: reason)
        case .sessionSetupError(let details):
            type = LATCHKEY_AGENT_EVENT_SESSION_SETUP_ERROR
            take(details)
        case .sessionHeartbeatError(let details, let isFinal):
            type = LATCHKEY_AGENT_EVENT_SESSION_HEARTBEAT_ERROR
            self.isFinal = isFinal
            take(details)
        case .sessionTeardownError(let details):
            type = LATCHKEY_AGENT_EVENT_SESSION_TEARDOWN_ERROR
            take(details)
        case .outputStatus(let status):
            type = LATCHKEY_AGENT_EVENT_OUTPUT_STATUS
            let reasons = status.reasons.isEmpty ? "" : ": " + status.reasons.joined(separator: "; ")
            reason = CMemory(text: status.status + reasons)
            outputStatus = LatchkeyOutputStatus(
                video: status.showsVideo ? 1 : 0, audio: status.playsAudio ? 1 : 0,
                max_pixels: status.maximumPixels ?? 0)
        case .stateChanged(let state):
            type = LATCHKEY_AGENT_EVENT_STATE_CHANGED
            self.state = LatchkeyAgentState(state)
        case .logMessage(let message):
            type = LATCHKEY_AGENT_EVENT_LOG_MESSAGE
            reason = CMemory(text: message.text)
            logLevel =
                switch message.level {
                case .debug: LATCHKEY_LOG_DEBUG
                case .info: LATCHKEY_LOG_INFO
                case .warning: LATCHKEY_LOG_WARNING
                case .error: LATCHKEY_LOG_ERROR
                }
        }
    }

    private func take(_ details: SessionErrorDetails) {
        reason = CMemory(text: details.reason)
        httpStatus = CInt(clamping: details.httpStatus)
        serverCode = CMemory(text: details.code)
        serverMessage = CMemory(text: details.message)
        conflicts = details.conflicts.map { CMemory(text: $0) }
    }
}

extension LatchkeyAgentState {
    static let known: [(code: LatchkeyAgentState, state: AgentState)] = [
        (LATCHKEY_AGENT_STATE_INITIALIZED, .initialized), (LATCHKEY_AGENT_STATE_INSPECTING, .inspecting),
        (LATCHKEY_AGENT_STATE_NEEDS_LICENSE, .needsLicense), (LATCHKEY_AGENT_STATE_ACQUIRING, .acquiring),
        (LATCHKEY_AGENT_STATE_READY, .ready), (LATCHKEY_AGENT_STATE_PLAYING, .playing),
        (LATCHKEY_AGENT_STATE_PAUSED, .paused), (LATCHKEY_AGENT_STATE_WAITING_FOR_LICENSE, .waitingForLicense),
        (LATCHKEY_AGENT_STATE_ENDED, .ended), (LATCHKEY_AGENT_STATE_FAILED, .failed),
        (LATCHKEY_AGENT_STATE_ABORTED, .aborted),
    ]

    init(_ state: AgentState) {
        self = Self.known.first { $0.state == state }?.code ?? LATCHKEY_AGENT_STATE_INITIALIZED
    }
}
