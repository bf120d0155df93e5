// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// The keys of one presentation: names them, asks for them early, and waits for those that are needed here. Thread-safe.
final class HLSKeys: Sendable {
    let session: KeySession
    private let timeout: Duration
    private let startGeneration: UInt64
    private let observer = Atomic<UInt64>(0)
    private let waiting = Atomic<Int>(0)
    private let media = Mutex<(url: String, cookies: CookieStore)?>(nil)
    private let uses = Mutex(Uses())
    /// Who waits for a key, by their observations.
    private let waits = Mutex<[UInt64: AsyncStream<Void>.Continuation]>([:])
    /// Why pictures of a key with rules for these may not leave the demuxer; nil if they may.
    private let openRoute: @Sendable (KeyID?) -> KeyError?
    /// Whether the pipeline is to play what it prerolls.
    private let isAskedToPlay: @Sendable () -> Bool
    /// Hears of keys that contradict the checksum of a PlayReady header.
    private let onWrongKey: @Sendable (KeyID) -> Void

    /// What was decrypted here.
    private struct Uses {
        /// A stream that rotates keys brings new ones for ever.
        static let limit = 16_384
        /// Its keys, each with the session's revision at which its use was told.
        var revisions: [KeyID: UInt64] = [:]
        var played = PlayedKeys()
    }

    /// `timeout` is how long `contentKey(for:)` waits.
    init(
        session: KeySession, timeout: Duration, openRoute: @escaping @Sendable (KeyID?) -> KeyError? = { _ in nil },
        isAskedToPlay: @escaping @Sendable () -> Bool = { false },
        onWrongKey: @escaping @Sendable (KeyID) -> Void = { _ in }
    ) {
        self.session = session
        self.timeout = timeout
        self.openRoute = openRoute
        self.isAskedToPlay = isAskedToPlay
        self.onWrongKey = onWrongKey
        startGeneration = session.generation
    }

    deinit { session.endUse(by: observer.load(ordering: .acquiring)) }

    /// Whose requests these are: the id of the demuxer's observation.
    func setObserver(_ id: UInt64) { observer.store(id, ordering: .releasing) }

    /// Where the first playlist came from.
    func setMediaURL(_ url: String, cookies: CookieStore) { media.withLock { $0 = (url, cookies) } }

    /// The KID that stands for the key. `mediaKeyID` is what the media has beside it.
    func keyID(of key: HLSKey, mediaKeyID: KeyID? = nil) -> KeyID {
        session.keyID(forURI: named(key).uri ?? "", mediaKeyID: mediaKeyID ?? key.keyID)
    }

    /// The `data:` URIs of what has the size of a key, and of what has not, as everybody else knows them.
    fileprivate static let (sizedData, otherData) = (KeySession.keyInURI, "data:;size=other,")

    /// The key as everybody else knows it. A `data:` URI of the format `identity` has the key in it, so it is replaced by
    /// one that only says whether the size is that of a key: names go into media, messages and logs.
    func named(_ key: HLSKey) -> HLSKey {
        guard let uri = key.dataURI else { return key }
        var named = key
        var bytes = DataURI(uri)?.bytes ?? []
        defer { wipe(&bytes) }
        // Hasher has a secret of the process in it.
        let halves = [UInt8(0), 1].map { half in
            var hasher = Hasher()
            hasher.combine(half)
            hasher.combine(uri)
            return UInt64(bitPattern: Int64(hasher.finalize()))
        }
        let start = bytes.count == ContentKey.size ? Self.sizedData : Self.otherData
        named.uri = start + KeyID(high: halves[0], low: halves[1]).description
        return named
    }

    /// Whether the key stands in the playlist itself and is usable now.
    private func install(_ key: HLSKey, as keyID: KeyID) -> Bool {
        guard let uri = key.dataURI else { return false }
        if case .usable = session.status(of: keyID) { return true }
        guard var bytes = DataURI(uri)?.bytes else { return false }
        defer { wipe(&bytes) }
        // Shaka Packager writes the KID where it was given no URI of the key. An init segment with that KID came before.
        if let mediaKeyID = KeyID(bytes), session.keyURI(of: mediaKeyID) == named(key).uri { return false }
        guard let contentKey = ContentKey(bytes) else { return false }
        session.install([keyID: contentKey])
        return true
    }

    /// Whether the key is there. It counts as in use then.
    func isUsable(_ key: HLSKey) -> Bool { session.isAtHand(keyID(of: key)) }

    /// Whether a request waits for a key.
    var isAwaited: Bool { waiting.load(ordering: .acquiring) > 0 }

