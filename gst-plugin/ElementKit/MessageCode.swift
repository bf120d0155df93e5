// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer

/// What an error or a warning on the bus is about: GStreamer's domain, and the number in it. A value; thread-safe.
public protocol MessageCode {
    /// Of GLib's error domains (`GError.domain`).
    var domain: GQuark { get }
    /// The code within the domain (`GError.code`).
    var number: Int32 { get }
}

extension GstStreamError: MessageCode {
    /// `GST_STREAM_ERROR`.
    public var domain: GQuark { gst_stream_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstCoreError: MessageCode {
    /// `GST_CORE_ERROR`.
    public var domain: GQuark { gst_core_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstResourceError: MessageCode {
    /// `GST_RESOURCE_ERROR`.
    public var domain: GQuark { gst_resource_error_quark() }
    /// As GStreamer's header numbers it.
    public var number: Int32 { Int32(bitPattern: rawValue) }
}
