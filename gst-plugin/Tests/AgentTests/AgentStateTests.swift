// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import LatchkeyProtection
import Testing

@testable import Latchkey

/// The agent's states and the frequency of its events, as values.
@Suite struct AgentStateTests {
    @Test func followsTheManualsFigure() {
        var progress = AgentProgress()
        let way: [(AgentProgress.Event, AgentState?)] = [
            (.inspectionBegan, .inspecting), (.inspected(mayPlay: false), .needsLicense),
            (.acquisitionBegan, .acquiring), (.acquired(mayPlay: true), .ready), (.begins, .paused),
            (.plays, .playing), (.holds(true), .waitingForLicense), (.acquisitionBegan, nil),
            (.acquired(mayPlay: true), nil), (.holds(false), .playing), (.pauses, .paused), (.plays, .playing),
            (.endOfStream, .ended), (.stopped, nil), (.begins, .paused), (.plays, .playing), (.aborted, .aborted),
            (.failed, nil), (.stopped, nil),
        ]
        for (event, state) in way { #expect(progress.take(event) == state, "\(event)") }
    }

    @Test func aFailedLookOrAcquisitionLeavesWhatWas() {
        var progress = AgentProgress()
        _ = progress.take(.inspectionBegan)
        #expect(progress.take(.inspectionFailed) == .initialized)
        _ = progress.take(.inspected(mayPlay: false))
        _ = progress.take(.acquisitionBegan)
        #expect(progress.take(.acquisitionFailed) == .needsLicense)
    }

    @Test func anAbortSaysWhyAFailureWas() {
        var progress = AgentProgress()
        _ = progress.take(.plays)
        #expect(progress.take(.failed) == .failed)
        #expect(progress.take(.aborted) == .aborted)
        #expect(progress.take(.endOfStream) == nil)
    }

    @Test func anyOrderOfEventsKeepsTheRules() {
        var generator = SeededGenerator(seed: 6)
        let all: [AgentProgress.Event] = [
            .inspectionBegan, .inspected(mayPlay: true), .inspected(mayPlay: false), .inspectionFailed,
            .acquisitionBegan, .acquired(mayPlay: true), .acquired(mayPlay: false), .acquisitionFailed, .begins, .plays,
            .pauses, .stopped, .holds(true), .holds(false), .endOfStream, .failed, .aborted,
        ]
        for _ in 0..<2000 {
            var progress = AgentProgress()
            var isHolding = false
            var hasPlayback = false
            for _ in 0..<60 {
                let event = all[Int.random(in: 0..<all.count, using: &generator)]
                let old = progress.state
                let new = progress.take(event)
                #expect(new == nil ? progress.state == old : new == progress.state && new != old)
                switch event {
                case .begins, .plays, .pauses: hasPlayback = true
                case .holds(let holds): isHolding = holds
                case .stopped, .endOfStream, .failed, .aborted: (hasPlayback, isHolding) = (false, false)
                default: break
                }
                switch progress.state {
                case .waitingForLicense: #expect(hasPlayback && isHolding)
                case .playing, .paused: #expect(hasPlayback && !isHolding)
                default: #expect(!hasPlayback, "\(progress.state) after \(event)")
                }
            }
        }
    }

    @Test func rightsAreToldOnceUntilALicenseComes() {
        var frequency = EventFrequency()
        #expect(frequency.rightsAreMissing() == true)
        frequency.contentWasDecrypted()
        frequency.contentWasRead()
        #expect(frequency.rightsAreMissing() == false)
        frequency.licenseWasInstalled()
        #expect(frequency.rightsAreMissing() == true)
    }

    @Test func timeIsToldOnceUntilSomethingWasDecrypted() {
        var frequency = EventFrequency()
        #expect(frequency.timeIsUntrusted() == true)
        frequency.licenseWasInstalled()
        #expect(frequency.timeIsUntrusted() == false)
        frequency.contentWasDecrypted()
        #expect(frequency.timeIsUntrusted() == true)
    }

    @Test func contentIsToldOnceUntilAPieceCouldBeRead() {
        var frequency = EventFrequency()
        #expect(frequency.contentIsInvalid() == true)
        #expect(frequency.contentIsInvalid() == false)
        frequency.contentWasRead()
        #expect(frequency.contentIsInvalid() == true)
    }

    @Test func everyListenerGetsEverythingInOrder() async {
        let broadcast = Broadcast<Int>()
        let listeners = [broadcast.stream(), broadcast.stream()]
        for value in 1...100 { broadcast.send(value) }
        broadcast.finish()
        for listener in listeners { #expect(await values(listener) == Array(1...100)) }
        #expect(await values(broadcast.stream()).isEmpty)
    }

    /// Whenever it begins to listen, it gets the last value, and all that come behind it.
    @Test func aListenerBeginsWithTheLastValue() async {
        let broadcast = Broadcast<Int>(beginningWith: 0)
        let sender = Task { for value in 1...1000 { broadcast.send(value) } }
        var listeners: [AsyncStream<Int>] = []
        for _ in 0..<100 { listeners.append(broadcast.stream()) }
        await sender.value
        listeners.append(broadcast.stream())
        broadcast.finish()
        listeners.append(broadcast.stream())
        for listener in listeners {
            let got = await values(listener)
            let first = got.first ?? -1
            #expect(got == Array(first...1000))
        }
    }

    /// What is told last is how things stand, whichever threads tell it.
    @Test func statesAreToldInTheirOrder() async {
        let agent = AgentCore(contentURL: "https://media.example/a", type: .dash, configuration: .init())
        let states = agent.states
        await withTaskGroup(of: Void.self) { group in
            for event in [AgentProgress.Event.plays, .pauses] {
                group.addTask { for _ in 0..<200 { agent.advance(event) } }
            }
        }
        let last = agent.state
        agent.release()
        var told: [AgentState] = []
        for await state in states { told.append(state) }
        #expect(told.last == last)
        #expect(told.first == .initialized)
        #expect(!zip(told, told.dropFirst()).contains { $0 == $1 })
    }

    @Test func aSlowListenerLosesTheOldest() async {
        let broadcast = Broadcast<Int>(limit: 8)
        let stream = broadcast.stream()
        for value in 1...20 { broadcast.send(value) }
        broadcast.finish()
        #expect(await values(stream) == Array(13...20))
    }

    private func values(_ stream: AsyncStream<Int>) async -> [Int] {
        var values: [Int] = []
        for await value in stream { values.append(value) }
        return values
    }
}