    /// Asks for the key, unless it is there or was asked for. `keyID` is what `keyID(of:mediaKeyID:)` gave. A key that
    /// stands in the playlist itself is there at once.
    func demand(_ key: HLSKey, as keyID: KeyID? = nil) {
        let keyID = keyID ?? self.keyID(of: key)
        if install(key, as: keyID) {
            // Asks no loader for a key that is there, but the session server whether it may be used.
            session.demand(KeyDemand(keyIDs: [keyID], retryFailuresUpTo: startGeneration))
            return
        }
        let box = named(key).initializationData(keyID: keyID)
        let data = InitializationData(system: box.system, bytes: box.serialized() ?? [], origin: "hls/m3u8")
        // A key at its own URI is no matter of a license service.
        let isIdentity = key.keyFormat == HLSKeyFormat.identity.name
        demand(keyID, of: isIdentity ? nil : KeySystem(box.system), data)
    }

    /// Asks for the key that opens an envelope, unless it is there or was asked for. `object` is what the envelope has in
    /// front.
    func demand(_ keyID: KeyID, of object: PlayReadyObject) {
        let bytes = (try? object.serialized()) ?? []
        let data = InitializationData(system: .playReady, bytes: bytes, origin: "hls/envelope")
        let details = (try? object.header())?.details
        demand(keyID, of: .playReady, data, at: details?.licenseAcquisitionURL)
    }

    private func demand(_ keyID: KeyID, of system: KeySystem?, _ data: InitializationData, at url: String? = nil) {
        let media = media.withLock(\.self)
        var demand = KeyDemand(
            keyIDs: [keyID], keySystem: system, initializationData: [data], suggestedURL: url, mediaURL: media?.url,
            retryFailuresUpTo: startGeneration, origin: observer.load(ordering: .acquiring))
        demand.cookies = media?.cookies
        session.demand(demand)
    }

    /// The key itself, for what is decrypted here. Waits for it.
    func contentKey(for key: HLSKey) async throws(HLSFailure) -> ContentKey {
        try await contentKey({ keyID(of: key) }, called: key.description) { demand(key) }
    }

    /// The key that opens an envelope, for what is decrypted here. Waits for it.
    func contentKey(_ keyID: KeyID, of object: PlayReadyObject) async throws(HLSFailure) -> ContentKey {
        try await contentKey({ keyID }, called: "KID \(keyID)") { demand(keyID, of: object) }
    }

    /// Asks for a key that a decryptor in the pipeline uses, and waits for it as long as `isNeeded`, which is asked
    /// again after `lookAgain`.
    func wait(for key: HLSKey, while isNeeded: () -> Bool = { true }) async throws(HLSFailure) {
        guard isNeeded() else { return demand(key) }
        _ = try await usableKey({ keyID(of: key) }, called: key.description, { demand(key) }, isNeeded: isNeeded)
    }

    /// The same for the key of an envelope.
    func wait(
        for keyID: KeyID, of object: PlayReadyObject, while isNeeded: () -> Bool = { true }
    ) async throws(HLSFailure) {
        guard isNeeded() else { return demand(keyID, of: object) }
        _ = try await usableKey(
            { keyID }, called: "KID \(keyID)", { demand(keyID, of: object) }, isNeeded: isNeeded)
    }

    /// Has those who wait for a key look whether it is still needed.
    func lookAgain() {
        for signal in waits.withLock({ Array($0.values) }) { signal.yield() }
    }

    /// Waits until the requests for these keys are answered. Each gets as long as a stream waits for a key, from `start` on,
    /// and fails then; after `limit`, the wait ends without that.
    func waitForAnswers(to keys: [HLSKey], from start: ContinuousClock.Instant, limit: Duration? = nil) async {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        let end = limit.map { limit in
            Task {
                try? await Task.sleep(for: limit)
                signal.finish()
            }
        }
        var alarm: Task<Void, Never>?
        waiting.add(1, ordering: .acquiringAndReleasing)
        defer {
            waiting.subtract(1, ordering: .acquiringAndReleasing)
            observation.cancel()
            end?.cancel()
            alarm?.cancel()
        }
        signal.yield()
        for await _ in changes {
            // An init segment may bring other names.
            let keyIDs = keys.map { keyID(of: $0) }
            guard let left = session.timeToAnswer(of: keyIDs, from: start, limit: timeout) else { return }
            alarm?.cancel()
            alarm = Task {
                guard (try? await Task.sleep(for: left)) != nil else { return }
                signal.yield()
            }
        }
    }

