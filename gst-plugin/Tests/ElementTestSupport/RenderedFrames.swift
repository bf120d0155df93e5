// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import Foundation

/// Writes down what a fakesink with `signal-handoffs` shows: prerolled and rendered frames, by their first byte.
/// Thread-safe.
public final class RenderedFrames: @unchecked Sendable {
    // SAFETY: `list` is guarded by `condition`.

    public struct Frame: Sendable {
        /// The first byte: luma, in planar formats.
        public let luma: UInt8
        public let isPreroll: Bool
        /// In nanoseconds.
        public let presentationTime: UInt64
        /// Monotonic, in nanoseconds.
        public let moment: UInt64
    }

    private let condition = NSCondition()
    private var list: [Frame] = []

    /// Listens from now on, for as long as the sink lives.
    public init(of sink: UnsafeMutablePointer<GstElement>) {
        for name in ["handoff", "preroll-handoff"] {
            let callback: Handoff = name == "handoff" ? rendered : prerolled
            g_signal_connect_data(
                sink, name, unsafeBitCast(callback, to: GCallback.self), Unmanaged.passRetained(self).toOpaque(),
                { data, _ in if let data { Unmanaged<RenderedFrames>.fromOpaque(data).release() } },
                GConnectFlags(rawValue: 0))
        }
    }

    public var all: [Frame] {
        condition.lock()
        defer { condition.unlock() }
        return list
    }

    public var count: Int { all.count }

    /// Waits until `fits` says yes of the frames from number `start` on. False at the deadline.
    public func wait(from start: Int = 0, until fits: (ArraySlice<Frame>) -> Bool) -> Bool {
        let end = Date(timeIntervalSinceNow: Double(TestProcess.deadline) / 1e9)
        condition.lock()
        defer { condition.unlock() }
        while !fits(list[min(start, list.count)...]) {
            if !condition.wait(until: end) { return fits(list[min(start, list.count)...]) }
        }
        return true
    }

    fileprivate func note(_ buffer: UnsafeMutablePointer<GstBuffer>, isPreroll: Bool) {
        var luma: UInt8 = 0
        gst_buffer_extract(buffer, 0, &luma, 1)
        let frame = Frame(
            luma: luma, isPreroll: isPreroll, presentationTime: UInt64(buffer.pointee.pts), moment: MonotonicTime.now)
        condition.lock()
        list.append(frame)
        condition.broadcast()
        condition.unlock()
    }
}

private typealias Handoff =
    @convention(c) (
        UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstBuffer>?, UnsafeMutablePointer<GstPad>?, gpointer?
    ) -> Void

private let rendered: Handoff = { _, buffer, _, data in
    guard let buffer, let data else { return }
    Unmanaged<RenderedFrames>.fromOpaque(data).takeUnretainedValue().note(buffer, isPreroll: false)
}

private let prerolled: Handoff = { _, buffer, _, data in
    guard let buffer, let data else { return }
    Unmanaged<RenderedFrames>.fromOpaque(data).takeUnretainedValue().note(buffer, isPreroll: true)
}
