// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// Where one decryptor's keys come from, from one start to the next stop: its properties, then the shared session.
///
/// Thread-safe: events ask for keys on the upstream thread while samples do on the source pad's.
final class KeySources: Sendable {
    let session: KeySession
    private let ownKeys: StaticKeys
    /// The KID that stands for the key of media that names none.
    let namedKeyID: KeyID?
    /// In nanoseconds; nil: for ever.
    let timeout: UInt64?
    private let loaders: [any ResourceLoader]
    private let plays = PlayNotes()
    private let keySystem: KeySystem?
    /// A FairPlay-style key server is named, and nothing to make a request with.
    private let lacksCertificate: Bool
    /// The configured license service, without user name and query, for the application.
    let printableLicenseURL: String?
    /// The element, as an observer of the session.
    private let observer: UInt64
    /// Failures up to here belong to an earlier run and may be asked again.
    private let startGeneration: UInt64
    /// Refusals are those of the whole pipeline.
    let pipeline: KeyPlayback
    /// Where the stream comes from, as far as it is known. Asked on the streaming thread.
    private let streamURL: @Sendable () -> String?
    /// Why pictures of a key with rules for these may not leave the element; nil where they may.
    private let openRoute: @Sendable (KeyID?) -> KeyError?
    /// Whether the pipeline is to play what it prerolls.
    private let isAskedToPlay: @Sendable () -> Bool
    /// Hears of keys that contradict the checksum of a PlayReady header.
    private let onWrongKey: @Sendable (KeyID) -> Void
    private let state = Mutex(State())
    /// Nil where no session server counts what is played.
    private let playback: PlaybackUse?
    /// The element has keys of its own, which are not those of a license that is stored.
    private let hasOwnKeys: Bool

    private struct State {
        var capsSystem: ProtectionSystem?
        var initializationData: [InitializationData] = []
        /// KIDs that were asked for in one request with others, before a sample needed them. Where the answer has not all
        /// of the keys, there was none to ask, or the refusal may be for a key that nothing uses, the first sample may ask
        /// again for its own.
        var prefetchedWithOthers: Set<KeyID> = []
        var retryGenerations: [KeyID: UInt64] = [:]
        var played = PlayedKeys()
        /// The key of the samples that were decrypted last.
        var current: KeyID??
    }

    /// At most this many pieces of initialization data are kept: a stream that rotates keys brings new ones for ever.
    private static let initializationDataLimit = 64
    /// KIDs beyond this number are asked for when a sample needs them.
    private static let prefetchLimit = 4096

    init(
        settings: DecryptorSettings, shared: SharedSession, playback pipeline: KeyPlayback, observer: UInt64,
        streamURL: @escaping @Sendable () -> String? = { nil },
        openRoute: @escaping @Sendable (KeyID?) -> KeyError? = { _ in nil },
        isAskedToPlay: @escaping @Sendable () -> Bool = { false },
        onWrongKey: @escaping @Sendable (KeyID) -> Void = { _ in }
    ) throws(KeyError) {
        self.streamURL = streamURL
        self.openRoute = openRoute
        self.isAskedToPlay = isAskedToPlay
        self.onWrongKey = onWrongKey
        session = shared.session
        self.pipeline = pipeline
        namedKeyID = settings.keyURI.map { shared.session.keyID(forURI: $0) }
        self.observer = observer
        startGeneration = shared.session.generation
        keySystem = try Configuration.keySystem(settings.keySystem) ?? shared.settings.keySystem
        printableLicenseURL = (settings.licenseURL ?? shared.settings.licenseURL).map {
            HTTPRequest(url: $0).printableURL
        }
        let timeout =
            settings.keyTimeout.map { .milliseconds(Int64($0)) } ?? shared.settings.keyTimeout
            ?? .milliseconds(Int64(DecryptorSettings.defaultKeyTimeout))
        self.timeout = timeout > .zero ? timeout.nanoseconds : nil
        let listed = try settings.keys.map { keys throws(KeyError) in try keys.get() }
        let filed = try settings.keysFile.map { path throws(KeyError) in try StaticKeys.read(path: path) }
        let listedKeys = StaticKeys(entries: (filed?.entries ?? []) + (listed?.entries ?? []))
        hasOwnKeys = !listedKeys.entries.isEmpty
        playback = shared.session.beginPlayback()
        playback?.onPauseLimit(isAskedToPlay: isAskedToPlay)
        // What a session server counts, and what is closed when a debugger looks into the process, goes through the session,
        // also if the key is here.
        let areOwn = playback == nil && !shared.session.isWatched
        ownKeys = areOwn ? listedKeys : StaticKeys(entries: [])
        var own = shared.settings
        own.keysFile = nil
        own.licenseURL = settings.licenseURL
        own.keySystem = keySystem
        // The configured headers may hold credentials, and those are for the configured service.
        if own.licenseURL != shared.settings.licenseURL {
            own.httpHeaders = []
            own.fairPlay?.service.headers = []
            own.fairPlay?.service.parameters = [:]
            own.playReady?.headers = []
        }
        own.fairPlay?.service.url = nil
        lacksCertificate = keySystem == .fairPlay && settings.licenseURL != nil && own.fairPlay == nil
        // Without a key system the service is a Clear Key one.
        if keySystem == .playReady { own.playReady?.licenseURL = nil } else { own.playReady = nil }
        let transport = shared.session.transport(over: CurlTransport.shared)
        loaders =
            (areOwn || listedKeys.entries.isEmpty ? [] : [StaticKeyLoader(listedKeys)])
            + (settings.licenseURL == nil ? [] : own.makeLoaders(transport: transport))
    }