    private func contentKey(
        _ identify: () -> KeyID, called name: String, _ demand: () -> Void
    ) async throws(HLSFailure) -> ContentKey {
        let found = try await usableKey(identify, called: name, demand) { (keyID: KeyID) throws(HLSFailure) -> Bool in
            // Segments that are decrypted here may have pictures and sound.
            let user = observer.load(ordering: .acquiring)
            for media in [OutputPolicy.Media.video, .audio] {
                if let error = session.refusal(of: keyID, for: media, by: user, openRoute: openRoute) {
                    throw .key(name, error)
                }
            }
            // The first play may have to be written down before.
            guard session.awaitsFirstPlay(keyID) else { return true }
            let isAskedToPlay = isAskedToPlay()
            let mayLook = uses.withLock { uses in
                !uses.played.isPlaying && !isAskedToPlay && uses.played.look(limit: PlayedKeys.segmentLimit)
            }
            return mayLook || session.mayPlay(keyID)
        }
        guard let (keyID, key) = found else { throw .key(name, .cancelled("the key is not needed any more")) }
        use(key, keyID)
        return key
    }

    /// Something is about to be decrypted with the key. That is told once, and again after keys changed: the license may be
    /// another one.
    private func use(_ key: ContentKey, _ keyID: KeyID) {
        let revision = session.revision
        let (isNew, isPlayed) = uses.withLock { uses -> (Bool, Bool) in
            guard uses.revisions[keyID] != revision else { return (false, false) }
            if uses.revisions.count >= Uses.limit { uses.revisions = [:] }
            uses.revisions[keyID] = revision
            return (true, uses.played.use(keyID))
        }
        if isNew, session.contradicts(key, keyID) { onWrongKey(keyID) }
        if isPlayed { session.didStartPlaying(keyID) }
    }

    /// A segment was decrypted as a whole, in so many nanoseconds.
    func logDecryption(at url: String, bytes: UInt64, time: UInt64) {
        session.logDecryption("decryption, \(HTTPRequest(url: url).printableURL): \(bytes) bytes in \(time / 1000) µs")
    }

    /// Whether something was decrypted here with one of these keys.
    func hasUsed(_ keyIDs: [KeyID]) -> Bool {
        uses.withLock { uses in keyIDs.contains { uses.revisions[$0] != nil } }
    }

    /// The pipeline begins or ceases to play.
    func setPlaying(_ isPlaying: Bool) {
        for keyID in uses.withLock({ $0.played.setPlaying(isPlaying) }) { session.didStartPlaying(keyID) }
    }

    /// The key and the KID that stands for it, which `identify` tells anew each time: an init segment may bring another one. Nil
    /// if the key is not needed any more. `mayUse` is asked about a key that is there, again after each event of the session.
    private func usableKey(
        _ identify: () -> KeyID, called name: String, _ demand: () -> Void,
        mayUse: (KeyID) throws(HLSFailure) -> Bool = { _ in true }, isNeeded: () -> Bool = { true }
    ) async throws(HLSFailure) -> (keyID: KeyID, key: ContentKey)? {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        waits.withLock { $0[observation.id] = signal }
        let alarm = Task {
            try? await Task.sleep(for: timeout)
            signal.finish()
        }
        defer {
            observation.cancel()
            waits.withLock { $0[observation.id] = nil }
            alarm.cancel()
        }
        waiting.add(1, ordering: .acquiringAndReleasing)
        defer { waiting.subtract(1, ordering: .acquiringAndReleasing) }
        demand()
        signal.yield()
        for await _ in changes {
            guard isNeeded() else { return nil }
            let keyID = identify()
            switch session.status(of: keyID) {
            case .usable(let contentKey):
                // It may have failed meanwhile, as it does if its first play cannot be written down.
                if try mayUse(keyID), case .usable = session.status(of: keyID) { return (keyID, contentKey) }
            case .failed(let error, _): throw .key(name, error)
            // It was there when it was asked for, and its lease was over before it was used.
            case .absent: if !Task.isCancelled { demand() }
            case .pending: continue
            }
        }
        let keyID = identify()
        let isUnwritten = if case .usable = session.status(of: keyID) { session.awaitsFirstPlay(keyID) } else { false }
        throw .key(name, isUnwritten ? .unwrittenPlay(after: timeout) : .timedOut("no answer in \(timeout)"))
    }
}

extension HLSKey {
    /// The URI that has the key in it, of the format `identity` alone: those of other formats have initialization data.
    fileprivate var dataURI: String? {
        guard keyFormat == HLSKeyFormat.identity.name, let uri, DataURI.isOne(uri) else { return nil }
        return uri
    }
}

