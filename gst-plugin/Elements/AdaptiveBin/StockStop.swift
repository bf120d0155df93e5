// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// When a stock adaptive demuxer may be stopped: a stop at the wrong moment never ends. A value. Times are nanoseconds of the
/// monotonic clock.
struct StopMoments: Sendable {
    /// How long the threads may need to start: if that can be seen, and otherwise.
    private static let startLimit: UInt64 = 1_000_000_000
    private static let startTime: UInt64 = 100_000_000

    /// How long outputs may take.
    private static let outputLimit: UInt64 = 150_000_000

    /// How long the thread that has told of its outputs needs until it waits for media, and at most if it can be seen that it
    /// has not come to that.
    private static let outputEnd: UInt64 = 2_000_000
    private static let outputEndLimit: UInt64 = 50_000_000

    /// How long a stop waits until the threads have nothing to do.
    private static let workLimit: UInt64 = 50_000_000

    private var start: UInt64 = 0
    private var threads = KernelThreads([])
    private var outputsAreMadeUntil: UInt64 = 0
    /// The thread that told of its outputs last, and how long that matters.
    private var outputThread = KernelThreads([])
    private var outputThreadMattersUntil: UInt64 = 0

    /// The demuxer has started, and has these threads, as far as that can be told.
    mutating func didStart(_ threads: KernelThreads, at now: UInt64) {
        (start, self.threads) = (now, threads)
    }

    /// Tells of streams: their outputs are made next.
    mutating func didTellOfStreams(at now: UInt64) { outputsAreMadeUntil = now &+ Self.outputLimit }

    /// Begins to tell which streams have outputs: of a track that takes over, long after it told of the streams. Who hears of it
    /// may need some time.
    mutating func willTellOfOutputs(at now: UInt64) { outputsAreMadeUntil = now &+ Self.outputLimit }

    /// Has told of that, on this thread.
    mutating func didTellOfOutputs(on thread: KernelThreads = KernelThreads([]), at now: UInt64) {
        outputsAreMadeUntil = now &+ Self.outputEnd
        (outputThread, outputThreadMattersUntil) = (thread, now &+ Self.outputEndLimit)
    }

    /// Whether the thread for downloads listens: it sleeps until the first download. Where threads cannot be looked at, they
    /// get some time.
    func hasStarted(at now: UInt64) -> Bool {
        now &- start >= (threads.isEmpty ? Self.startTime : Self.startLimit) || !threads.isEmpty && threads.areAsleep
    }

    /// Whether its threads sleep, as far as that can be told, or the stop has waited for that for 50 ms.
    func isIdle(at now: UInt64, sinceStopAt stop: UInt64) -> Bool {
        threads.isEmpty || now &- stop >= Self.workLimit || threads.areAsleep
    }

    /// Whether it makes outputs, as far as that can be told.
    func makesOutputs(at now: UInt64) -> Bool {
        now < outputsAreMadeUntil || now < outputThreadMattersUntil && !outputThread.areAsleep
    }
}

/// How long the parts of a stop take, for the log. A value. Times as above.
struct StopTimes: Sendable {
    static let log = DebugCategory("latchkeystop", "How long Latchkey's demuxers take to stop")

    private var last: UInt64
    private var parts: [(name: String, time: UInt64)] = []

    init(at now: UInt64) { last = now }

    /// A part has ended that began when the one before ended.
    mutating func didEnd(_ name: String, at now: UInt64 = MonotonicTime.now) {
        parts.append((name, now &- last))
        last = now
    }

    var line: String { parts.map { "\($0.name) \($0.time / 1_000_000) ms" }.joined(separator: ", ") }
}

extension AdaptiveBin {
    /// How long stopping waits for the upstream thread, in milliseconds. Where every answer is at hand that takes one or
    /// two; more only where something else is in the way of them, such as a proxy.
    private static let patience = 1000

    /// How much longer it waits if the stock demuxer asks again for what it does not get.
    private static let patienceWhenAskedAgain = 20

    /// Waits until the stock demuxer may be stopped.
    func waitUntilChildMayStop() {
        waitForUpstream()
        waitForChildThreads()
    }

    /// Workaround (GStreamer <1.28): if the stock demuxer is stopped while it waits for an answer on the upstream thread, it
    /// crashes (1.22) or hangs (1.26). It has its answers now, and gets no manifest any more. From 1.26 on, it asks again
    /// and again while that thread waits, until it is stopped.
    private func waitForUpstream() {
        guard let sink = child?.pad("sink") else { return }
        for _ in 0..<Self.patience where !isAskedAgain {
            if sink.waitUntilIdle(milliseconds: 1) { return }
        }
        _ = sink.waitUntilIdle(milliseconds: Self.patienceWhenAskedAgain)
    }

    /// Workaround (GStreamer >=1.22): the stock demuxer hangs if it is stopped before its thread for downloads has begun to
    /// listen. It also does if its output thread makes outputs: that thread lets go of its lock to tell of them, and then waits
    /// for media without another look at whether it is to stop.
    ///
    /// Workaround (GStreamer <1.26): it crashes later if the thread for downloads has not taken a request yet that it was given:
    /// that keeps a stream, which is freed behind its elements. Of 1.22, 1.26 and 1.28, that was seen on 1.22 alone. Versions
    /// between are not tested, and each one is waited for.
    private func waitForChildThreads() {
        let stop = MonotonicTime.now
        while true {
            let (moments, now) = (withGuarded { $0.moments }, MonotonicTime.now)
            // It may have downloaded without this process, and nothing is known of that.
            if !moments.makesOutputs(at: now), hasDownloaded || moments.hasStarted(at: now),
                moments.isIdle(at: now, sinceStopAt: stop)
            {
                return
            }
            g_usleep(1000)
        }
    }
}
