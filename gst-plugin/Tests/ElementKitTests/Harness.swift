// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import CGStreamerCheck
import ElementKit

/// A GstHarness around one element.
final class Harness {
    let pointer: UnsafeMutablePointer<GstHarness>

    init?(_ factory: String) {
        gst_init(nil, nil)
        guard let pointer = gst_harness_new(factory) else { return nil }
        self.pointer = pointer
    }

    deinit { gst_harness_teardown(pointer) }

    var element: UnsafeMutablePointer<GstElement> { pointer.pointee.element }

    func start(caps: String) { gst_harness_set_src_caps_str(pointer, caps) }

    func push(_ bytes: [UInt8]) -> FlowResult? {
        guard let buffer = Buffer(copying: bytes) else { return nil }
        return FlowResult(rawValue: Int32(gst_harness_push(pointer, buffer.release()).rawValue))
    }

    func pull() -> Buffer? { gst_harness_try_pull(pointer).map { Buffer(owning: $0) } }

    func set(_ property: String, _ value: FieldValue) { element.setProperty(property, value) }
}
