// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// The factories of demuxers with keys.
public enum AdaptiveDemuxerFactory {
    /// All of them, in the order in which they are registered.
    public static let all = [HLSDemuxer.factory, DASHDemuxer.factory, SmoothDemuxer.factory]

    /// What makes players plug them where GStreamer does not know the manifest.
    public static let types = [DASHDemuxer.manifestType]
}
