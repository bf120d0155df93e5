// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection
import Testing

@Suite struct OutputStabilityTests {
    private let good = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType0)])
    private let bad = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital)])
    private let policy = OutputPolicy(requirement: .hdcpType0)

    private func isOpen(_ stability: OutputStability) -> Bool {
        !OutputEvaluator().decide([policy], facts: stability.facts).isVideoBlocked
    }

    @Test func closingIsImmediateAndOpeningIsConfirmed() {
        var stability = OutputStability()
        // Milliseconds, the reading, and whether the picture may be shown after it.
        let rows: [(Int, OutputFacts, Bool)] = [
            (0, good, true), (250, good, true), (600, bad, false), (601, good, false), (1100, good, false),
            (1101, good, true), (1200, .unreadable("gone"), false), (1300, good, false), (1400, bad, false),
            (1500, good, false), (1999, good, false), (2000, good, true),
        ]
        for (moment, facts, expected) in rows {
            _ = stability.read(facts, at: .milliseconds(moment))
            #expect(isOpen(stability) == expected, "at \(moment) ms")
        }
    }

    @Test func nothingIsOpenBeforeTheFirstReading() {
        #expect(!isOpen(OutputStability()))
        #expect(OutputStability().facts == [.unreadable("they were not read yet")])
    }

    @Test func aFirstReadingThatFailsIsHeldAgainstTheNext() {
        var stability = OutputStability()
        let rows: [(Int, OutputFacts, Bool)] = [
            (0, .unreadable("no device"), false), (100, good, false), (599, good, false), (600, good, true),
        ]
        for (moment, facts, expected) in rows {
            _ = stability.read(facts, at: .milliseconds(moment))
            #expect(isOpen(stability) == expected, "at \(moment) ms")
        }
    }

    @Test func whatTheApplicationTellsFirstCountsAtOnce() {
        var stability = OutputStability()
        for (moment, facts, expected) in [(0, .untold, false), (100, good, true), (200, bad, false)] {
            _ = stability.read(facts, at: .milliseconds(moment))
            #expect(isOpen(stability) == expected, "at \(moment) ms")
        }
    }

    @Test func flappingNeverOpens() {
        var stability = OutputStability()
        for moment in stride(from: 0, to: 60_000, by: 250) {
            _ = stability.read(moment / 250 % 2 == 0 ? bad : good, at: .milliseconds(moment))
            #expect(!isOpen(stability))
        }
    }

    @Test func whatIsHeldIsBounded() {
        var stability = OutputStability()
        for moment in 0..<1000 {
            let output = Output(name: "DP-\(moment)", kind: .digital, protection: .hdcpType1)
            _ = stability.read(.outputs([output]), at: .milliseconds(moment))
            #expect(stability.facts.count <= 10)
            #expect(isOpen(stability) == (moment < 9), "reading \(moment)")
        }
    }

    @Test func onlyWhatChangesTheFactsIsNews() {
        var stability = OutputStability()
        let rows: [(Int, OutputFacts, Bool, Bool)] = [
            (0, good, true, true), (250, good, false, true), (500, bad, true, false), (750, good, true, false),
            (1000, good, false, false), (1250, good, true, true),
        ]
        for (moment, facts, isNews, isConfirmed) in rows {
            let changes = stability.read(facts, at: .milliseconds(moment))
            #expect(changes == isNews && stability.isConfirmed == isConfirmed, "at \(moment) ms")
        }
    }
}