    /// The element stops: the last one that does ends the viewing session.
    func end() { playback?.end() }

    var hasViewingSession: Bool { playback != nil }

    /// Whether the viewing session was ended for a pause.
    var isReleased: Bool { session.viewing?.isReleased ?? false }

    deinit { session.endUse(by: observer) }

    /// The stream's caps name this system.
    func setCapsSystem(_ system: ProtectionSystem?) { state.withLock { $0.capsSystem = system } }

    /// The key as the element's properties have it: by KID, or by the URI that a playlist names it by.
    private func ownKey(for keyID: KeyID?) -> ContentKey? {
        guard !ownKeys.entries.isEmpty else { return nil }
        guard let keyID else { return ownKeys.keyWithoutID }
        if let key = ownKeys.key(for: keyID) { return key }
        return session.keyURI(of: keyID).flatMap { ownKeys.key(forURI: $0) ?? ownKeys.keyWithoutID }
    }

    /// The key as the element's properties or the session have it now.
    func status(of keyID: KeyID?) -> KeyStatus {
        if let own = ownKey(for: keyID) { return .usable(own) }
        let status = session.status(of: keyID)
        guard case .failed(let error, let generation) = status else { return status }
        let current = session.generation
        let limit = error.isRefusal ? pipeline.startGeneration : startGeneration
        let isFinal =
            error.isRefusal
            && keyID.map { keyID in
                (!error.isSameKind(as: .keyNotInResponse("")) || session.failedWithoutAny(keyID))
                    && !session.failedWithUnused(keyID)
            } ?? true
        let mayAskAgain = state.withLock { state -> Bool in
            guard let keyID else { return generation <= limit }
            if state.prefetchedWithOthers.remove(keyID) != nil, !isFinal, pipeline.mayAskAlone(keyID) {
                state.retryGenerations[keyID] = current
            }
            return generation <= state.retryGenerations[keyID] ?? limit
        }
        return mayAskAgain ? .absent : status
    }

    /// Why the license of the session's key allows no output for this medium, or the outputs that there are, or this place
    /// in the pipeline; nil where it does. Who guards the outputs knows of the key when this returns.
    func refusal(of keyID: KeyID?, for media: OutputPolicy.Media) -> KeyError? {
        guard ownKey(for: keyID) == nil else {
            _ = session.beginUse(of: nil, for: media, by: observer)
            return nil
        }
        return session.refusal(of: keyID, for: media, by: observer, openRoute: openRoute)
    }

    /// What may be done with a key that is there.
    enum Permission {
        case play
        /// One sample may be decrypted, for preroll.
        case look
        /// The first play has to be written down before: the session tells when it is, or why it cannot be.
        case wait
    }

