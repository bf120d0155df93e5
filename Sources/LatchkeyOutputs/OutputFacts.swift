// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What is known of the machine's outputs at one moment. A value; says nothing about what may be shown.
public enum OutputFacts: Hashable, Sendable {
    /// All outputs that show something now. None counts as unknown: the picture may be shown in another way.
    case outputs([Output])
    /// They cannot be read, and why. Counts as insecure wherever a rule exists.
    case unreadable(String)

    /// The application reports the outputs, and has not done so yet. Its first report counts at once.
    public static let untold = OutputFacts.unreadable("the application has not told them")

    /// What all active outputs have at least: the minimum. Nil: unknown.
    public var level: OutputRequirement? {
        guard case .outputs(let outputs) = self, !outputs.isEmpty else { return nil }
        return outputs.map(\.level).min()
    }

    /// What to judge, with the reason where it is made up because nothing is known: the worst of each kind.
    var judged: (outputs: [Output], ignorance: String?) {
        let reason: String
        switch self {
        case .outputs(let outputs) where !outputs.isEmpty: return (outputs, nil)
        case .outputs: reason = "no active output is known"
        case .unreadable(let text): reason = "the outputs cannot be read: \(text)"
        }
        let kinds: [Output.Kind] = [.digital, .analogVideo, .analogMonitor]
        return (kinds.map { Output(name: "an output that is not known", kind: $0) }, reason)
    }
}

extension Output {
    /// What the link is worth: the panel inside the device is as good as the best link.
    public var level: OutputRequirement {
        switch (kind, protection) {
        case (.internalPanel, _): .hdcpType1
        case (.digital, .hdcpType0): .hdcpType0
        case (.digital, .hdcpType1): .hdcpType1
        default: .unprotected
        }
    }
}

/// One output of the machine that shows pictures now: a connector with a screen and something to show. A value.
public struct Output: Hashable, Sendable {
    /// What decides which rule of a license is for it.
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
        /// It is not known what it is. Counts as insecure.
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
