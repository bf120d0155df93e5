// SPDX-License-Identifier: MPL-2.0

/// A loader made of closures. Thread-safe; it keeps the closures as long as it lives.
public final class CallbackLoader: ResourceLoader {
    /// Names the loader in error texts.
    public let name: String
    private let load: @Sendable (KeyLoadingRequest) -> Bool
    private let cancel: @Sendable (KeyLoadingRequest) -> Void

    /// `load` says whether it takes the request and finishes it, now or later, once. `onCancel` hears of requests that
    /// it took and that need no answer any more. Both are called on tasks and must not block.
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
