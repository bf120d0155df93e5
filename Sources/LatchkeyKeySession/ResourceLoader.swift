// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
public import LatchkeyProtection

/// Gets keys for a session, from wherever it knows.
///
/// The counterpart of AVFoundation's `AVAssetResourceLoaderDelegate` and `AVContentKeySessionDelegate`;
/// `docs/loaders.md` has the table of names. A session asks its loaders in order, on a task of its own, never on a
/// streaming thread. Several requests may be open at the same time. A session keeps its loaders; a loader may keep a
/// request, which does not keep the session. No method may block.
public protocol ResourceLoader: AnyObject, Sendable {
    /// For logs and error texts.
    var name: String { get }

    /// The key systems whose keys it has; nil for any. A demuxer that has to choose one takes what a loader has keys for
    /// (`drm-preferred-decryption-system-id`). Not implemented: any.
    var keySystems: Set<KeySystem>? { get }

    /// Whether its keys can be had at any time, without a network and without being stored. Not implemented: no.
    var needsNoNetwork: Bool { get }

    /// Whether this loader takes the request. If so, it calls `finishLoading` on it, now or later, once.
    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool

    /// The same for a request that renews keys which are usable now (`KeyLoadingRequest.isRenewal`). Not implemented:
    /// as for every request.
    func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool

    /// A request that this loader took needs no answer any more: it was withdrawn, other code answered, or the session
    /// is gone.
    func didCancel(_ request: KeyLoadingRequest)

    /// Whether a request that this loader answered is to be made again. The new one is offered to the loaders as every
    /// request is. Not implemented: no. After `KeyLoadingRequest.maximumAttempts` this is not called.
    func shouldRetry(_ request: KeyLoadingRequest, reason: KeyRetryReason) -> Bool

    /// The keys of a request that this loader answered are usable.
    func didSucceed(_ request: KeyLoadingRequest)

    /// The answer of this loader could not be used.
    func didFail(_ request: KeyLoadingRequest, with error: KeyError)

    /// A key of the session is used for playing: the first sample of it is decrypted while the pipeline plays, or it
    /// begins to play what was decrypted before. Called for every loader, and for a key more than once.
    func didStartPlaying(_ keyID: KeyID?, in session: KeySession)

    /// Returns when everything that `didStartPlaying` was told of is written down, where it counts, or could not be. Who
    /// ends playback waits for it, for a short time.
    func finishNotingPlays() async

    /// Playback with a stored key began, and with it another end of the key: store this one in its place.
    func didUpdatePersistableContentKey(_ key: [UInt8], for request: KeyLoadingRequest)

    /// The session is over, and this report of it waits for a server's acknowledgement
    /// (`ExpiredSessionReports.remove`).
    func didGenerateExpiredSessionReport(_ report: ExpiredSessionReport)

    /// An output does, or does not, have the protection that the license of this key wants.
    func externalProtectionStatusDidChange(_ status: ExternalProtectionStatus, of keyID: KeyID?)
}

/// Looks for a stored key first, and calls `KeyLoadingRequest.establishViewing()` before it asks a server. So it may be
/// asked while no viewing session is there.
package protocol StoredKeyLoader: ResourceLoader {}

extension ResourceLoader {
    /// Whether it may be asked while no viewing session is there.
    var isLocal: Bool { needsNoNetwork || self is any StoredKeyLoader }

    /// Any: a key is a key, whatever the media names.
    public var keySystems: Set<KeySystem>? { nil }
    /// No: keys come from a server.
    public var needsNoNetwork: Bool { false }
    /// A renewal is asked for in the way of the first request.
    public func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool { shouldWaitForLoading(of: request) }
    /// Does nothing: what the request began runs on, and its answer is ignored.
    public func didCancel(_ request: KeyLoadingRequest) {}
    /// No: the answer stands.
    public func shouldRetry(_ request: KeyLoadingRequest, reason: KeyRetryReason) -> Bool { false }
    /// Does nothing.
    public func didSucceed(_ request: KeyLoadingRequest) {}
    /// Does nothing; the session notifies its observers all the same.
    public func didFail(_ request: KeyLoadingRequest, with error: KeyError) {}
    /// Does nothing.
    public func didStartPlaying(_ keyID: KeyID?, in session: KeySession) {}
    /// At once: there is nothing to wait for.
    public func finishNotingPlays() async {}
    /// Does nothing: the stored key stays as it was.
    public func didUpdatePersistableContentKey(_ key: [UInt8], for request: KeyLoadingRequest) {}
    /// Does nothing: the report stays in the store.
    public func didGenerateExpiredSessionReport(_ report: ExpiredSessionReport) {}
    /// Does nothing; the guard acts without it.
    public func externalProtectionStatusDidChange(_ status: ExternalProtectionStatus, of keyID: KeyID?) {}
}

/// A loader made of closures. Thread-safe; it keeps the closures as long as it lives.
public final class CallbackLoader: ResourceLoader {
    /// Names the loader in error texts.
    public let name: String
    private let load: @Sendable (KeyLoadingRequest) -> Bool
    private let cancel: @Sendable (KeyLoadingRequest) -> Void

    /// `load` says whether it takes the request and finishes it, now or later, once. `onCancel` is called for requests
    /// that it took and that need no answer any more. Both are called on tasks and must not block.
    public init(
        name: String = "callback", onCancel: @escaping @Sendable (KeyLoadingRequest) -> Void = { _ in },
        _ load: @escaping @Sendable (KeyLoadingRequest) -> Bool
    ) {
        self.name = name
        self.load = load
        cancel = onCancel
    }

    /// What the closure says of the request.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { load(request) }
    /// Calls the closure for cancelled requests; nothing waits for it.
    public func didCancel(_ request: KeyLoadingRequest) { cancel(request) }
}
