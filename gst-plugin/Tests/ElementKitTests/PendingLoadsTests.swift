// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyElementKit

/// Which threads are waited for as the process exits.
@Suite struct PendingLoadsTests {
    private func thread(_ id: Int32, _ state: String, run: UInt64) throws -> PendingLoads.Thread {
        let (stat, schedstat) = ("\(id) (a) b) \(state) 1 2 3\n", "\(run) 20 3\n")
        return try #require(PendingLoads.Thread(id: id, stat: Array(stat.utf8), schedstat: Array(schedstat.utf8)))
    }

    @Test func aThreadIsWaitedForUntilItHasHadAProcessor() throws {
        let (awake, asleep) = (try thread(7, "R", run: 50), try thread(8, "S", run: 50))
        let (nearly, enough) = (try thread(7, "D", run: 1_000_049), try thread(7, "R", run: 1_000_050))
        var loads = PendingLoads([awake, asleep])
        let answers = [[awake, asleep], [nearly], [enough], [awake]].map { loads.remain($0) }
        #expect(answers == [true, true, false, false])
    }

    @Test func oneThatSleepsOrIsGoneIsNot() throws {
        let (one, other) = (try thread(7, "R", run: 0), try thread(8, "R", run: 0))
        let asleep = try thread(7, "S", run: 1)
        var loads = PendingLoads([one, other])
        let answers = [[asleep, other], [one]].map { loads.remain($0) }
        #expect(answers == [true, false])
    }

    @Test func whatIsNoThreadIsNone() {
        let texts = [("", "1 2 3"), ("7 (a) R 1", ""), ("7 (a)", "1 2 3"), ("7 (a) R", "-1 2")]
        for (stat, schedstat) in texts {
            let thread = PendingLoads.Thread(id: 7, stat: Array(stat.utf8), schedstat: Array(schedstat.utf8))
            #expect(thread == nil, "\(stat)")
        }
    }
}
