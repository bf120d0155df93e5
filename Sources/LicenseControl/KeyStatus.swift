// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// How a session stands to one key.
public enum KeyStatus: Sendable {
    /// Nobody asked for it yet.
    case absent
    /// Asked for, not answered.
    case pending(requestID: UInt64)
    case usable(ContentKey)
    /// Not to be had, until somebody asks with `KeyDemand.retryFailuresUpTo` of at least this generation.
    case failed(KeyError, generation: UInt64)
}

/// What happens in a session.
///
/// An empty list of KIDs stands for the key of media without a KID.
public enum KeyEvent: Sendable {
    /// A request begins. Its loaders are asked next. `origin` is `KeyDemand.origin`.
    case requested(KeyLoadingRequest, origin: UInt64)
    /// No loader took the request. It stays pending, so that the application can answer.
    case untaken(KeyLoadingRequest, origin: UInt64)
    /// Keys are there. `requestID` is the request that was answered, nil for keys that came without one. `elapsed`
    /// is the time from the request to the keys, zero without a request.
    case usable(requestID: UInt64?, [KeyID], elapsed: Duration)
    /// The KIDs of a request that got no key.
    case failed(requestID: UInt64, [KeyID], KeyError)
    /// The session is closed. Nothing comes after it but failures of later demands.
    case closed(KeyError)
}