extension HLSKeys {
    /// An init segment as the decryptors in the pipeline need it: it names the key of the playlist by the KID that
    /// the session knows it by, and brings no initialization data: the key is asked for here, and for such data the stock
    /// demuxer's parser looks through GStreamer's whole registry again and again.
    func prepare(_ bytes: [UInt8], _ protection: HLSInitSegment.Protection) throws(FormatError) -> [UInt8] {
        switch protection {
        case .unchanged:
            // Workaround (GStreamer <1.26): the stock demuxer waits for ever behind one that is none.
            try InitSegment.check(bytes)
            return bytes
        case .key(let key):
            let segment = try InitSegment(bytes)
            try Self.checkEncryption(of: segment, by: key)
            let keyIDs = keyIDs(of: segment, under: key)
            let distinct = Set(keyIDs.values).sorted { $0.description < $1.description }
            for keyID in distinct { demand(key, as: keyID) }
            return try segment.rewriting(keyIDs: keyIDs, protectionBoxes: [], removesOthers: true)
        case .clear(let key):
            let segment = try InitSegment(bytes)
            let key = key ?? HLSKey(method: .sampleAES, uri: "")
            let keyID = keyID(of: key)
            return try segment.markingProtected(
                scheme: key.method.scheme ?? .cbcs, keyID: keyID, protectionBoxes: [])
        }
    }
}

extension HLSKeys {
    /// For each track with an encryption. If that says that samples are clear, groups of them may be encrypted all the same.
    private func keyIDs(of segment: InitSegment, under key: HLSKey) -> [UInt32: KeyID] {
        let tracks = segment.tracks.filter { !$0.encryptions.isEmpty }
        let mediaKeyIDs = tracks.map { $0.isProtected ? $0.encryption?.keyID : nil }
        // All are told before one is read: each may replace a KID that was made for another track.
        for mediaKeyID in mediaKeyIDs { _ = keyID(of: key, mediaKeyID: mediaKeyID) }
        return zip(tracks, mediaKeyIDs).reduce(into: [:]) { keyIDs, track in
            keyIDs[track.0.id] = keyID(of: key, mediaKeyID: track.1)
        }
    }

    /// Throws where nothing in the section says how the samples are encrypted: they would go on as they are. Text may be
    /// clear.
    private static func checkEncryption(of segment: InitSegment, by key: HLSKey) throws(FormatError) {
        let media = segment.tracks.filter { $0.handler == "vide" || $0.handler == "soun" }
        guard media.isEmpty || segment.tracks.contains(where: { !$0.encryptions.isEmpty }) else {
            throw .malformed(
                "the playlist says METHOD=\(key.method.name.prefix(40)), and no sample entry of the section says that "
                    + "samples are encrypted")
        }
    }
}

/// Fetches keys of the KEYFORMAT `identity`: the 16 bytes at the key's own URI (RFC 8216, 4.3.2.4). Asked after all other
/// loaders, so that an application can answer such requests too. An error of the server, or a connection that fails, may pass:
/// then it asks again, up to three times. A refusal is final. Tracks may have KIDs of their own beside one URI: it is asked for
/// once for all of them, unless the server is busy (408, 425, 429).
final class IdentityKeyLoader: ResourceLoader {
    /// Before it asks again.
    static let pauses: [Duration] = [.milliseconds(250), .milliseconds(500), .seconds(1)]

    let name = "key at its URI"
    private weak let origin: HLSOrigin?
    private let fetches = Mutex<[String: Fetch]>([:])
    /// How long elements wait for a key: then it asks no more.
    private let timeout: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let sleep: @Sendable (Duration) async throws -> Void

    /// What is asked for at a URI, or was refused there.
    private struct Fetch {
        /// Those that wait for the answer.
        var requests: [KeyLoadingRequest] = []
        var refusal: Refusal?
    }

    /// To ask again for another KID changes nothing in the same playback. One that has this answer comes again with another.
    private struct Refusal {
        let error: KeyError
        /// Of what the keys were demanded by.
        let origin: UInt64
        var keyIDs: Set<KeyID>

        func holds(for request: KeyLoadingRequest) -> Bool {
            request.origin == origin && keyIDs.isDisjoint(with: request.keyIDs)
        }
    }

    /// A live playlist may name URIs for ever.
    private static let fetchLimit = 1024

    init(
        origin: HLSOrigin, timeout: Duration, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        (self.origin, self.timeout, self.now, self.sleep) = (origin, timeout, now, sleep)
    }

