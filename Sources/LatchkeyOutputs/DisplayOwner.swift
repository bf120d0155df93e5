// SPDX-License-Identifier: MPL-2.0

/// Who owns the display, and so has to ask its links for HDCP. A value.
public enum DisplayOwner: Hashable, Sendable {
    /// A Wayland compositor. It may offer weston_content_protection, by which the owner of a window asks.
    case waylandCompositor
    /// The DRM master: an X server, or an application that shows its pictures by itself.
    case master

    /// By `WAYLAND_DISPLAY` and `WAYLAND_SOCKET`, as libwayland's `wl_display_connect` reads them.
    public init(environment: [String: String]) {
        let names = ["WAYLAND_DISPLAY", "WAYLAND_SOCKET"]
        self = names.contains { environment[$0]?.isEmpty == false } ? .waylandCompositor : .master
    }

    /// What to do for a link to get HDCP, as a sentence.
    public var advice: String {
        switch self {
        case .waylandCompositor:
            "A Wayland compositor owns the display, and it alone can ask for HDCP: let it (Weston: allow_hdcp=true for "
                + "the output in weston.ini), and have the application that owns the window give it to latchkeyguard "
                + "(wayland-display=… wayland-surface=…), which asks through weston_content_protection."
        case .master:
            "HDCP is asked for by the owner of the display: the compositor, or an application with latchkeyguard "
                + "display-fd=…; latchkey outputs --request asks by hand."
        }
    }
}
