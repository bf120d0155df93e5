// SPDX-License-Identifier: MPL-2.0

/// A file of a provisioning folder, or one that is to get into it, that cannot be used.
public struct ProvisioningError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Of the file.
    public let path: String
    /// Never has the file's content in it.
    public let reason: String

    public init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    public var description: String { "\(path): \(reason)" }
}
