// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// The pool that a video frame came from, for frames of the same kind. Keeps the pool, and none of its frames.
public final class FramePool: @unchecked Sendable {
    // SAFETY: constant after `init`; pools do their own locking.
    private let pool: UnsafeMutablePointer<GstBufferPool>
    private let format: GstVideoFormat
    private let width: guint
    private let height: guint

    /// Nil for a frame without a pool.
    public init?(of frame: borrowing Buffer) {
        var (width, height): (guint, guint) = (0, 0)
        var format = GST_VIDEO_FORMAT_UNKNOWN
        let found = frame.withPointer { pointer -> UnsafeMutablePointer<GstBufferPool>? in
            format = ek_video_format_of(pointer, &width, &height)
            return pointer.pointee.pool
        }
        guard let found else { return nil }
        gst_object_ref(found)
        pool = found
        (self.format, self.width, self.height) = (format, width, height)
    }

    deinit { gst_object_unref(pool) }

    /// Whether the frame came from this pool.
    public func isOrigin(of frame: borrowing Buffer) -> Bool { frame.withPointer { $0.pointee.pool } == pool }

    /// A frame of these caps in one colour. Nil where the pool has none left at this moment, or where the CPU may not
    /// write into its memory. Never waits.
    public func plainFrame(
        _ caps: Caps, isWhite: Bool, presentationTime: UInt64?, duration: UInt64?
    ) -> Buffer? {
        let frame = caps.withPointer { ek_video_plain_frame_from(pool, $0, format, width, height, isWhite ? 1 : 0) }
        guard let frame else { return nil }
        frame.pointee.pts = presentationTime.map { GstClockTime($0) } ?? GstClockTime.max
        frame.pointee.duration = duration.map { GstClockTime($0) } ?? GstClockTime.max
        return Buffer(owning: frame)
    }
}
