// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// Outputs that change by a script, for tests and demonstrations. Thread-safe.
///
/// Time counts from the first reading. A line of the text form is a moment and all outputs from then on:
/// ```
/// # milliseconds  name:kind:protection …
/// 0     HDMI-A-1:digital:hdcp-type0
/// 2000  HDMI-A-1:digital:none eDP-1:internal
/// 4000  unreadable
/// ```
/// Before the first line nothing is known.
public final class ScriptedOutputs: OutputProvider {
    public struct Step: Hashable, Sendable {
        public var start: Duration
        public var facts: OutputFacts

        public init(start: Duration, facts: OutputFacts) {
            self.start = start
            self.facts = facts
        }
    }

    private let steps: [Step]
    private let elapsed: @Sendable () -> Duration

    /// `elapsed` is the time since the first reading; by default that of the monotonic clock.
    public init(_ steps: [Step], elapsed: (@Sendable () -> Duration)? = nil) {
        self.steps = steps.sorted { $0.start < $1.start }
        let first = StartTime()
        self.elapsed = elapsed ?? { first.elapsed() }
    }

    /// Reads the text form. Throws for a line that is not understood.
    public convenience init(script: String) throws(OutputError) {
        var steps: [Step] = []
        for (index, line) in script.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = words.first else { continue }
            guard let milliseconds = UInt32(first), let facts = OutputFacts(words.dropFirst().map(String.init)) else {
                throw .badScript(line: index + 1)
            }
            steps.append(Step(start: .milliseconds(Int64(milliseconds)), facts: facts))
        }
        self.init(steps)
    }

    public func read() -> OutputFacts {
        let now = elapsed()
        return steps.last { $0.start <= now }?.facts ?? .unreadable("the script begins later")
    }
}

extension OutputFacts {
    /// The words of a script's line or of an application: `name:kind` or `name:kind:protection`, or `unreadable`. Nil
    /// for others.
    public init?(_ words: [String]) {
        if words == ["unreadable"] {
            self = .unreadable("the script says so")
            return
        }
        var outputs: [Output] = []
        for word in words {
            let parts = word.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2 || parts.count == 3, let kind = Output.Kind(rawValue: parts[1]) else { return nil }
            guard let protection = Output.Protection(rawValue: parts.count == 3 ? parts[2] : "none") else { return nil }
            outputs.append(Output(name: parts[0], kind: kind, protection: protection))
        }
        self = .outputs(outputs)
    }
}

private final class StartTime: Sendable {
    private let start = Mutex<ContinuousClock.Instant?>(nil)

    func elapsed() -> Duration {
        let now = ContinuousClock.now
        return start.withLock { start in
            let first = start ?? now
            start = first
            return first.duration(to: now)
        }
    }
}
