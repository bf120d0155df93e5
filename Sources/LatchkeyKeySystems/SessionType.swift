// SPDX-License-Identifier: MPL-2.0

/// How long a licence is meant to last, by its name in W3C's Encrypted Media Extensions (`MediaKeySessionType`).
public enum SessionType: String, Sendable, CaseIterable {
    /// Until the session ends.
    case temporary
    /// Stored, for later sessions.
    case persistentLicense = "persistent-license"
}
