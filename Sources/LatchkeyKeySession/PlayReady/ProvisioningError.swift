// SPDX-License-Identifier: MPL-2.0

/// A file of a provisioning folder, or one that is to get into it, that cannot be used.
public struct ProvisioningError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of the file that the error is about.
    public let path: String
    /// Never has the file's content in it.
    public let reason: String

    /// `reason` must not quote the file: it may be a private key.
    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    /// Path and reason.
    public var description: String { "\(path): \(reason)" }
}
