// SPDX-License-Identifier: MPL-2.0

/// Whether a CKC may come without this project's code over the whole message. Without the code, a change on the way that
/// removes a block, such as an output rule, cannot be seen.
///
/// Without a rule, the code is required if the certificate is one of this project's test authority, or if the key server has
/// sent the code for this certificate before, to this process or an earlier one.
public enum IntegrityRule: String, CaseIterable, Hashable, Sendable {
    /// It is refused.
    case required
    /// The code is checked if it is there.
    case ifOffered = "if-offered"
}
