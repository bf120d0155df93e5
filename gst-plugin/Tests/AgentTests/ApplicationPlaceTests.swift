// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import Latchkey
@testable import LatchkeyKeySession
@testable import LatchkeyViewingSession

/// What an agent's viewing session is told of the application and the machine.
@Suite struct ApplicationPlaceTests {
    private let folder = NSTemporaryDirectory() + "/application-place-\(UUID().uuidString)"

    /// An agent whose viewing session has begun. Its server does not answer.
    private func agentWithSession() throws -> (Agent, ViewingSession) {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = folder + "/latchkey.conf"
        let text =
            "[session]\nserver-url=http://127.0.0.1:9\nrecords=\(folder)/records\n[session-parameters]\naccount=anna\n"
        try text.write(toFile: file, atomically: true, encoding: .utf8)
        var configuration = Agent.Configuration()
        configuration.configurationFile = file
        configuration.outputs = "application"
        let agent = Agent(contentURL: "http://127.0.0.1:9/film.mpd", type: .dash, configuration: configuration)
        let viewing = try #require(try agent.core.session().session.viewing)
        viewing.begin()
        return (agent, try #require(viewing.session))
    }

    @Test func theSessionKnowsWhereTheApplicationIs() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (agent, session) = try agentWithSession()
        #expect(!session.state.isInBackground)
        agent.background()
        #expect(session.state.isInBackground)
        agent.foreground()
        #expect(!session.state.isInBackground)
        agent.background()
        // The picture is in front again, though the application is not.
        agent.pictureInPicture()
        #expect(!session.state.isInBackground)
    }

    @Test func theSessionKnowsOfSleep() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (agent, session) = try agentWithSession()
        #expect(!session.state.isAsleep)
        await agent.suspend()
        #expect(session.state.isAsleep)
        agent.resume()
        #expect(!session.state.isAsleep)
    }

    /// Such content needs no session. The application has said what it is.
    @Test(arguments: [
        (ContentType.mp4, "file:///film", true), (.piff, "FILE:///a/film.bin", true), (.mp4, "file:///film.mp4", true),
        (.dash, "file:///film.mpd", false), (.hls, "file:///film.mp4", false), (.mp4, "https://a.example/film", false),
        (.piff, "film.ismv", false),
    ])
    func filesOnThisDeviceAreKnownByTheirType(_ type: ContentType, _ url: String, _ isLocal: Bool) {
        #expect(Agent(contentURL: url, type: type).core.isLocalFile == isLocal)
    }

    /// Nothing was asked for yet, so that there is no session: nothing happens.
    @Test func withoutASessionTheCallsDoNothing() async throws {
        let agent = Agent(contentURL: "http://127.0.0.1:9/film.mpd", type: .dash)
        agent.background()
        agent.pictureInPicture()
        agent.foreground()
        await agent.suspend()
        agent.resume()
        #expect(agent.core.viewing == nil && agent.state == .initialized)
    }
}
