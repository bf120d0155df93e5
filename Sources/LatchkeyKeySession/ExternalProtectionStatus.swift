// SPDX-License-Identifier: MPL-2.0

/// Whether the outputs have the protection that a key's licence wants, as AVFoundation's
/// `AVExternalContentProtectionStatus` has it.
public enum ExternalProtectionStatus: Sendable, Hashable, CaseIterable {
    /// Not known yet. The picture waits.
    case pending
    /// They have it, or the licence wants none.
    case sufficient
    /// An output lacks it. The picture is held back or changed, as the guard's mode says.
    case insufficient
}
