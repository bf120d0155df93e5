// SPDX-License-Identifier: MPL-2.0

/// What the application makes of external digital outputs, whatever the licence says of them. Enforced for protected
/// content only.
///
/// After the five modes of the Downloadable Agent's manual, "Setting restrictions for the HDMI output".
public enum HDMIMode: String, CaseIterable, Sendable {
    /// The licence decides.
    case standard = "default"
    /// None may be there: playback ends, also where the licence would allow it.
    case disable
    /// They are allowed, also where the licence does not allow them.
    case allow
    /// Sound only.
    case audioOnly = "audio-only"
    /// A picture of the application's instead of the video; white where it gave none.
    case alternative
}
