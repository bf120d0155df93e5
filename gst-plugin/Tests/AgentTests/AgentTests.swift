// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import Testing

@testable import Latchkey

/// What an agent does without a server and without a player.
@Suite struct AgentTests {
    init() { TestProcess.prepare }

    /// The states come from the first one on, to each who asks for them.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [("ftp://127.0.0.1/stream.mpd", ContentType.dash), ("file:///", .piff)])
    func aURLThatCannotBeUsedIsToldByTheFirstLook(url: String, type: ContentType) async {
        let agent = Agent(contentURL: url, type: type)
        #expect(agent.contentURL == url && agent.type == type && agent.state == .initialized)
        let states = agent.states
        let error = await #expect(throws: AgentError.self) { try await agent.contentInfo() }
        #expect(error?.code == .invalidURL)
        agent.close()
        var told: [AgentState] = []
        for await state in states { told.append(state) }
        #expect(told == [.initialized, .inspecting, .initialized])
    }
}
