// SPDX-License-Identifier: MPL-2.0

public import LatchkeyOffline
public import LatchkeyKeySession
public import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// Content that is in the cache, or is to be: “Download & Play Offline”, after the Downloadable Agent's manual, section 5.5.
///
/// An `Agent` with the same URL plays it from there. For PIFF and MP4 files at a web server that knows byte ranges, and for
/// HLS and DASH on demand, one variant with its sound (`TrackSelection`). The object may be given up and made again at any
/// time; its download goes on. Thread-safe; the operations return at once, and happen in their order.
///
/// ```swift
/// let content = try CachedContent(url: "https://example.com/film.ismv", type: .piff)
/// content.start()
/// for await progress in content.updates { … }
/// ```
public final class CachedContent: Sendable {
    private let item: CachedItem
    private let configuration: Agent.Configuration
    /// What `resume` goes on with.
    private let licenseStoring = Mutex<LicenseStoring?>(nil)

    /// As it is asked for.
    public var contentURL: String { item.url }
    /// What the URL points to.
    public let type: ContentType

    /// The content with this URL, in the cache or not. `selection` says which tracks to keep, and counts if nothing is cached
    /// yet. `cache` nil: the user's own. The loaders and settings of `configuration` say where to ask for keys that
    /// FairPlay-style key servers give for HLS, so that they are stored with the download.
    ///
    /// Throws `unsupportedContent` for Smooth Streaming, `invalidURL` for what is not at a web server, and `notPermitted` if
    /// there is no place for the cache.
    public convenience init(
        url: String, type: ContentType, selection: TrackSelection = TrackSelection(), cache: ContentCache? = nil,
        configuration: Agent.Configuration = Agent.Configuration()
    ) throws(CacheError) {
        guard let format = type.cacheFormat else {
            throw .unsupportedContent("\(type.name)s cannot be cached", at: url)
        }
        guard URIReference(url).isHTTP else {
            throw CacheError(
                .invalidURL,
                "\(URIReference(url).printable) is no http or https URL, and needs no cache where it is a file")
        }
        let cache = try Self.cache(cache)
        self.init(cache.item(url, format: format, selection: selection), type, configuration, in: cache)
    }

    private init(_ item: CachedItem, _ type: ContentType, _ configuration: Agent.Configuration, in cache: ContentCache)
    {
        self.item = item
        self.type = type
        var configuration = configuration
        configuration.cache = cache
        self.configuration = configuration
    }

    private static func cache(_ given: ContentCache?) throws(CacheError) -> ContentCache {
        guard let cache = given ?? ContentCache.standard else {
            throw CacheError(.notPermitted, "the environment names no folder: set HOME or XDG_DATA_HOME")
        }
        return cache
    }

    /// Everything that is in the cache, as a whole or in part. `configuration` is for their downloads. Throws where the cache
    /// cannot be read.
    public static func allItems(
        in cache: ContentCache? = nil, configuration: Agent.Configuration = Agent.Configuration()
    ) async throws(CacheError) -> [CachedContent] {
        let cache = try Self.cache(cache)
        return try await cache.allItems().map { item in
            CachedContent(item, item.format.contentType(url: item.url), configuration, in: cache)
        }
    }

    // MARK: Control

    /// Starts the download, or goes on with it where it stopped, also after a crash. It begins when the limit of the cache
    /// allows: `status` tells. Downloads do not start by themselves with the application. They stop before the machine
    /// sleeps and go on by themselves when it is awake, if logind tells of that: meanwhile their status is `waiting`.
    ///
    /// Keys of HLS that FairPlay-style key servers give are asked for first, so that they are stored: those that are there
    /// are not asked for again as long as they may be used. If one is not stored, `progress.warning` says why
    /// (`licenseNotKept`), and the content is not ready to play.
    ///
    /// With `acquiresLicense`, PlayReady-style licenses are acquired first if the store has none that may be used, as by
    /// `Agent.acquireLicense(delegate:)` with the `configuration`: with a viewing session for that long if a session server
    /// is configured. One that is refused, or that may not be stored, ends no download: it is a `licenseNotKept` too. Without
    /// `acquiresLicense`, no service is asked, and nothing is said of licenses: the application acquires them, as for any
    /// playback. Going on so forgets a refusal of before.
    public func start(acquiresLicense: Bool = false, delegate: (any PlayReadyDelegate)? = nil) {
        var storing: LicenseStoring?
        if acquiresLicense {
            storing = { [url = item.url, type, configuration] in
                let core = AgentCore(contentURL: url, type: type, configuration: configuration)
                defer { core.release() }
                return await core.storeLicense(delegate)
            }
        }
        licenseStoring.withLock { $0 = storing }
        begin(storing)
    }

    private func begin(_ licenseStoring: LicenseStoring?) {
        if let cache = configuration.cache { SleepingDownloads.include(cache) }
        item.start(keyStoring: configuration.keyStoring, licenseStoring: licenseStoring)
    }

    /// Stops the download; what is cached stays.
    public func pause() { item.pause() }

    /// Goes on with it, as the last `start` of this object said.
    public func resume() { begin(licenseStoring.withLock { $0 }) }

    /// Stops the download and removes everything of the content from the disk, also while it plays: playback goes on from
    /// the network then. Licenses stay. `status` is `notCached` when it is done.
    public func purge() { item.purge() }

    /// `purge`, and waits for it. Throws `inUse` where another process has the content open, and `notPermitted`.
    public func purgeAndWait() async throws(CacheError) { try await item.purgeAndWait() }

    // MARK: Progress

    /// All that follows, at one time. Nothing is known of what is on disk until `refresh`, or the first operation, is done.
    public var progress: CachedItem.Progress { item.progress }

    /// Of the content; nil where that is not known yet.
    public var totalDuration: Duration? { progress.totalDuration }

    /// What plays without the network, from the start on: never more than is on disk, and never more than the total.
    public var cachedDuration: Duration { progress.cachedDuration }

    /// What is going on.
    public var status: CachedItem.Status { progress.status }

    /// Whether enough is cached for playback to start without the network.
    public var isReadyToPlay: Bool { progress.isReadyToPlay }

    /// Every change of the properties, from the present state on. Each listener has a stream of its own.
    public var updates: AsyncStream<CachedItem.Progress> { item.updates }

    /// Looks at the disk, for the first time or again, and returns what is there.
    @discardableResult
    public func refresh() async -> CachedItem.Progress { await item.refresh() }
}

extension Agent.Configuration {
    /// Has keys stored by the loaders that an agent with this configuration would ask.
    fileprivate var keyStoring: KeyStoring {
        let (loaders, settings, file) = (loaders, settings, configurationFile)
        return KeyStoring(loaders: { loaders + ResourceLoaderFactory.default.makeLoaders() }) {
            () throws(KeyError) in
            try AgentSession.settings(settings, file)
        }
    }
}

extension ContentType {
    /// Nil for what cannot be cached.
    var cacheFormat: CachedItem.Format? {
        switch self {
        case .piff, .mp4: .file
        case .hls: .hls
        case .dash: .dash
        case .smoothStreaming: nil
        }
    }
}

extension CachedItem.Format {
    /// A file is PIFF where its name does not say otherwise.
    fileprivate func contentType(url: String) -> ContentType {
        switch self {
        case .file: ContentType(url: url) == .mp4 ? .mp4 : .piff
        case .hls: .hls
        case .dash: .dash
        }
    }
}
