// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// GStreamer in this process.
public enum GStreamer {
    /// Starts GStreamer if that has not happened yet. Every function of this module that needs no object of GStreamer's
    /// calls it, so that each may be the first. Thread-safe.
    @inlinable public static func initialize() {
        if gst_is_initialized() == 0 { gst_init(nil, nil) }
    }

    /// The same, and waits until GStreamer knows all plug-ins: if another thread starts it, `gst_is_initialized` is true
    /// before that. What is registered too early is freed when the plug-in file with the same elements is found.
    /// GStreamer must not be loading a plug-in on this thread, since it would wait for itself. Thread-safe.
    public static func initializeWholly() { gst_init(nil, nil) }
}
