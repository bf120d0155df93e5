// SPDX-License-Identifier: MPL-2.0

/// What a licence wants of an output before it may show the picture. Ordered: the larger one is stricter.
public enum OutputRequirement: UInt8, Sendable, CaseIterable {
    /// No protection is needed.
    case unprotected = 0
    /// HDCP of any version.
    case hdcpType0 = 1
    /// HDCP 2.2 or later, on all links up to the screen.
    case hdcpType1 = 2
}

extension OutputRequirement: Comparable {
    /// By strictness: `unprotected` is the least.
    public static func < (left: OutputRequirement, right: OutputRequirement) -> Bool {
        left.rawValue < right.rawValue
    }
}
