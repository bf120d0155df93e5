// SPDX-License-Identifier: MPL-2.0

/// Answers from keys that are known beforehand, whatever the key system.
///
/// Takes a request when it has every key that is missing. Where it has some of them, it hands these over and the next
/// loader is asked for the rest. For media without a KID it has the key of the request's URL or the `*` key.
/// Thread-safe.
public final class StaticKeyLoader: ResourceLoader {
    /// Names the loader in error texts.
    public let name: String
    /// Yes.
    public var needsNoNetwork: Bool { true }
    private let keys: StaticKeys

    /// The keys are shared and not copied.
    public init(_ keys: StaticKeys, name: String = "static keys") {
        self.keys = keys
        self.name = name
    }

    /// Takes a request that the keys answer whole, and hands over what it has of others.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { keys.load(request) }
}
