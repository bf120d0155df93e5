// SPDX-License-Identifier: MPL-2.0

import LatchkeyViewingSession

/// What a crowd of clients does to a session server: the shipped state machine, a million times, on one time line.
///
/// All begin within five seconds, as at a kick-off. For 90 s in the middle every request fails. Prints one table, and
/// ends with an error where the defaults do not keep what they promise.
@main
enum SessionBenchmark {
    static func main() async {
        let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000_000
        let defaults = SessionPolicy()
        var impatient = defaults
        impatient.missedBeats = 2
        let rows: [(String, SessionPolicy, Outage)] = [
            ("3 missed beats, cap 30 s (default)", defaults, .refused),
            ("the same, the server answers nothing", defaults, .silent),
            ("the same, 503 with Retry-After: 30", defaults, .retryAfter),
            ("2 missed beats, cap 30 s", impatient, .refused),
        ]
        print("\(count) clients, H = \(defaults.interval / 1000) s; requests a second for a million clients\n")
        print("| policy | mean | kick-off peak | steady peak | outage peak | recovery peak | lost |")
        print("|---|---|---|---|---|---|---|")
        var loads: [Load] = []
        let clock = ContinuousClock()
        let start = clock.now
        for (name, policy, outage) in rows {
            let load = await Crowd(count: count, policy: policy, outage: outage).run()
            print("| \(name) | \(load.row)")
            loads.append(load)
        }
        print("\n\((clock.now - start) / .seconds(1)) s for \(loads.reduce(0) { $0 + $1.events }) events")
        let kept = loads[0]
        check(kept.steadyPeak <= 1.1 * kept.mean, "steady peak at most 1.1 × mean")
        check(kept.recoveryPeak <= 2 * kept.mean, "recovery peak at most 2 × mean")
        check(kept.lost == 0, "no session lost")
        check(loads[3].lost > count / 2, "with two missed beats, more than half are lost")
    }

    private static func check(_ isMet: Bool, _ text: String) {
        print("\(isMet ? "met" : "NOT MET"): \(text)")
        guard isMet else { fatalError(text) }
    }
}
