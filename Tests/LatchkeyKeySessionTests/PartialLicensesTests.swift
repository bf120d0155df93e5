// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// What a choice among media with different keys goes by.
@Suite("Choices by keys", .timeLimit(.minutes(8)))
struct PartialLicensesTests {
    private let clock = ManualClock()

    private func summary(_ standing: KeyStanding) -> String {
        switch standing {
        case .usable: "usable"
        case .awaited: "awaited"
        case .refused(let error): "refused: \(error.shortDescription)"
        case .unknown: "unknown"
        }
    }

    @Test(arguments: [
        (KeyError.denied(""), "refused: denied"), (.keyNotInResponse(""), "refused: key not in response"),
        (.serverStatus(""), "refused: server status"), (.timedOut(""), "refused: timed out"),
        (.noLoader(""), "refused: no loader"), (.cancelled(""), "unknown"), (.invalidConfiguration(""), "unknown"),
    ])
    func failuresOfTheKeyAreRefusals(error: KeyError, expected: String) async {
        let session = KeySession()
        let watcher = Watcher(session)
        #expect(summary(session.standing(of: keyID(1), for: nil)) == "unknown")
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        #expect(summary(session.standing(of: keyID(1), for: nil)) == "awaited")
        session.install([keyID(2): contentKey(2)])
        await watcher.next { $0.request != nil }?.request?.finishLoading(with: error)
        #expect(summary(session.standing(of: keyID(1), for: nil)) == expected)
        #expect(summary(session.standing(of: keyID(2), for: .video)) == "usable")
        session.close(.sessionClosed(""))
        // That is no reason to leave anything out.
        #expect(summary(session.standing(of: keyID(2), for: .video)) == "unknown")
    }

    @Test(arguments: [
        (OutputRule.pass, OutputPolicy.Media.video, "usable"), (.block, .video, "refused: denied"),
        // No guard watches the outputs.
        (.require(.hdcpType0), .video, "refused: denied"), (.block, .audio, "usable"),
    ])
    func licensesMayAllowNoOutput(rule: OutputRule, media: OutputPolicy.Media, expected: String) {
        let session = KeySession()
        var terms = KeyTerms()
        terms.outputPolicies[keyID(1)] = OutputPolicy.unrestricted
        terms.outputPolicies[keyID(1)]?.digitalVideo = rule
        session.install([keyID(1): contentKey(1)], terms: terms)
        #expect(summary(session.standing(of: keyID(1), for: media)).hasPrefix(expected.prefix { $0 != ":" }))
    }

    @Test func anAnswerIsAwaitedForATime() async {
        let session = KeySession(loaders: [CallbackLoader { $0.keyIDs.contains(keyID(1)) }], clock: clock.clock)
        let watcher = Watcher(session)
        func left() -> Duration? {
            session.timeToAnswer(of: [keyID(1), keyID(2), keyID(3)], from: clock.start, limit: .seconds(30))
        }
        #expect(left() == nil)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        session.demand(KeyDemand(keyIDs: [keyID(2)]))
        _ = await watcher.next { $0.isUntaken }
        #expect(left() == .seconds(30))
        clock.advance(by: .seconds(10))
        // What no loader took waits a third as long.
        #expect(left() == .seconds(20))
        #expect(session.status(of: keyID(2)).error?.shortDescription == "no loader")
        session.install([keyID(2): contentKey(2)])
        clock.advance(by: .seconds(20))
        #expect(left() == nil)
        #expect(session.status(of: keyID(1)).error == .timedOut("no answer in 30000 ms"))
        #expect(session.status(of: keyID(2)).key != nil)
    }
}
