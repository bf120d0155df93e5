// SPDX-License-Identifier: MPL-2.0

/// Gets keys for a session, from wherever it knows.
///
/// The counterpart of AVFoundation's `AVAssetResourceLoaderDelegate`. A session asks its loaders in order, on a task of
/// its own, never on a streaming thread. Several requests may be open at the same time. A session keeps its loaders;
/// a loader may keep a request, which does not keep the session.
public protocol ResourceLoader: AnyObject, Sendable {
    /// For logs and error texts.
    var name: String { get }

    /// Whether this loader takes the request. If so, it calls `finishLoading` on it, now or later, once. Must not
    /// block.
    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool

    /// A request that this loader took needs no answer any more: it was withdrawn, somebody else answered, or the
    /// session is gone. Must not block.
    func didCancel(_ request: KeyLoadingRequest)
}

extension ResourceLoader {
    public func didCancel(_ request: KeyLoadingRequest) {}
}
