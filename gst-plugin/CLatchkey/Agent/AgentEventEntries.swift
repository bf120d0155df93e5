// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyAgent
import CLatchkeyGStreamer
import Latchkey

// The functions of latchkey-agent-event.h. The header is their documentation.

/// A word that is never freed.
func constant(_ text: String) -> UnsafePointer<CChar>? { UnsafePointer(g_intern_string(text)) }

@c @implementation
public func latchkey_agent_state_get_name(_ state: LatchkeyAgentState) -> UnsafePointer<CChar>! {
    constant(LatchkeyAgentState.known.first { $0.code == state }?.state.rawValue ?? "unknown")
}

@c @implementation
public func latchkey_agent_event_type_get_name(_ type: LatchkeyAgentEventType) -> UnsafePointer<CChar>! {
    let name =
        switch type {
        case LATCHKEY_AGENT_EVENT_RIGHTS_NOT_AVAILABLE: "rights not available"
        case LATCHKEY_AGENT_EVENT_UNTRUSTED_SYSTEM_TIME: "untrusted system time"
        case LATCHKEY_AGENT_EVENT_INVALID_CONTENT: "invalid content"
        case LATCHKEY_AGENT_EVENT_SERVER_ERROR: "server error"
        case LATCHKEY_AGENT_EVENT_PLAYBACK_SHOULD_BE_ABORTED: "playback should be aborted"
        case LATCHKEY_AGENT_EVENT_PLAYBACK_WILL_BE_ABORTED: "playback will be aborted"
        case LATCHKEY_AGENT_EVENT_CACHE_EDGE_REACHED: "cache edge reached"
        case LATCHKEY_AGENT_EVENT_SESSION_SETUP_ERROR: "session setup error"
        case LATCHKEY_AGENT_EVENT_SESSION_HEARTBEAT_ERROR: "session heartbeat error"
        case LATCHKEY_AGENT_EVENT_SESSION_TEARDOWN_ERROR: "session teardown error"
        case LATCHKEY_AGENT_EVENT_OUTPUT_STATUS: "output status"
        case LATCHKEY_AGENT_EVENT_STATE_CHANGED: "state changed"
        case LATCHKEY_AGENT_EVENT_LOG_MESSAGE: "log message"
        default: "unknown"
        }
    return constant(name)
}

@c @implementation
public func latchkey_agent_error_ref(_ error: OpaquePointer!) -> OpaquePointer! {
    AgentErrorHandle.of(error)?.retained()
}

@c @implementation
public func latchkey_agent_error_unref(_ error: OpaquePointer!) { AgentErrorHandle.release(error) }

@c @implementation
public func latchkey_agent_error_get_code(_ error: OpaquePointer!) -> LatchkeyAgentErrorCode {
    AgentErrorHandle.of(error)?.code ?? LATCHKEY_AGENT_ERROR_NONE
}

@c @implementation
public func latchkey_agent_error_get_message(_ error: OpaquePointer!) -> UnsafePointer<CChar>! {
    AgentErrorHandle.of(error)?.message.text
}

@c @implementation
public func latchkey_agent_error_get_http_status(_ error: OpaquePointer!) -> CInt {
    AgentErrorHandle.of(error)?.httpStatus ?? 0
}

@c @implementation
public func latchkey_agent_error_get_key_error(_ error: OpaquePointer!) -> LatchkeyErrorCode {
    AgentErrorHandle.of(error)?.keyError ?? LATCHKEY_ERROR_NONE
}

@c @implementation
public func latchkey_agent_error_is_temporary(_ error: OpaquePointer!) -> CInt {
    AgentErrorHandle.of(error)?.isTemporary == true ? 1 : 0
}

@c @implementation
public func latchkey_agent_event_ref(_ event: OpaquePointer!) -> OpaquePointer! {
    AgentEventHandle.of(event)?.retained()
}

@c @implementation
public func latchkey_agent_event_unref(_ event: OpaquePointer!) { AgentEventHandle.release(event) }

@c @implementation
public func latchkey_agent_event_get_type(_ event: OpaquePointer!) -> LatchkeyAgentEventType {
    AgentEventHandle.of(event)?.type ?? LATCHKEY_AGENT_EVENT_UNKNOWN
}

@c @implementation
public func latchkey_agent_event_get_reason(_ event: OpaquePointer!) -> UnsafePointer<CChar>! {
    AgentEventHandle.of(event)?.reason?.text
}

@c @implementation
public func latchkey_agent_event_get_url(_ event: OpaquePointer!) -> UnsafePointer<CChar>! {
    AgentEventHandle.of(event)?.url?.text
}

@c @implementation
public func latchkey_agent_event_get_http_status(_ event: OpaquePointer!) -> CInt {
    AgentEventHandle.of(event)?.httpStatus ?? 0
}

@c @implementation
public func latchkey_agent_event_get_rights(_ event: OpaquePointer!) -> OpaquePointer! {
    AgentEventHandle.of(event)?.rights?.pointer
}

@c @implementation
public func latchkey_agent_event_get_key_id(_ event: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    AgentEventHandle.of(event)?.keyIDs[at: index]?.bytes
}

@c @implementation
public func latchkey_agent_event_get_server_code(_ event: OpaquePointer!) -> UnsafePointer<CChar>! {
    AgentEventHandle.of(event)?.serverCode?.text
}

@c @implementation
public func latchkey_agent_event_get_server_message(_ event: OpaquePointer!) -> UnsafePointer<CChar>! {
    AgentEventHandle.of(event)?.serverMessage?.text
}

@c @implementation
public func latchkey_agent_event_get_conflict(_ event: OpaquePointer!, _ index: Int) -> UnsafePointer<CChar>! {
    AgentEventHandle.of(event)?.conflicts[at: index]?.text
}

@c @implementation
public func latchkey_agent_event_is_final(_ event: OpaquePointer!) -> CInt {
    AgentEventHandle.of(event)?.isFinal == true ? 1 : 0
}

@c @implementation
public func latchkey_agent_event_get_output_status(
    _ event: OpaquePointer!, _ status: UnsafeMutablePointer<LatchkeyOutputStatus>!
) -> CInt {
    let known = AgentEventHandle.of(event)?.outputStatus
    status?.pointee = known ?? LatchkeyOutputStatus()
    return known == nil ? 0 : 1
}

@c @implementation
public func latchkey_agent_event_get_state(_ event: OpaquePointer!) -> LatchkeyAgentState {
    AgentEventHandle.of(event)?.state ?? LATCHKEY_AGENT_STATE_INITIALIZED
}

@c @implementation
public func latchkey_agent_event_get_log_level(_ event: OpaquePointer!) -> LatchkeyLogLevel {
    AgentEventHandle.of(event)?.logLevel ?? LATCHKEY_LOG_DEFAULT
}
