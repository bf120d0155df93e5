// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension UnsafeMutablePointer<GstElement> {
    /// Sets a property of any element, for applications and tests written in Swift.
    public func setProperty(_ name: String, _ value: FieldValue) {
        var stored = GValue()
        ek_value_init(&stored, value.type)
        value.store(in: &stored)
        // SAFETY: an element is a GObject; GLib copies the value.
        g_object_set_property(UnsafeMutableRawPointer(self).assumingMemoryBound(to: GObject.self), name, &stored)
        g_value_unset(&stored)
    }

    /// Reads a property of any element, of one of the types that `FieldValue` knows.
    public func property(_ name: String) -> FieldValue {
        var stored = GValue()
        // SAFETY: an element is a GObject; the value is this function's, and is unset in the end.
        g_object_get_property(UnsafeMutableRawPointer(self).assumingMemoryBound(to: GObject.self), name, &stored)
        defer { g_value_unset(&stored) }
        return FieldValue(reading: &stored)
    }

    /// Emits an action signal that returns a boolean. False where the element has no such signal.
    public func emit(_ signal: String, _ arguments: [FieldValue]) -> Bool {
        let type = ek_object_type(self)
        let id = g_signal_lookup(signal, type)
        guard id != 0 else { return false }
        var values = [GValue](repeating: GValue(), count: arguments.count + 1)
        ek_value_init(&values[0], type)
        g_value_set_object(&values[0], UnsafeMutableRawPointer(self))
        for (index, argument) in arguments.enumerated() {
            ek_value_init(&values[index + 1], argument.type)
            argument.store(in: &values[index + 1])
        }
        var result = GValue()
        ek_value_init(&result, ek_type_boolean())
        g_signal_emitv(values, id, 0, &result)
        for index in values.indices { g_value_unset(&values[index]) }
        return g_value_get_boolean(&result) != 0
    }
}
