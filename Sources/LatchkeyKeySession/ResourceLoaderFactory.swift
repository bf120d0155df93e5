// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// What an application registers once for all sessions that it does not make itself: those of pipelines.
///
/// One call is enough, as TVSDK's `registerPTAVAssetResourceLoader` is:
///
/// ```swift
/// ResourceLoaderFactory.default.register(MyLoader())
/// ```
///
/// Sessions that begin later use it; those that are there keep what they have (`KeySession.addLoader` is for one
/// session). Registered loaders are asked before those of the configuration file. Thread-safe.
public final class ResourceLoaderFactory: Sendable {
    /// The one that pipelines of this process use.
    public static let `default` = ResourceLoaderFactory()

    private struct Maker {
        /// Nil where each session gets a loader of its own.
        let loader: (any ResourceLoader)?
        let make: @Sendable () -> any ResourceLoader
    }

    private struct State {
        var makers: [Maker] = []
        var configuration = KeySessionConfiguration()
    }

    private let state = Mutex(State())

    /// An empty one, beside `default`: for tests, and for a host with several applications.
    public init() {}

    /// Gives this loader to every session that begins from now on.
    public func register(_ loader: any ResourceLoader) {
        state.withLock { $0.makers.append(Maker(loader: loader) { loader }) }
    }

    /// Gives this loader to no session that begins from now on; those that are there keep it. False where it is not
    /// registered.
    @discardableResult
    public func unregister(_ loader: any ResourceLoader) -> Bool {
        // The caller has a reference: the loader does not go under the lock.
        state.withLock { state in
            guard let index = state.makers.firstIndex(where: { $0.loader === loader }) else { return false }
            state.makers.remove(at: index)
            return true
        }
    }

    /// Gives every session that begins from now on a loader of its own. `make` is called on any thread; it must not
    /// block.
    public func register(_ make: @escaping @Sendable () -> any ResourceLoader) {
        state.withLock { $0.makers.append(Maker(loader: nil, make: make)) }
    }

    /// Forgets every loader and the configuration. Sessions that are there keep theirs.
    public func reset() {
        // Loaders go after the lock: the end of one may call this object.
        let last = state.withLock { state in
            defer { state = State() }
            return state
        }
        withExtendedLifetime(last) {}
    }

    /// What sessions that begin from now on are made with: the key payload provider, the device's secret and so on.
    public var configuration: KeySessionConfiguration {
        get { state.withLock(\.configuration) }
        set { state.withLock { $0.configuration = newValue } }
    }

    /// The loaders for a new session, in the order in which they were registered.
    public func makeLoaders() -> [any ResourceLoader] {
        // Outside the lock: a maker may call this object.
        state.withLock(\.makers).map { $0.make() }
    }
}
