// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import Latchkey

/// What an agent does without a server and without a player.
@Suite struct AgentTests {
    init() { TestProcess.prepare }

    /// The states come from the first one on, to each who asks for them.
    @Test(
        .timeLimit(.minutes(8)),
        arguments: [("ftp://127.0.0.1/stream.mpd", ContentType.dash), ("file:///", .piff)])
    func aURLThatCannotBeUsedIsToldByTheFirstLook(url: String, type: ContentType) async {
        // Not the settings of the environment, which tests of elements change meanwhile.
        var configuration = Agent.Configuration()
        configuration.settings = ControlSettings()
        let agent = Agent(contentURL: url, type: type, configuration: configuration)
        #expect(agent.contentURL == url && agent.type == type && agent.state == .initialized)
        let states = agent.states
        let error = await #expect(throws: AgentError.self) { try await agent.contentInfo() }
        #expect(error?.code == .invalidURL)
        agent.close()
        var told: [AgentState] = []
        for await state in states { told.append(state) }
        #expect(told == [.initialized, .inspecting, .initialized])
    }

    private func agent(_ type: ContentType) -> Agent {
        var configuration = Agent.Configuration()
        configuration.settings = ControlSettings()
        return Agent(contentURL: "https://media.example/a?secret", type: type, configuration: configuration)
    }

    /// As while the settings are read for its first session: nothing would close that any more.
    @Test func anAgentThatWasClosedMeanwhileTakesNoSession() throws {
        let agent = agent(.dash)
        let fresh = try AgentSession(for: agent.core)
        agent.close()
        let error = #expect(throws: AgentError.self) { try agent.core.take(fresh) }
        #expect(error?.code == .cancelled)
        #expect(agent.core.guarded.withLock { $0.parts == nil })
    }

    @Test func noLicenseIsAcquiredForContentThatNamesNoKey() async throws {
        let agent = agent(.smoothStreaming)
        var content = InspectedContent()
        (content.isProtected, content.lacksKeyIDs) = (true, true)
        content.add(.widevine)
        content.add(.init(system: .widevine, keyIDs: [], data: []))
        let parts = try agent.core.session()
        let error = await #expect(throws: AgentError.self) { try await agent.core.acquire(content, parts, nil) }
        #expect(error?.code == .licenseNotAcquired)
        let reason = error?.reason ?? ""
        #expect(reason.contains("https://media.example/a names no key") && reason.contains("Widevine"), "\(reason)")
    }

    /// Nothing is asked for then, so no answer ends the acquisition.
    @Test(.timeLimit(.minutes(8)))
    func anAcquisitionOfTooManyKeysEnds() async throws {
        let agent = agent(.dash)
        var content = InspectedContent()
        content.isProtected = true
        let keyIDs = (1...20_000).map { KeyID(high: 7, low: UInt64($0)) }
        content.add(.init(system: .widevine, keyIDs: keyIDs, data: []))
        let parts = try agent.core.session()
        let error = await #expect(throws: AgentError.self) { try await agent.core.acquire(content, parts, nil) }
        #expect(error?.code == .licenseNotAcquired)
        #expect(error?.reason.contains("too many KIDs") == true, "\(error?.reason ?? "")")
    }

    /// As if all that the content needs were PlayReady-style licenses, and its media had a key of another system too.
    @Test(.timeLimit(.minutes(8)))
    func anAcquisitionLetsGoWhatIsHeldAndNeedsNoLicense() async throws {
        let agent = agent(.dash)
        let parts = try agent.core.session()
        let gate = try #require(parts.gate)
        parts.session.demand(KeyDemand(keyIDs: [KeyID(high: 1, low: 2)], keySystem: .clearKey))
        while gate.held.isEmpty { await Task.yield() }
        try await agent.core.acquire(InspectedContent(), parts, nil)
        #expect(gate.held.isEmpty)
    }
}
