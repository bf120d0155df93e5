// SPDX-License-Identifier: MPL-2.0

public import CGStreamer

/// What an error or a warning on the bus is about: GStreamer's domain, and the number in it.
public protocol MessageCode {
    var domain: GQuark { get }
    var number: Int32 { get }
}

extension GstStreamError: MessageCode {
    public var domain: GQuark { gst_stream_error_quark() }
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstCoreError: MessageCode {
    public var domain: GQuark { gst_core_error_quark() }
    public var number: Int32 { Int32(bitPattern: rawValue) }
}

extension GstResourceError: MessageCode {
    public var domain: GQuark { gst_resource_error_quark() }
    public var number: Int32 { Int32(bitPattern: rawValue) }
}
