// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport

/// A source that pushes a file, and goes elsewhere when it is told to, as HTTP sources do. What it does wrong is set.
final class PushedFile: Element, @unchecked Sendable {
    // SAFETY: `settings`, `progress` and `seeks` are guarded by `monitor`.
    struct Settings {
        var file: [UInt8] = []
        /// Told to whoever asks; nil is not known.
        var announcedSize: Int?
        var isSeekable = true
        var takesSeeks = true
        /// Of the answer of an HTTP server; nil: this is no HTTP source.
        var acceptRanges: String?
        var blockSize = 10_000
        /// The end comes here.
        var endsAt: Int?
        /// Nothing comes from here on, and no end.
        var stallsAt: Int?
        /// After a seek, it goes on so many bytes behind the place.
        var error = 0
        var countsInTime = false
    }

    private struct Progress {
        var position = 0
        var hasStarted = false
        /// Nothing comes behind the events that begin a stream.
        var isHeld = true
        var needsSegment = true
    }

    static let factory = ElementDescription(
        factory: "pushedfile", longName: "Pushed file", classification: "Source", summary: "Pushes bytes",
        author: "The Latchkey authors", padTemplates: [.source("ANY")], implementation: PushedFile.self)

    private let monitor = Monitor()
    private let source: Pad
    private var settings = Settings()
    private var progress = Progress()
    private var seeks: [Int] = []

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        source = Pad(.source("ANY"), of: reference)
        super.init(reference, description)
        source.onQuery { [unowned self] in self.answer($0) }
        source.onEvent { [unowned self] in self.handle($0) }
        source.onTask { [unowned self] in self.push() }
        source.onActivation { [unowned self] isActive in
            if isActive { source.startTask() } else { stop() }
        }
        add(source)
    }

    func change(_ body: (inout Settings) -> Void) {
        monitor.withLock {
            body(&settings)
            monitor.broadcast()
        }
    }

    /// Where it was sent to.
    var places: [Int] { monitor.withLock { seeks } }

    /// So much was pushed and taken.
    var position: Int { monitor.withLock { progress.position } }

    /// Until it has nothing to do, or has no room; false at the deadline.
    func waitUntil(_ condition: (Int) -> Bool) -> Bool {
        let end = MonotonicTime.now &+ TestProcess.deadline
        monitor.lock()
        defer { monitor.unlock() }
        while !condition(progress.position) {
            guard MonotonicTime.now < end else { return false }
            monitor.wait(microseconds: 10_000)
        }
        return true
    }

    /// Goes on from where it stalled.
    func resume() {
        change { $0.stallsAt = nil }
        source.startTask()
    }

    /// Waits until the stream has begun; false at the deadline.
    func waitForBegin() -> Bool { waitUntil { _ in progress.hasStarted } }

    /// Ends the task, also one that was started when the pad was not active any more: a pad that goes with a task may wait
    /// for it for ever.
    func stop() {
        source.stopTask()
        // The first call waits for `push`, which may have started the task anew.
        source.stopTask()
    }

    /// Lets the bytes come.
    func release() {
        monitor.withLock { progress.isHeld = false }
        source.startTask()
    }

    private func tellOfServer(_ ranges: String) {
        guard let structure = gst_structure_from_string("http-headers, http-status-code=(uint)200", nil),
            let answer = gst_structure_from_string("response-headers, Accept-Ranges=(string)\(ranges)", nil)
        else { return }
        var value = GValue()
        ek_value_init(&value, ek_type_structure())
        gst_value_set_structure(&value, answer)
        gst_structure_set_value(structure, "response-headers", &value)
        g_value_unset(&value)
        gst_structure_free(answer)
        source.push(Event(owning: gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, structure)))
    }

    private func answer(_ query: borrowing Query) -> Bool? {
        let settings = monitor.withLock { self.settings }
        switch GstQueryType(UInt32(ek_query_type(query.pointer))) {
        case GST_QUERY_SEEKING:
            gst_query_set_seeking(query.pointer, GST_FORMAT_BYTES, settings.isSeekable ? 1 : 0, 0, -1)
            return true
        case GST_QUERY_DURATION:
            guard let size = settings.announcedSize else { return false }
            gst_query_set_duration(query.pointer, GST_FORMAT_BYTES, gint64(size))
            return true
        default: return nil
        }
    }

    private func handle(_ event: consuming Event) -> Bool {
        guard event.isSeek, monitor.withLock({ settings.takesSeeks }) else { return false }
        var start: gint64 = 0
        event.withPointer { gst_event_parse_seek($0, nil, nil, nil, nil, &start, nil, nil) }
        source.push(.startOfFlush())
        source.pauseTask()
        monitor.withLock {
            seeks.append(Int(start))
            progress.position = Int(start) + settings.error
            progress.needsSegment = true
        }
        source.push(.endOfFlush(resetTime: true))
        source.startTask()
        return true
    }

    private func push() {
        let (settings, progress) = monitor.withLock { (self.settings, self.progress) }
        if !progress.hasStarted {
            source.push(Event(owning: gst_event_new_stream_start("file")))
            if let ranges = settings.acceptRanges { tellOfServer(ranges) }
            monitor.withLock { self.progress.hasStarted = true }
            monitor.broadcast()
        }
        guard !progress.isHeld else {
            source.pauseTask()
            // Released in between.
            if monitor.withLock({ !self.progress.isHeld }) { source.startTask() }
            return
        }
        if progress.needsSegment {
            var segment = GstSegment()
            gst_segment_init(&segment, settings.countsInTime ? GST_FORMAT_TIME : GST_FORMAT_BYTES)
            segment.start = guint64(progress.position)
            source.push(Event(owning: gst_event_new_segment(&segment)))
            monitor.withLock { self.progress.needsSegment = false }
        }
        let end = min(settings.file.count, settings.endsAt ?? .max)
        guard progress.position < end else {
            source.push(.endOfStream())
            source.pauseTask()
            return
        }
        let stop = min(end, progress.position + settings.blockSize, settings.stallsAt ?? .max)
        guard progress.position < stop, let buffer = Buffer(copying: settings.file[progress.position..<stop]) else {
            source.pauseTask()
            return
        }
        let result = source.push(buffer)
        monitor.withLock {
            // Taken, and not sent elsewhere by it.
            if result == .ok, !self.progress.needsSegment { self.progress.position = stop }
            monitor.broadcast()
        }
        if result != .ok { source.pauseTask() }
    }
}
