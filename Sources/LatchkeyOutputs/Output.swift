// SPDX-License-Identifier: MPL-2.0

/// One output of the machine that shows pictures now: a connector with a screen and something to show. A value.
public struct Output: Hashable, Sendable {
    /// What decides which rule of a licence is for it.
    public enum Kind: String, CaseIterable, Sendable {
        /// A panel inside the device (eDP, LVDS, DSI, DPI): no link leaves it.
        case internalPanel = "internal"
        /// HDMI, DVI-D, DisplayPort.
        case digital
        /// Composite, S-video, component, television.
        case analogVideo = "analog-video"
        /// VGA and DVI-A.
        case analogMonitor = "analog-monitor"
        /// Writeback and virtual connectors, screens over USB or a network: what they show can be recorded.
        case insecure
        /// Nobody knows what it is. Counts as insecure.
        case unknown
    }

    /// What the link has now. Ordered by what it is worth.
    public enum Protection: String, CaseIterable, Sendable {
        /// None, or it cannot be read.
        case none
        /// Asked for and not there yet. Worth no more than none.
        case requested
        /// HDCP of any version.
        case hdcpType0 = "hdcp-type0"
        /// HDCP 2.2 or later up to the screen.
        case hdcpType1 = "hdcp-type1"
    }

    /// As the system calls it, such as `HDMI-A-1`. For messages.
    public var name: String
    public var kind: Kind
    public var protection: Protection

    public init(name: String, kind: Kind, protection: Protection = .none) {
        self.name = name
        self.kind = kind
        self.protection = protection
    }
}
