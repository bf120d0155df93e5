// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySession
public import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// One piece of content that is in the cache, or is to be: its download, and how far it came.
///
/// Made by `ContentCache.item`, which gives the same object for the same URL. `start`, `pause` and `purge` return at once
/// and are done in their order; `progress` and `updates` tell what has become of them. Thread-safe.
public final class CachedItem: Sendable {
    /// What the URL points to.
    public enum Format: String, Sendable, CaseIterable {
        /// A file: PIFF, or MP4. Where its samples are in fragments, the cached duration grows with each.
        case file
        /// A playlist of HTTP Live Streaming.
        case hls
        /// A manifest of DASH.
        case dash
    }

    /// What is going on.
    public enum Status: Hashable, Sendable {
        /// Nothing of it is in the cache.
        case notCached
        /// It waits for the end of another download, or for the machine to wake up.
        case waiting
        /// Its download is under way.
        case caching
        /// A part of it is in the cache.
        case paused
        /// All of it is in the cache.
        case complete
        /// The download ended before its time. What is in the cache stays and plays; `start` goes on from there.
        case failed(CacheError)
    }

    /// How far it came. A value.
    public struct Progress: Hashable, Sendable {
        /// What is going on.
        public var status = Status.notCached
        /// Of the content; nil where that is not known yet.
        public var totalDuration: Duration?
        /// What plays without the network, from the start on: never more than is on disk.
        public var cachedDuration = Duration.zero
        /// On disk, in bytes; parts in the middle that players brought count too.
        public var cachedSize: UInt64 = 0
        /// Whether there is enough for playback to start without the network.
        public var isReadyToPlay = false
        /// What does not end the download: that the index of the item was damaged, and was mended with losses (`damaged`,
        /// since the object was made), or that a key cannot be kept (`licenseNotKept`).
        public var warning: CacheError?

        /// Of what is not cached.
        public init() {}
    }

    enum Command: Sendable {
        case start(KeyStoring?, LicenseStoring?), pause, resume
        case suspend(@Sendable () -> Void)
        case purge(@Sendable (CacheError?) -> Void)
        case refresh(@Sendable () -> Void)
    }

    /// As it is asked for; absolute.
    public let url: String
    /// What it points to.
    public let format: Format
    /// Which tracks are kept.
    public let selection: TrackSelection

    private let state = Mutex(Progress())
    private let broadcast = Broadcast<Progress>(limit: 16, beginningWith: Progress())
    private let commands: AsyncStream<Command>.Continuation
    let operations: ItemOperations

    init(_ record: ItemRecord, _ cache: CacheParts, folder: String) {
        (url, format, selection) = (record.url, record.format, record.selection)
        let (stream, continuation) = AsyncStream.makeStream(of: Command.self)
        commands = continuation
        operations = ItemOperations(record, cache, folder: folder)
        Task { [weak self, operations] in
            await operations.setObserver { [weak self] in self?.didChange($0) }
            for await command in stream { await operations.perform(command) }
        }
    }

    deinit {
        commands.finish()
        broadcast.finish()
    }

    // MARK: Control

    /// Downloads what is missing, as soon as the limit of the cache allows. Goes on where it stopped, also after a crash.
    /// Everything on disk is compared with its digest first. Does nothing if it is under way. Fails with `inUse` if
    /// another process writes to the item.
    ///
    /// `keyStoring` has the keys stored that FairPlay-style key servers give for HLS. A key that is not stored does not end
    /// the download; `Progress.warning` says why, and the item is not ready to play. Nil: no key server is asked.
    /// `licenseStoring` does the same for a license. It is asked before the media is fetched, and once for each download.
    public func start(keyStoring: KeyStoring? = nil, licenseStoring: LicenseStoring? = nil) {
        commands.yield(.start(keyStoring, licenseStoring))
    }

    /// Ends the download; `start` goes on with it.
    public func pause() { commands.yield(.pause) }

    /// Stops the download if it is under way, until `resume`, a `start` or a `pause`.
    func suspend() { commands.yield(.suspend {}) }

    /// `suspend`, and waits until it has stopped.
    func suspendAndWait() async {
        await withCheckedContinuation { continuation in
            let result = commands.yield(.suspend { continuation.resume() })
            if case .terminated = result { continuation.resume() }
        }
    }

    /// Goes on with what `suspend` stopped.
    func resume() { commands.yield(.resume) }

    /// Ends the download and takes all of it off the disk. A playback that is under way goes on from the network. The
    /// status is `notCached` then, or `failed` where the files cannot be removed.
    public func purge() { commands.yield(.purge { _ in }) }

    /// `purge`, and waits for it. Throws `inUse` where another process has the item open, and `notPermitted`.
    public func purgeAndWait() async throws(CacheError) {
        let error = await withCheckedContinuation { continuation in
            let result = commands.yield(.purge { continuation.resume(returning: $0) })
            if case .terminated = result { continuation.resume(returning: nil) }
        }
        if let error { throw error }
    }

    /// Reads the disk again, where what is cached was changed by another process, and returns what there is.
    @discardableResult
    public func refresh() async -> Progress {
        await withCheckedContinuation { continuation in
            let result = commands.yield(.refresh { continuation.resume() })
            if case .terminated = result { continuation.resume() }
        }
        return progress
    }

    /// `refresh`, unless a command has told what there is.
    func refreshIfIdle() async { if progress.status == .notCached { await refresh() } }

    // MARK: Observation

    /// How far it came. Until the first command or `refresh` is done, nothing is known of what is on disk.
    public var progress: Progress { state.withLock { $0 } }

    /// Every change of `progress`, from the present one on. Each listener has a stream of its own; one that does not keep
    /// up misses some, and never the last.
    public var updates: AsyncStream<Progress> { broadcast.stream() }

    private func didChange(_ progress: Progress) {
        let isNew = state.withLock { state in
            defer { state = progress }
            return state != progress
        }
        if isNew { broadcast.send(progress) }
    }
}
