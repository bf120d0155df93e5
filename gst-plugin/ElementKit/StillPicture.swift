// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc

/// A picture, decoded once, for frames of any raw video caps. Thread-safe.
public final class StillPicture: @unchecked Sendable {
    // SAFETY: constant after `init`; samples are immutable and their reference count is atomic.
    private let sample: OpaquePointer

    /// The largest encoded picture that is taken, in bytes.
    public static let sizeLimit = 32 << 20

    /// How long decoding may take, in nanoseconds.
    private static let patience: UInt64 = 10_000_000_000

    /// Decodes a PNG or JPEG file, or whatever else GStreamer has a decoder for, in `bytes`. Blocks as long as that
    /// takes. Throws what GStreamer says where it cannot.
    public init(encoded bytes: [UInt8]) throws(PipelineError) {
        guard !bytes.isEmpty, bytes.count <= Self.sizeLimit else {
            throw PipelineError(description: "a picture has 1 to \(Self.sizeLimit) bytes, not \(bytes.count)")
        }
        let file = ek_memory_file()
        guard file >= 0 else { throw PipelineError(description: "no memory for the picture") }
        defer { close(file) }
        guard write(file, bytes, bytes.count) == bytes.count, lseek(file, 0, SEEK_SET) == 0 else {
            throw PipelineError(description: "no memory for the picture")
        }
        let pipeline = Pipeline(
            try Pipeline.launch(
                "fdsrc fd=\(file) ! decodebin ! videoconvert ! videoscale ! "
                    + "video/x-raw,format=RGBA,pixel-aspect-ratio=1/1 ! fakesink name=picture"))
        pipeline.setState(PipelineState.paused)
        let end = gst_element_get_state(pipeline.pointer, nil, nil, GstClockTime(Self.patience))
        guard end == GST_STATE_CHANGE_SUCCESS, let sink = Pipeline.element("picture", in: pipeline.pointer),
            let sample = ek_last_sample(sink.pointer)
        else {
            throw PipelineError(description: Self.reason(pipeline) ?? "GStreamer finds no picture in these bytes")
        }
        self.sample = sample
    }

    deinit { ek_sample_unref(sample) }

    private static func reason(_ pipeline: Pipeline) -> String? {
        while let message = pipeline.nextMessage(waiting: 0) {
            if case .error(_, _, let text, _, _)? = message { return text }
        }
        return nil
    }

    /// As a frame in plain memory: as large as it fits, with its proportions, black around it. Nil where the caps are no
    /// raw video of a known format.
    public func frame(_ caps: Caps) -> Buffer? {
        caps.withPointer { ek_video_fitted(sample, $0) }.map { Buffer(owning: $0) }
    }
}
