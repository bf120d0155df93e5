// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection
import Synchronization
import Testing

@Suite struct OutputProviderTests {
    @Test func aScriptIsReadLineByLine() throws {
        let script = """
            # milliseconds  outputs
            0     HDMI-A-1:digital:hdcp-type1 eDP-1:internal
            2000  HDMI-A-1:digital   # lost

            4000  unreadable
            5000
            """
        let clock = Mutex(Duration.zero)
        let clockNow: @Sendable () -> Duration = { clock.withLock { $0 } }
        let steps: [ScriptedOutputs.Step] = [
            .init(start: .milliseconds(10), facts: .outputs([])), .init(start: .zero, facts: .unreadable("first")),
        ]
        let timed = ScriptedOutputs(steps, elapsed: clockNow)
        #expect(timed.read() == .unreadable("first"))
        clock.withLock { $0 = .milliseconds(10) }
        #expect(timed.read() == .outputs([]))

        let first = try ScriptedOutputs(script: script).read()
        #expect(
            first
                == .outputs([
                    Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType1),
                    Output(name: "eDP-1", kind: .internalPanel),
                ]))
    }

    @Test func aScriptThatIsWrongNamesTheLine() {
        for (text, line) in [("0 HDMI:wrong", 1), ("0\n\n-1 A:digital", 3), ("0 A:digital:x", 1), ("x", 1)] {
            #expect { try ScriptedOutputs(script: text) } throws: { error in
                (error as? OutputError)?.description.contains("line \(line) ") == true
            }
        }
    }

    @Test func beforeItsFirstLineAScriptKnowsNothing() throws {
        guard case .unreadable = try ScriptedOutputs(script: "60000 eDP-1:internal").read() else {
            return #expect(Bool(false), "outputs are known too early")
        }
    }

    @Test func aWatchReadsAtOnceAndAtEachHint() async throws {
        let outputs = ApplicationOutputs()
        let panel = OutputFacts.outputs([Output(name: "eDP-1", kind: .internalPanel)])
        let (readings, continuation) = AsyncStream.makeStream(of: OutputFacts.self)
        // An hour: only hints make it read.
        let watch = OutputWatch(outputs, interval: .seconds(3600)) { facts, _ in continuation.yield(facts) }
        var iterator = readings.makeAsyncIterator()
        guard case .unreadable = await iterator.next() else { return #expect(Bool(false), "known too early") }
        outputs.set(panel)
        #expect(await iterator.next() == panel)
        watch.poke()
        #expect(await iterator.next() == panel)
        watch.stop()
    }

    @Test func aWatchReadsWithoutHints() async throws {
        let script = ScriptedOutputs([.init(start: .zero, facts: .outputs([]))])
        let (readings, continuation) = AsyncStream.makeStream(of: Duration.self)
        let watch = OutputWatch(script, interval: .milliseconds(1)) { _, time in continuation.yield(time) }
        var last = Duration.zero
        var count = 0
        for await time in readings {
            #expect(time >= last)
            last = time
            count += 1
            if count == 5 { break }
        }
        #expect(count == 5)
        watch.stop()
    }
}
