// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
public import CLatchkeyAgent
import Latchkey
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection

// The functions of latchkey-agent.h about agents. The header is their documentation.

@c @implementation
public func latchkey_agent_new(
    _ contentURL: UnsafePointer<CChar>!, _ type: LatchkeyContentType, _ options: UnsafePointer<LatchkeyAgentOptions>!
) -> OpaquePointer! {
    guard let contentURL, let type = LatchkeyContentType.known.first(where: { $0.code == type })?.type,
        let configuration = configuration(options)
    else { return nil }
    return AgentHandle(Agent(contentURL: String(cString: contentURL), type: type, configuration: configuration))
        .retained()
}

/// Nil where the options cannot be used.
private func configuration(_ table: UnsafePointer<LatchkeyAgentOptions>?) -> Agent.Configuration? {
    var configuration = Agent.Configuration()
    guard let table else { return configuration }
    guard let options = readTable(table, into: LatchkeyAgentOptions()) else { return nil }
    switch options.acquisition {
    case LATCHKEY_ACQUISITION_MANUAL: break
    case LATCHKEY_ACQUISITION_AUTOMATIC: configuration.acquisition = .automatic
    default: return nil
    }
    switch options.log_threshold {
    case LATCHKEY_LOG_DEFAULT, LATCHKEY_LOG_INFO: break
    case LATCHKEY_LOG_DEBUG: configuration.logThreshold = .debug
    case LATCHKEY_LOG_WARNING: configuration.logThreshold = .warning
    case LATCHKEY_LOG_ERROR: configuration.logThreshold = .error
    default: return nil
    }
    if options.hold_timeout > 0 {
        configuration.holdTimeout = .milliseconds(Int64(clamping: min(options.hold_timeout, 1 << 50)))
    }
    func text(_ text: UnsafePointer<CChar>?) -> String? { text.map { String(cString: $0) } }
    if let sink = text(options.video_sink) { configuration.videoSink = sink }
    if let sink = text(options.audio_sink) { configuration.audioSink = sink }
    if let outputs = text(options.outputs) { configuration.outputs = outputs }
    configuration.configurationFile = text(options.configuration_file)
    return configuration
}

@c @implementation
public func latchkey_agent_ref(_ agent: OpaquePointer!) -> OpaquePointer! { AgentHandle.of(agent)?.retained() }

@c @implementation
public func latchkey_agent_unref(_ agent: OpaquePointer!) { AgentHandle.release(agent) }

@c @implementation
public func latchkey_agent_close(_ agent: OpaquePointer!) { AgentHandle.of(agent)?.close() }

// Calls

@c @implementation
public func latchkey_agent_get_content_info(
    _ agent: OpaquePointer!, _ callback: LatchkeyContentInfoCallback!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let handle = AgentHandle.of(agent) else { return 0 }
    let userData = UserData(userData, destroy)
    return handle.begin(userData) { agent throws(AgentError) in
        try await agent.contentInfo()
    } _: { info, error in
        let info = info.map(ContentInfoHandle.init)
        callback?(info?.pointer, error?.pointer, userData.pointer)
        withExtendedLifetime(info) {}
    }
}

@c @implementation
public func latchkey_agent_acquire_license(
    _ agent: OpaquePointer!, _ delegate: UnsafePointer<LatchkeyDelegateFunctions>!,
    _ callback: LatchkeyLicenseCallback!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let handle = AgentHandle.of(agent) else { return 0 }
    let userData = UserData(userData, destroy)
    var own: FunctionsDelegate?
    if let delegate {
        own = FunctionsDelegate(delegate, userData)
        if own == nil { return 0 }
    }
    return handle.begin(userData) { [own] agent throws(AgentError) in
        try await agent.acquireLicense(delegate: own)
    } _: { rights, error in
        let rights = rights.map(RightsHandle.init)
        callback?(rights?.pointer, error?.pointer, userData.pointer)
        withExtendedLifetime(rights) {}
    }
}

@c @implementation
public func latchkey_reset_licenses(
    _ configurationFile: UnsafePointer<CChar>!, _ callback: LatchkeyResetCallback!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    let file = configurationFile.map { String(cString: $0) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) { () throws(AgentError) in
        try await Agent.resetLicenses(configurationFile: file)
    } _: { count, error in
        callback?(count ?? 0, error?.pointer, userData.pointer)
    }
}

