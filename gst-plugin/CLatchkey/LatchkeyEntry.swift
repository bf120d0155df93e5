// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Latchkey

// The functions of latchkey.h.

/// `const char *latchkey_version (void)`: never freed.
@c(latchkey_version)
public func latchkeyVersion() -> UnsafePointer<CChar>? { UnsafePointer(g_intern_string(Latchkey.version)) }

/// `void latchkey_stop_callbacks (void)`
@c(latchkey_stop_callbacks)
public func latchkeyStopCallbacks() { Callbacks.stop() }

/// `gboolean latchkey_register_elements (GstPlugin *plugin)`
@c(latchkey_register_elements)
public func latchkeyRegisterElements(_ plugin: OpaquePointer?) -> CInt {
    Latchkey.registerElements(with: plugin) ? 1 : 0
}
