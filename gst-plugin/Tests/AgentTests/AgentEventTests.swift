// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyOffline
import LatchkeyProtection
import LatchkeyViewingSession
import Testing

@testable import Latchkey
@testable import LatchkeyKeySession

/// What the listeners of an agent hear, and how often.
@Suite struct AgentEventTests {
    private let keyID = KeyID(high: 5, low: 4)
    private let film = "http://127.0.0.1:9/film.mpd"

    private func makeAgent() -> Agent {
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        return Agent(contentURL: film, type: .dash, configuration: configuration)
    }

    /// The end of the agent is the end of what they hear. Without states and lines of the log.
    private func all(_ events: AsyncStream<AgentEvent>) async -> [String] {
        var all: [String] = []
        for await event in events {
            switch event {
            case .rightsNotAvailable(let status, let keyIDs): all.append("rights \(status.kind) \(keyIDs)")
            case .untrustedSystemTime: all.append("time")
            case .invalidContent(let url, _): all.append("content \(url)")
            case .serverError(let url, let status): all.append("server \(status) \(url)")
            case .playbackShouldBeAborted(let reason): all.append("should: \(reason)")
            case .playbackWillBeAborted(let reason): all.append("will: \(reason)")
            case .logMessage, .stateChanged: break
            default: all.append("\(event)")
            }
        }
        return all
    }

    @Test func everyListenerHearsOfEachServerErrorWithoutTheQuery() async {
        let agent = makeAgent()
        let listeners = [agent.events, agent.events]
        for status: UInt32 in [503, 503, 404] {
            agent.core.handle(
                BusEvent.element(
                    "latchkey-fetch",
                    [
                        "outcome": .string("server-error"), "url": .string("\(film)?token=geheim"),
                        "http-status": .uint(status),
                    ]))
        }
        agent.close()
        for listener in listeners {
            #expect(await all(listener) == ["server 503 \(film)", "server 503 \(film)", "server 404 \(film)"])
        }
    }

    @Test func invalidContentOfTheCacheNamesItsURLOnce() async {
        let agent = makeAgent()
        let events = agent.events
        let error = CacheError.invalidContent("a web page came in its place", at: "http://127.0.0.1:9/v_1.m4s?t=geheim")
        agent.core.handle(CacheGateway.Event.failure(error))
        agent.close()
        var told: [String] = []
        for await event in events {
            if case .invalidContent(let url, let reason) = event { told.append("\(url) | \(reason)") }
        }
        #expect(told == ["http://127.0.0.1:9/v_1.m4s | a web page came in its place"])
    }

    /// Several keys are asked for meanwhile.
    @Test func missingRightsAreToldOnceForAllKeys() async {
        let agent = makeAgent()
        let events = agent.events
        agent.core.rightsAreMissing(.noLicense, [keyID])
        agent.core.rightsAreMissing(RightsStatus(kind: .expired, reason: ""), [KeyID(high: 5, low: 5)])
        agent.close()
        #expect(await all(events) == ["rights none \([keyID])"])
    }

    /// That the clock is right again is no event, and only decryption lets the next rollback be told.
    @Test func anUntrustedClockIsToldAgainBehindDecryption() async throws {
        let agent = makeAgent()
        let events = agent.events
        let session = try agent.core.session().session
        for event in [TrustedClock.Event.rolledBack, .rolledBack, .trusted, .rolledBack] { agent.core.handle(event) }
        agent.core.rightsAreMissing(RightsStatus(kind: .untrustedTime, reason: ""), [keyID])
        session.didStartPlaying(keyID)
        await session.unwrittenPlays.finish()
        agent.core.handle(TrustedClock.Event.rolledBack)
        agent.close()
        #expect(await all(events) == ["time", "time"])
    }

    /// As when a license is acquired before the player starts, or behind its end. The elements of one that plays post it.
    @Test(arguments: [nil, GST_STATE_NULL, GST_STATE_READY, GST_STATE_PAUSED])
    func aRefusedSessionIsToldWithoutPlayback(state: GstState?) async throws {
        TestProcess.prepare
        let agent = makeAgent()
        let events = agent.events
        let pipeline = try #require(gst_pipeline_new(nil))
        gst_object_ref_sink(pipeline)
        defer {
            gst_element_set_state(pipeline, GST_STATE_NULL)
            gst_object_unref(pipeline)
        }
        if let state {
            try agent.attach(to: pipeline)
            gst_element_set_state(pipeline, state)
        }
        agent.core.handle(KeyEvent.viewing(ViewingNotice(.setupError, SessionFailure(.limit, code: "4041"))))
        agent.close()
        let told = await all(events)
        #expect(told.count == (state == GST_STATE_PAUSED ? 0 : 1))
        #expect(told.allSatisfy { $0.contains("4041") }, "\(told)")
    }

    @Test func eachAbortIsTold() async {
        let agent = makeAgent()
        let events = agent.events
        for name in ["KID \(keyID)", "skd://film"] {
            agent.core.handle(
                BusEvent.element(
                    "latchkey-wrong-key",
                    [
                        "key-ids": .strings(["\(keyID)"]), "key-name": .string(name),
                        "reason": .string("another checksum"),
                    ]))
        }
        for reason in ["traced", "no HDCP"] { agent.core.playbackWillBeAborted(reason) }
        agent.close()
        let should = ["KID \(keyID)", "skd://film"].map { "should: the key for \($0) is a wrong one: another checksum" }
        #expect(await all(events) == should + ["will: traced", "will: no HDCP"])
    }
}