    /// A sample of this key is about to be decrypted: called for the first one, again after keys changed, and for each while
    /// it is for preroll only.
    func use(_ keyID: KeyID?) -> Permission {
        let isPlaying = state.withLock { $0.played.use(keyID) }
        if ownKey(for: keyID) == nil, session.awaitsFirstPlay(keyID) {
            if !isPlaying, !isAskedToPlay(), state.withLock({ $0.played.look() }) { return .look }
            guard session.mayPlay(keyID) else { return .wait }
        }
        if isPlaying { didStartPlaying(keyID) }
        return .play
    }

    /// What comes next is of another position.
    func didFlush() { state.withLock { $0.played.didFlush() } }

    /// Compares a key, when it is there, with what the content's headers say of it.
    func check(_ key: ContentKey, of keyID: KeyID?) {
        if let keyID, session.contradicts(key, keyID) { onWrongKey(keyID) }
    }

    /// The element begins or ceases to play.
    func setPlaying(_ isPlaying: Bool) {
        playback?.setPlaying(isPlaying)
        for keyID in state.withLock({ $0.played.setPlaying(isPlaying) }) { didStartPlaying(keyID) }
    }

    /// From now on samples are of this key.
    func change(to keyID: KeyID?) { state.withLock { $0.current = keyID } }

    /// The key of the samples now; nil before the first.
    var current: KeyID?? { state.withLock { $0.current } }

    /// New keys are there. What was decrypted last may be in queues further down, and nothing comes before these have
    /// room: the lease that has just begun is in use.
    func keysDidCome(_ keyIDs: [KeyID]) {
        guard let current = state.withLock({ $0.current }) else { return }
        let isAmongThem = current.map(keyIDs.contains) ?? keyIDs.isEmpty
        if isAmongThem { _ = session.status(of: current) }
    }

    private func didStartPlaying(_ keyID: KeyID?) {
        // What the pipeline's properties give has no license.
        guard ownKey(for: keyID) == nil else { return }
        session.didStartPlaying(keyID)
        let (loaders, session) = (loaders, session)
        guard !loaders.isEmpty else { return }
        plays.add {
            for loader in loaders {
                loader.didStartPlaying(keyID, in: session)
                await loader.finishNotingPlays()
            }
        }
    }

    /// Waits, for a short time, until first plays are written down.
    func waitForPlayNotes() { PlayNotes.wait(for: [plays, session.unwrittenPlays]) }

    /// Starts a request for the key of a sample, unless it is under way. Never blocks. `media`: what it is for; nil: not known.
    func demand(_ keyID: KeyID?, for media: OutputPolicy.Media? = nil) {
        let (data, system, retry) = state.withLock { state in
            (state.initializationData, state.capsSystem, keyID.flatMap { state.retryGenerations[$0] })
        }
        let wanted = wantedSystem(system)
        let fitting = data.filter { item in
            guard let wanted, let itemSystem = item.system else { return true }
            return KeySystem(itemSystem) == wanted
        }
        demand(keyID.map { [$0] } ?? [], system: wanted, data: fitting, for: media, retryFailuresUpTo: retry)
    }

    /// The configured one, that of the caps, or that of the license service which the manifest names.
    private func wantedSystem(_ ofCaps: ProtectionSystem?) -> KeySystem? {
        keySystem ?? ofCaps.flatMap { KeySystem($0) } ?? pipeline.licensePlace(for: nil, nil)?.keySystem
    }