@c @implementation
public func latchkey_call_cancel(_ call: UInt64) -> CInt { Calls.cancel(call) ? 1 : 0 }

// Settings

@c @implementation
public func latchkey_agent_set_custom_challenge_data(_ agent: OpaquePointer!, _ data: UnsafePointer<CChar>!) {
    AgentHandle.of(agent)?.agent.customLicenseChallengeData = data.map { String(cString: $0) }
}

@c @implementation
public func latchkey_agent_set_hdmi_mode(_ agent: OpaquePointer!, _ mode: LatchkeyHdmiMode) {
    AgentHandle.of(agent)?.agent.hdmiMode =
        switch mode {
        case LATCHKEY_HDMI_DISABLE: .disable
        case LATCHKEY_HDMI_ALLOW: .allow
        case LATCHKEY_HDMI_AUDIO_ONLY: .audioOnly
        case LATCHKEY_HDMI_ALTERNATIVE: .alternative
        default: .standard
        }
}

@c @implementation
public func latchkey_agent_set_hdmi_alternative_image(
    _ agent: OpaquePointer!, _ image: UnsafeRawPointer!, _ size: Int, _ error: UnsafeMutablePointer<OpaquePointer?>!
) -> CInt {
    error?.pointee = nil
    guard let handle = AgentHandle.of(agent) else {
        error?.pointee = AgentErrorHandle(invalidArgument: "no agent is given").retained()
        return 0
    }
    // SAFETY: the header asks for so many bytes.
    let bytes = image.map { Array(UnsafeRawBufferPointer(start: $0, count: max(0, size))) }
    do throws(AgentError) {
        try handle.agent.setHDMIAlternativeImage(bytes)
        return 1
    } catch let reason {
        error?.pointee = AgentErrorHandle(reason).retained()
        return 0
    }
}

@c @implementation
public func latchkey_agent_set_audio_track(_ agent: OpaquePointer!, _ name: UnsafePointer<CChar>!) {
    AgentHandle.of(agent)?.agent.selectedAudioTrack = name.map { String(cString: $0) }
}

@c @implementation
public func latchkey_agent_get_state(_ agent: OpaquePointer!) -> LatchkeyAgentState {
    AgentHandle.of(agent).map { LatchkeyAgentState($0.agent.state) } ?? LATCHKEY_AGENT_STATE_INITIALIZED
}

// Playback

@c @implementation
public func latchkey_agent_make_player(
    _ agent: OpaquePointer!, _ error: UnsafeMutablePointer<OpaquePointer?>!
) -> UnsafeMutablePointer<GstElement>! {
    error?.pointee = nil
    guard let handle = AgentHandle.of(agent) else {
        error?.pointee = AgentErrorHandle(invalidArgument: "no agent is given").retained()
        return nil
    }
    do throws(AgentError) {
        return try handle.agent.makePlayer().giveAway()
    } catch let reason {
        error?.pointee = AgentErrorHandle(reason).retained()
        return nil
    }
}

@c @implementation
public func latchkey_agent_attach(
    _ agent: OpaquePointer!, _ pipeline: UnsafeMutablePointer<GstElement>!,
    _ error: UnsafeMutablePointer<OpaquePointer?>!
) -> CInt {
    error?.pointee = nil
    guard let handle = AgentHandle.of(agent), let pipeline else {
        error?.pointee = AgentErrorHandle(invalidArgument: "no agent or no pipeline is given").retained()
        return 0
    }
    do throws(AgentError) {
        try handle.agent.attach(to: pipeline)
        return 1
    } catch let reason {
        error?.pointee = AgentErrorHandle(reason).retained()
        return 0
    }
}

@c @implementation
public func latchkey_agent_add_listener(
    _ agent: OpaquePointer!, _ listener: LatchkeyAgentListener!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let handle = AgentHandle.of(agent), let listener else { return 0 }
    let userData = UserData(userData, destroy)
    return handle.addListener(
        { event in
            listener(event.pointer, userData.pointer)
            withExtendedLifetime(event) {}
        }, userData)
}

@c @implementation
public func latchkey_agent_remove_listener(_ agent: OpaquePointer!, _ listener: UInt64) -> CInt {
    AgentHandle.of(agent)?.removeListener(listener) == true ? 1 : 0
}
