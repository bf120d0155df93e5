// SPDX-License-Identifier: MPL-2.0

/// What a session is made with beside its loaders.
public struct KeySessionConfiguration: Sendable {
    /// When leases are renewed.
    public var renewalPolicy = KeyRenewalPolicy()
    /// Gets a line for each mistake that is not worth an error, as a request that is finished twice. No secret is in it.
    /// Called on any thread; must not block.
    public var log: @Sendable (String) -> Void = { _ in }

    public init() {}
}