    /// Starts the request for the keys that a protection event names, and tells which. Never blocks.
    ///
    /// Nothing is asked for data of a key system that is not this element's. `willDemand` hears of the KIDs first.
    func prefetch(_ protection: Event.Protection, usedKeyIDs: [KeyID] = [], willDemand: ([KeyID]) -> Void) {
        let data = InitializationData(
            system: ProtectionSystem(uuid: protection.systemID), bytes: protection.data, origin: protection.origin)
        let (isNew, capsSystem) = state.withLock { state -> (Bool, ProtectionSystem?) in
            guard !state.initializationData.contains(data) else { return (false, nil) }
            if state.initializationData.count >= Self.initializationDataLimit { state.initializationData.removeFirst() }
            state.initializationData.append(data)
            return (true, state.capsSystem)
        }
        if isNew {
            session.noteChecksums(of: [data])
            session.noteUse(of: usedKeyIDs.isEmpty ? data.keyIDs : usedKeyIDs)
        }
        let dataSystem = data.system.flatMap { KeySystem($0) }
        let wanted = wantedSystem(capsSystem)
        guard isNew, data.system == nil || wanted == nil || dataSystem == wanted else { return }
        let areAllWanted = usedKeyIDs.isEmpty || !session.prefetchesUsedKeysOnly
        let missing = data.keyIDs.filter { ownKey(for: $0) == nil && (areAllWanted || usedKeyIDs.contains($0)) }
        guard !missing.isEmpty else { return }
        let isWithinLimit = state.withLock { state -> Bool in
            guard state.prefetchedWithOthers.count + missing.count <= Self.prefetchLimit else { return false }
            if missing.count > 1 { state.prefetchedWithOthers.formUnion(missing) }
            return true
        }
        guard isWithinLimit else { return }
        willDemand(missing)
        demand(missing, system: wanted ?? dataSystem, data: [data])
    }

    private func demand(
        _ keyIDs: [KeyID], system: KeySystem?, data: [InitializationData], for media: OutputPolicy.Media? = nil,
        retryFailuresUpTo generation: UInt64? = nil
    ) {
        let streamURL = streamURL()
        let mediaURL = pipeline.manifestURL ?? streamURL
        // The pipeline may play a manifest in a file first, and then a file at a server.
        let isRemote = streamURL.map { URIReference($0).isHTTP } ?? false
        let playsFiles = !isRemote && (pipeline.playsFiles ?? mediaURL.map(ViewingPermit.isFile) ?? false)
        playback?.setPlaysFile(!hasOwnKeys && playsFiles)
        let place = pipeline.licensePlace(for: system, media)
        var demand = KeyDemand(
            keyIDs: keyIDs, keySystem: system ?? place?.keySystem, initializationData: data, suggestedURL: place?.url,
            mediaURL: mediaURL, loaders: loaders,
            retryFailuresUpTo: generation ?? startGeneration, origin: observer)
        demand.retryRefusalsUpTo = generation ?? pipeline.startGeneration
        demand.otherURLs = place?.others ?? []
        demand.cookies = pipeline.cookies
        session.demand(demand)
    }

    /// How long a request that no loader takes waits for the application, in nanoseconds; nil: without an end. If the manifest
    /// could not be read, this is mostly why, and is said soon.
    var untakenTimeout: UInt64? {
        timeout.map { pipeline.manifestFailure == nil ? $0 / 3 : min($0 / 3, Self.unreadManifestTimeout) }
    }

    private static let unreadManifestTimeout: UInt64 = 1_000_000_000

    /// Ends the request for a key that did not come in time.
    func timeOut(_ keyID: KeyID?, after waited: UInt64, isUntaken: Bool) -> DecryptorFailure {
        let certificate =
            lacksCertificate
            ? "; for license-url to be asked, [fairplay] in the configuration file has to name the application certificate"
            : ""
        let hint = certificate + (pipeline.manifestFailure.map { "; \($0)" } ?? "")
        let waited = Duration.nanoseconds(Int64(clamping: waited))
        let error = KeyError.late(after: waited, isUntaken: isUntaken, hint: hint)
        switch session.status(of: keyID) {
        case .pending(let requestID): session.fail(requestID: requestID, with: error)
        case .usable where session.awaitsFirstPlay(keyID): return .key(keyID, .unwrittenPlay(after: waited))
        case .usable, .absent, .failed: break
        }
        return .key(keyID, error)
    }
}

extension KeyError {
    static func unwrittenPlay(after waited: Duration) -> KeyError {
        .timedOut("its first play is not written down after \(waited); the license store is busy")
    }
}

