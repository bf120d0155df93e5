// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Dispatch
import Glibc
import Latchkey
import Synchronization

/// What an agent costs: one playback of `URL`, by an agent's player or by a `playbin3` alone.
///
///     latchkey-agent-benchmark agent|informed TYPE URL
///
/// Prints the kB of resident memory with the player in READY, then the milliseconds from nothing but an
/// initialized GStreamer to the first picture at the sink. `informed` looks at the content first, as applications do.
/// The same for `playbin3` alone is `pipelines.c`'s `player`, which has none of this code in its process.
@main
struct AgentBenchmark {
    private static let sink = "fakesink name=picture sync=false"

    // Not async: an application has a main loop of its own. The runtime's ends the main thread, and the end of a thread
    // reads exception tables of the whole program.
    static func main() {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, ["agent", "informed"].contains(arguments[1]),
            let type = ContentType(rawValue: arguments[2])
        else { stop("usage: latchkey-agent-benchmark agent|informed TYPE URL", 64) }
        gst_init(nil, nil)
        let start = now()
        var configuration = Agent.Configuration()
        configuration.videoSink = sink
        configuration.audioSink = "fakesink sync=false"
        let agent = Agent(contentURL: arguments[3], type: type, configuration: configuration)
        do throws(AgentError) {
            if arguments[1] == "informed" { try look(at: agent) }
            let player = try agent.makePlayer()
            gst_element_set_state(player.element, GST_STATE_READY)
            let made = now()
            let memory = residentSize()
            let begun = now()
            let picture = waitForPicture(player)
            print("\(memory) \(Double(made - start + picture - begun) / 1e6)")
            player.stop()
        } catch {
            stop("\(error)", 1)
        }
    }

    /// Waits until the agent knows its content.
    private static func look(at agent: Agent) throws(AgentError) {
        let failure = Mutex<AgentError?>(nil)
        let done = DispatchSemaphore(value: 0)
        Task {
            do throws(AgentError) {
                _ = try await agent.contentInfo()
            } catch {
                failure.withLock { $0 = error }
            }
            done.signal()
        }
        done.wait()
        if let error = failure.withLock({ $0 }) { throw error }
    }

    /// When the first picture came.
    private static func waitForPicture(_ player: Player) -> UInt64 {
        var value = GValue()
        g_value_init(&value, gst_element_get_type())
        g_object_get_property(
            UnsafeMutableRawPointer(player.element).assumingMemoryBound(to: GObject.self), "video-sink", &value)
        defer { g_value_unset(&value) }
        // SAFETY: the player's sink is a bin of a guard and the sink, which the value keeps.
        guard let bin = g_value_get_object(&value)?.assumingMemoryBound(to: GstBin.self),
            let sink = gst_bin_get_by_name(bin, "picture")
        else { stop("there is no sink for pictures", 1) }
        defer { gst_object_unref(sink) }
        guard let pad = gst_element_get_static_pad(sink, "sink") else { stop("the sink has no pad", 1) }
        defer { gst_object_unref(pad) }
        let moment = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
        moment.initialize(to: 0)
        // SAFETY: the probe's thread writes once, before this thread sees the state PLAYING or the next poll below; the
        // memory is never freed.
        gst_pad_add_probe(
            pad, GST_PAD_PROBE_TYPE_BUFFER,
            { _, _, data in
                data?.assumingMemoryBound(to: UInt64.self).pointee = AgentBenchmark.now()
                return GST_PAD_PROBE_REMOVE
            }, moment, nil)
        guard player.play() else { stop("GStreamer does not start", 1) }
        let limit = now() + 20_000_000_000
        while gst_element_get_state(player.element, nil, nil, 100_000_000) != GST_STATE_CHANGE_SUCCESS {
            guard now() < limit else { stop("there is no picture after 20 s", 1) }
        }
        return moment.pointee
    }

    /// In nanoseconds.
    private static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// In kB.
    private static func residentSize() -> Int {
        guard let file = fopen("/proc/self/smaps_rollup", "r") else { return 0 }
        defer { fclose(file) }
        var line: UnsafeMutablePointer<CChar>?
        var size = 0
        defer { free(line) }
        while getline(&line, &size, file) > 0, let text = line.map({ String(cString: $0) }) {
            if text.hasPrefix("Rss:") { return text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 }
        }
        return 0
    }

    private static func stop(_ text: String, _ status: Int32) -> Never {
        let line = Array("latchkey-agent-benchmark: \(text)\n".utf8)
        write(STDERR_FILENO, line, line.count)
        exit(status)
    }
}