    /// Before it asks a server for a key, a presentation in files waits for the viewing session.
    var needsNoNetwork: Bool { origin?.isLocal == true }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard let origin, let key = Self.key(in: request), let uri = key.uri else { return false }
        if DataURI.isOne(uri) {
            // One with a key is no matter of a request, so this one has the KID, and the key may come from elsewhere.
            guard uri.hasPrefix(HLSKeys.otherData) else { return false }
            request.finishLoading(
                with: .malformedResponse("the data: URI of the key in the playlist has no \(ContentKey.size) bytes"))
            return true
        }
        let isRemote = URIReference(uri).isHTTP
        guard isRemote || origin.isLocal && Self.mayReadFile(uri, for: request) else { return false }
        let (isFirst, refusal) = fetches.withLock { fetches -> (Bool, KeyError?) in
            if let refusal = fetches[uri]?.refusal, refusal.holds(for: request) {
                fetches[uri]?.refusal?.keyIDs.formUnion(request.keyIDs)
                return (false, refusal.error)
            }
            var fetch = fetches[uri] ?? Fetch()
            fetch.refusal = nil
            fetch.requests.append(request)
            fetches[uri] = fetch
            return (fetch.requests.count == 1, nil)
        }
        if let refusal { request.finishLoading(with: refusal) }
        guard isFirst else { return true }
        Task {
            if isRemote, origin.isLocal {
                do throws(KeyError) {
                    try await request.establishViewing()
                } catch {
                    for request in end(uri) { request.finishLoading(with: error) }
                    return
                }
            }
            do throws(HLSFailure) {
                var bytes = try await bytes(at: uri, of: origin)
                ContentKey.removeLineEnd(behind: &bytes)
                let count = bytes.count
                let key = ContentKey(bytes)
                wipe(&bytes)
                guard let key else {
                    throw .media("key", at: uri, "it has \(count) bytes and not \(ContentKey.size)")
                }
                for request in end(uri) { request.finishLoading(with: .key(key)) }
            } catch {
                let failure = Self.keyError(error)
                // A server that is busy may have time for the next.
                let isFinal = !error.mayPass && !error.isBusy
                let refusal = isFinal ? Refusal(error: failure, origin: request.origin, keyIDs: []) : nil
                for request in end(uri, refusal) { request.finishLoading(with: failure) }
            }
        }
        return true
    }

    /// The answer is there. Returns those that wait for it.
    private func end(_ uri: String, _ refusal: Refusal? = nil) -> [KeyLoadingRequest] {
        fetches.withLock { fetches -> [KeyLoadingRequest] in
            let requests = fetches.removeValue(forKey: uri)?.requests ?? []
            if var refusal, fetches.count < Self.fetchLimit {
                refusal.keyIDs = Set(requests.flatMap(\.keyIDs))
                fetches[uri] = Fetch(refusal: refusal)
            }
            return requests
        }
    }

    private func isWanted(_ uri: String) -> Bool {
        fetches.withLock { $0[uri]?.requests ?? [] }.contains { !$0.isFinished }
    }

    private func bytes(at uri: String, of origin: HLSOrigin) async throws(HLSFailure) -> [UInt8] {
        let end = now() + timeout
        var pauses = Self.pauses[...]
        while true {
            do throws(HLSFailure) {
                return try await origin.bytes(.key, uri)
            } catch {
                guard error.mayPass, let pause = pauses.popFirst(), now() + pause < end,
                    (try? await sleep(pause)) != nil, isWanted(uri)
                else { throw error }
            }
        }
    }

    /// The session offers a loader the requests of other presentations too: those at servers may not name files.
    private static func mayReadFile(_ uri: String, for request: KeyLoadingRequest) -> Bool {
        URIReference(uri).filePath != nil && request.mediaURL.map { URIReference($0).filePath != nil } == true
    }

    private static func keyError(_ failure: HLSFailure) -> KeyError {
        // The texts of failures are sentences, and a reason stands within one.
        let text = failure.text.hasSuffix(".") ? String(failure.text.dropLast()) : failure.text
        return switch (failure.cause, failure.kind) {
        case (.status, _): .serverStatus(text)
        case (_, .format), (.foreign, _): .malformedResponse(text)
        default: .network(text)
        }
    }

    private static func key(in request: KeyLoadingRequest) -> HLSKey? {
        for data in request.initializationData {
            for box in PSSHBox.readableBoxes(in: data.bytes) {
                if let key = HLSKey.key(in: box), key.keyFormat == HLSKeyFormat.identity.name,
                    key.uri == request.keyURI
                {
                    return key
                }
            }
        }
        return nil
    }
}
