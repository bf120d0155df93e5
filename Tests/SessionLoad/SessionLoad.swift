// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyViewingSession
import Synchronization

/// Many viewing sessions of one process at a session server, for a while: `latchkey-session-load URL COUNT SECONDS`.
///
/// Says one line of JSON when all are set up, and one at the end. Ends by itself.
@main
struct SessionLoad {
    /// How many setups are under way at the same time.
    private static let width = 64

    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let count = Int(arguments[2]), let seconds = Int(arguments[3]),
            (1...100_000).contains(count), (1...86_400).contains(seconds)
        else {
            say("latchkey-session-load URL COUNT SECONDS")
            exit(2)
        }
        let tally = Tally()
        let before = Usage.now
        let sessions = (0..<count).map { makeSession(arguments[1], $0) }
        for session in sessions { session.observe { event in tally.note(event) } }
        await each(sessions) { session in
            session.start()
            try? await session.established()
        }
        let set = Usage.now
        say(
            #"{"established":\#(tally.counts.withLock(\.established)),"setupSeconds":\#(set.time - before.time),"#
                + #""bytesPerSession":\#((set.resident - before.resident) / count)}"#)
        try? await Task.sleep(for: .seconds(seconds))
        let end = Usage.now
        let open = sessions.count(where: \.isOpen)
        await each(sessions) { session in
            session.stop()
            await session.closed()
        }
        let final = tally.counts.withLock(\.self)
        say(
            #"{"open":\#(open),"refused":\#(final.refused),"lost":\#(final.lost),"failedBeats":\#(final.failedBeats),"#
                + #""teardownErrors":\#(final.teardownErrors),"cpuSeconds":\#(end.cpu - set.cpu),"#
                + #""seconds":\#(end.time - set.time),"residentMiB":\#(end.resident >> 20),"#
                + #""bytesPerSession":\#((end.resident - before.resident) / count),"#
                + #""firstFailure":"\#(final.firstFailure.filter { $0 != "\"" && $0 != "\\" })"}"#)
    }

    private static func makeSession(_ url: String, _ number: Int) -> ViewingSession {
        ViewingSession(
            ViewingSession.Configuration(
                SessionService(url: url, parameters: ["account": "account \(number)", "device": "load"])))
    }

    private static func each(
        _ sessions: [ViewingSession], _ body: @escaping @Sendable (ViewingSession) async -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            for (number, session) in sessions.enumerated() {
                if number >= width { await group.next() }
                group.addTask { await body(session) }
            }
        }
    }

    private static func say(_ line: String) {
        // Past stdio's buffer, so that the parent sees it at once.
        let bytes = Array((line + "\n").utf8)
        _ = write(STDOUT_FILENO, bytes, bytes.count)
    }
}

/// What happened to the sessions. Thread-safe.
private final class Tally: Sendable {
    struct Counts {
        var established = 0
        var refused = 0
        var lost = 0
        var failedBeats = 0
        var teardownErrors = 0
        var firstFailure = ""
    }

    let counts = Mutex(Counts())

    func note(_ event: ViewingSession.Event) {
        guard case .notice(let notice) = event else { return }
        switch notice {
        case .established: counts.withLock { $0.established += 1 }
        case .setupError(let failure): note(failure) { $0.refused += 1 }
        case .heartbeatError(let failure, isFinal: true): note(failure) { $0.lost += 1 }
        case .heartbeatError(let failure, isFinal: false): note(failure) { $0.failedBeats += 1 }
        case .teardownError(let failure): note(failure) { $0.teardownErrors += 1 }
        case .released, .closed: break
        }
    }

    private func note(_ failure: SessionFailure, _ count: (inout Counts) -> Void) {
        counts.withLock { counts in
            count(&counts)
            if counts.firstFailure.isEmpty { counts.firstFailure = failure.description }
        }
    }
}

/// What the process has used so far.
private struct Usage {
    /// Seconds.
    var time: Double
    var cpu: Double
    /// Bytes.
    var resident: Int

    static var now: Usage {
        Usage(time: seconds(CLOCK_MONOTONIC), cpu: seconds(CLOCK_PROCESS_CPUTIME_ID), resident: resident)
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private static var resident: Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, 256, file) != nil else { return 0 }
        let fields = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            .split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * 4096 : 0
    }
}