extension KeySession {
    /// Why the license of a key allows no output for this medium, or the outputs that there are, or this place in the
    /// pipeline; nil if it does. `openRoute` says why pictures of a key with rules for these may not leave `user`. What
    /// guards the outputs knows of the key when this returns.
    func refusal(
        of keyID: KeyID?, for media: OutputPolicy.Media, by user: UInt64, openRoute: (KeyID?) -> KeyError?
    ) -> KeyError? {
        if let error = refusal(of: keyID, for: media) { return error }
        // Without any guard, the session says so.
        let isAsked = media == .video && isGuarded && hasOutputRules(for: keyID, of: media)
        if isAsked, let error = openRoute(keyID) { return error }
        if let error = beginUse(of: keyID, for: media, by: user) { return error }
        // The first guard may have joined since, or the rules have come.
        guard media == .video, !isAsked, hasOutputRules(for: keyID, of: media) else { return nil }
        return openRoute(keyID)
    }
}

extension Duration {
    /// Whole nanoseconds; none for a negative duration.
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        return UInt64(seconds) &* 1_000_000_000 &+ UInt64(attoseconds) / 1_000_000_000
    }
}

/// The ciphers of one stream, one for each key, made once. Belongs to the stream's thread.
struct KeyRing {
    enum Lookup {
        case usable(SampleCipher)
        case missing
        case failed(DecryptorFailure)
    }

    /// A license may allow outputs for one medium and not for the other.
    private struct Use: Hashable {
        let keyID: KeyID?
        let media: OutputPolicy.Media
    }

    private struct Entry {
        let use: Use
        let cipher: SampleCipher
        let key: ContentKey
        let initializationVector: InitializationVector?
        /// For playing, and not for one sample: the next one has to be asked for again.
        let isKept: Bool
    }

    let sources: KeySources
    private var entries: [Use: Entry] = [:]
    private var revision: UInt64
    private var last: Entry? {
        didSet {
            if let last, last.use.keyID != oldValue?.use.keyID || oldValue == nil { sources.change(to: last.use.keyID) }
        }
    }

    /// The IV that came with the key that was found last, for media that has none.
    var initializationVector: InitializationVector? { last?.initializationVector }

    /// The key that was found last, for who decrypts elsewhere.
    var key: ContentKey? { last?.key }

    init(_ sources: KeySources) {
        self.sources = sources
        revision = sources.session.revision
    }

    private static let warnOnce: Void = Decryptor.log.log(
        .warning, nil,
        "The kernel does not lock the memory of keys, so that they may be swapped out: raise RLIMIT_MEMLOCK.")

    /// `media` is what is decrypted. What may hold pictures is video. `hasBegun`: the key was found a moment ago, for the same
    /// bytes, and may have been for preroll then.
    mutating func cipher(for keyID: KeyID?, of media: OutputPolicy.Media, hasBegun: Bool = false) -> Lookup {
        let use = Use(keyID: keyID, media: media)
        let current = sources.session.revision
        if current != revision {
            // A key may have been withdrawn: look at every one again.
            revision = current
            entries.removeAll(keepingCapacity: true)
            last = nil
        } else if let last, last.isKept, last.use == use {
            return .usable(last.cipher)
        }
        if let known = entries[use], known.isKept {
            // The stream comes back to a key: the guards of the outputs have to know.
            if sources.session.isGuarded, let error = sources.refusal(of: keyID, for: media) {
                return .failed(.key(keyID, error))
            }
            last = known
            return .usable(known.cipher)
        }
        switch sources.status(of: keyID) {
        case .usable(let key):
            if !key.isLocked { Self.warnOnce }
            if let error = sources.refusal(of: keyID, for: media) { return .failed(.key(keyID, error)) }
            let permission = sources.use(keyID)
            // The key may have failed since its status was read, as it does if its first play cannot be written down.
            guard sources.session.revision == current else { return cipher(for: keyID, of: media, hasBegun: hasBegun) }
            guard permission != .wait || hasBegun else { return .missing }
            if permission != .play, let known = entries[use], known.key == key {
                last = known
                return .usable(known.cipher)
            }
            do {
                let entry = Entry(
                    use: use, cipher: try SampleCipher(key: key), key: key,
                    initializationVector: key.initializationVector, isKept: permission == .play)
                entries[use] = entry
                last = entry
                sources.check(key, of: keyID)
                return .usable(entry.cipher)
            } catch {
                return .failed(.cipher("\(error)", keyID))
            }
        case .failed(let error, _): return .failed(.key(keyID, error))
        case .absent, .pending: return .missing
        }
    }
}
