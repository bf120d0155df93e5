// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// What a DASH demuxer has from one start to the next stop. Thread-safe.
final class DASHRun: AdaptiveRun {
    let session: KeySession
    let observation = SessionObservation()
    let origin: PresentationOrigin
    let printableLicenseURL: String?
    var segments: SegmentServer? { state.withLock { $0.segments } }
    let watch = StillnessWatch()
    /// Nil: nothing is left out.
    let choice: KeyChoice?
    private let makePlainSegments: @Sendable (PresentationOrigin) -> SegmentServer?
    private let keys: ManifestKeys
    private let playback: KeyPlayback?
    private let sleep: @Sendable (Duration) async throws -> Void
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    private struct State {
        var segments: SegmentServer?
        /// Media may be encrypted, so it goes through the decryptor of whole ISO media.
        var mayBeProtected = false
        /// The stock demuxer fetches the manifest again. Nil where it could not be read.
        var isDynamic: Bool?
        /// Where the manifest, which is protected, says that its later versions are.
        var location: String?
        /// Of the latest version of the manifest.
        var longestSegment: Duration?
        var qualities: [PictureQuality] = []
        /// The same of the first version, for the choice by keys.
        var alternatives: Set<DASHAlternatives> = []
        /// The init segments that tell what these lack, and what they say.
        var untold: [DASHInitSegment] = []
        var known: [DASHInitSegment: [DASHContentProtection]] = [:]
        /// Of the first Period of the latest version, without what has no keys.
        var audioTracks: [DASHAudioTracks.Track] = []
        var failure: PresentationFailure?
        /// Where to look for keys that later versions of the manifest bring, once something is protected; nil: nowhere, or
        /// the looks have begun.
        var later: LaterVersions?
        var refresh: Task<Void, Never>?
        var hasEnded = false
        /// Says that a later version of the manifest ends the presentation.
        var onFailure: (@Sendable (PresentationFailure) -> Void)?
        /// Says for which keys qualities are left out.
        var onLeftOut: (@Sendable ([KeyID: KeyError]) -> Void)?
    }

    /// The versions of a live manifest behind one that was read.
    private struct LaterVersions {
        let url: String
        let period: Duration

        private static let shortestPeriod: Duration = .seconds(1)
        /// The stock demuxer's own.
        private static let longestPeriod: Duration = .seconds(1800)

        /// Nil where there are none. `source` is what was asked for the manifest, which came from `url`.
        init?(_ manifest: DASHManifest, from url: String, source: String) {
            guard manifest.isDynamic, let period = manifest.minimumUpdatePeriod else { return nil }
            self.url = manifest.location.map { URIReference.resolve($0, against: URIReference(url)) } ?? source
            self.period = min(max(period, Self.shortestPeriod), Self.longestPeriod)
        }
    }

    /// `choice` leaves out what has no keys; nil: nothing is. `playback`: of the pipeline, whose decryptors hear of the license
    /// services that the manifest names. `makeSegments` gives what serves segments to the stock demuxer; nil: it fetches them
    /// itself. `makePlainSegments` gives the same for protected media, and where later versions of the manifest are changed. `sleep`
    /// waits for a length of time, or throws when the task is cancelled. `now` is the time that `sleep` is part of.
    init(
        shared: SharedSession, choice: KeyChoice? = nil, playback: KeyPlayback? = nil,
        transport: any HTTPTransport = CurlTransport.shared,
        makeSegments: (PresentationOrigin) throws(AdaptiveStartFailure) -> SegmentServer? = { _ in nil },
        makePlainSegments: @escaping @Sendable (PresentationOrigin) -> SegmentServer? = { _ in nil },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) throws(AdaptiveStartFailure) {
        session = shared.session
        self.choice = choice
        keys = ManifestKeys(
            session: shared.session, keySystem: shared.settings.keySystem, playback: playback)
        self.playback = playback
        printableLicenseURL = shared.settings.licenseURL.map { HTTPRequest(url: $0).printableURL }
        origin = PresentationOrigin(transport: transport)
        self.makePlainSegments = makePlainSegments
        let segments = try makeSegments(origin)
        state.withLock { $0.segments = segments }
        self.sleep = sleep
        self.now = now
    }

    func didObserve() { if let id = observation.id { keys.setObserver(id) } }

    /// What the stock demuxer has to choose from.
    var qualities: [PictureQuality] { state.withLock { $0.qualities } }

    var audioTracks: [DASHAudioTracks.Track] { state.withLock { $0.audioTracks } }

    var mayBeProtected: Bool { state.withLock { $0.mayBeProtected } }

    /// Called if a later version of the manifest is one that no player should read.
    func onFailure(_ body: @escaping @Sendable (PresentationFailure) -> Void) {
        state.withLock { $0.onFailure = body }
    }

    /// What was wrong with the manifest, which the stock demuxer got all the same. Once.
    func takeFailure() -> PresentationFailure? {
        state.withLock { state in
            defer { state.failure = nil }
            return state.failure
        } ?? segments?.takeFailure()
    }

    /// Reads the manifest that came from `url`, and starts the requests for its keys. `source` is its URL before redirects; nil:
    /// there were none.
    ///
    /// A manifest that is not well-formed still goes to the stock demuxer, which is the one that plays it. Throws for
    /// what no player takes, and for what would take the stock demuxer more memory than a player should give.
    func start(_ bytes: [UInt8], from url: String, source: String? = nil) throws(PresentationFailure) {
        origin.setHome(url, source: source)
        do throws(FormatError) {
            let manifest = try DASHManifest(bytes, from: choice == nil ? nil : url)
            let later = LaterVersions(manifest, from: url, source: source ?? url)
            state.withLock {
                $0.later = later
                if choice != nil { ($0.alternatives, $0.untold) = (manifest.alternatives, manifest.untold) }
            }
            ask(for: manifest, from: url)
            // Half a period ahead of the stock demuxer, which fetches for itself when a period is over: so that keys are
            // asked for before it wants them, and a manifest that grows is told of before it takes that in.
            if manifest.isProtected, let later { refresh(in: later.period / 2) }
        } catch {
            let failure = PresentationFailure.manifest(error, at: url)
            if error.isForNobody { throw failure }
            DASHDemuxer.log.log(.warning, nil, failure.text)
            playback?.note(
                manifestFailure:
                    "what the manifest \(HTTPRequest(url: url).printableURL) says of keys is not known: \(error)")
            // It may be live.
            watch.setOpenEnded()
            state.withLock {
                $0.mayBeProtected = true
                $0.failure = failure
            }
        }
    }

    /// Whether the choice among qualities depends on keys that only init segments tell.
    var hasUntoldKeys: Bool { state.withLock { !$0.untold.isEmpty } }

    /// Looks for the keys of the manifest that `start` has read in its init segments, and starts the requests for them. What
    /// cannot be had in time is left to the stock demuxer, which fetches it too.
    func findKeys(_ bytes: [UInt8], from url: String) async {
        let places = state.withLock { $0.untold }
        let known = await KeyChoice.looks(at: places, sleep: sleep) { [self] place in
            await initSegment(place).map { DASHInitSegment.protections(of: $0) }
        }
        guard !Task.isCancelled, !known.isEmpty, let manifest = try? DASHManifest(bytes, from: url, known: known)
        else { return }
        let isNew = state.withLock { state in
            if !state.hasEnded { (state.known, state.alternatives) = (known, manifest.alternatives) }
            return !state.hasEnded
        }
        guard isNew else { return }
        demand(manifest, from: url)
        // The others as a decryptor asks: nothing that the key system could use says more of them.
        let keyIDs = places.flatMap { known[$0] ?? [] }.flatMap(\.defaultKeyIDs)
        keys.demand(keyIDs, mediaURL: url, cookies: origin.cookies)
    }

    private func initSegment(_ place: DASHInitSegment) async -> InitSegment? {
        // What a server says names no files.
        guard URIReference(place.url).isHTTP || origin.isLocal,
            let bytes = try? await origin.bytes(.initSegment, place.url, range: place.byteRange)
        else { return nil }
        return InitSegment(startOf: bytes)
    }

    /// The keys that the choice among qualities depends on, in the manifest that `start` has read.
    var decidingKeyIDs: Set<KeyID> {
        state.withLock { $0.alternatives.reduce(into: []) { $0.formUnion($1.deciding) } }
    }

    /// Called with the keys for which something is left out.
    func onLeftOut(_ body: @escaping @Sendable ([KeyID: KeyError]) -> Void) { state.withLock { $0.onLeftOut = body } }

    /// A version of the manifest without what has no keys, and the keys for which something is left out.
    private struct Chosen {
        var bytes: [UInt8]
        var leftOut: [KeyID: KeyError]
    }

    /// Nil where all is kept.
    private func chosen(_ bytes: [UInt8], _ alternatives: Set<DASHAlternatives>) -> Chosen? {
        guard let choice else { return nil }
        // A key may be for pictures and sound, and its license for one of these.
        let refusals = alternatives.reduce(into: [DASHAlternatives: [KeyID: KeyError]]()) { refusals, one in
            refusals[one] = choice.refusals(of: one.deciding, for: one.media)
        }
        let refused = refusals.mapValues { Set($0.keys) }
        guard let kept = (try? DASHManifest.leavingOut(refused, in: bytes)) ?? nil else { return nil }
        let leftOut = refused.reduce(into: [KeyID: KeyError]()) { leftOut, one in
            for keyID in one.key.keyIDs(leftOutFor: one.value) { leftOut[keyID] = refusals[one.key]?[keyID] }
        }
        return Chosen(bytes: kept, leftOut: leftOut)
    }

    /// A later version of the manifest without what has no keys. These were asked for before.
    private func chosenLater(_ bytes: [UInt8], from url: String) -> [UInt8] {
        let known = state.withLock { $0.known }
        guard choice != nil,
            let manifest = try? DASHManifest(bytes, from: known.isEmpty ? nil : url, known: known),
            let chosen = chosen(bytes, manifest.alternatives)
        else { return bytes }
        tell(chosen)
        return chosen.bytes
    }

    private func tell(_ chosen: Chosen) { state.withLock { $0.onLeftOut }?(chosen.leftOut) }

    /// What the stock demuxer gets of the manifest that `start` has read, without what has no keys, and where it is to fetch
    /// later versions; nil: from where it came. `source` is the manifest's URL before redirects.
    ///
    /// `isOrdered`: the audio track of the name `audioTrack` is in front of the others, as it will be in later versions. Where
    /// those come from the origin itself, all tracks stay where they are.
    func handedOn(
        _ bytes: [UInt8], from url: String, source: String, audioTrack: String? = nil
    ) -> (bytes: [UInt8], laterURL: String?, isOrdered: Bool) {
        let (isDynamic, location, longestSegment, alternatives) = state.withLock { state in
            defer { state.alternatives = [] }
            return (state.isDynamic, state.location, state.longestSegment, state.alternatives)
        }
        var bytes = bytes
        if let chosen = chosen(bytes, alternatives) {
            tell(chosen)
            bytes = chosen.bytes
            if let kept = try? DASHManifest(bytes) { state.withLock { $0.audioTracks = kept.audioTracks } }
        }
        let ordered = Self.ordered(bytes, audioTrack)
        // Later versions need this order. And the stock demuxer would keep cookies of its own: before GStreamer 1.28 none of
        // those that segments set, and the manifest's for every host. Before 1.26, it fetches no files either.
        // A cache has the cookies itself.
        if isDynamic != nil, mayBeProtected || isDynamic == true && ordered != bytes,
            !LoopbackServer.waitsForNetwork(at: source)
        {
            serveSegments()
        }
        segments?.setHome(source)
        if let segments, let isDynamic {
            if let routed = segments.routed(ordered, from: url) {
                segments.didHandOut()
                guard isDynamic else { return (routed, nil, true) }
                let isLocal = origin.isLocal
                let laterURL = segments.serveManifest(location ?? source, longestSegment: longestSegment) {
                    [weak self, weak segments] response in
                    // What a server says names no files.
                    if isLocal, URIReference(response.url).filePath == nil { return nil }
                    let chosen = self?.chosenLater(response.body, from: response.url) ?? response.body
                    return segments?.routed(Self.ordered(chosen, audioTrack), from: response.url)
                }
                return (routed, laterURL, true)
            }
            DASHDemuxer.log.log(.info, nil, "The manifest is of a kind whose media GStreamer's demuxer has to fetch.")
        }
        if isDynamic == false { return (ordered, nil, true) }
        let located = Self.located(bytes, from: url, at: location)
        return (located.bytes, located.laterURL, false)
    }

    private static func ordered(_ bytes: [UInt8], _ audioTrack: String?) -> [UInt8] {
        audioTrack.flatMap { DASHAudioTracks.manifest(bytes, withFirst: $0) } ?? bytes
    }

    /// Has the presentation come through this process. Where that cannot be, the stock demuxer fetches it.
    private func serveSegments() {
        guard segments == nil, let server = makePlainSegments(origin) else { return }
        state.withLock { if !$0.hasEnded { $0.segments = server } }
    }

    /// The stock demuxer takes no notice of `Location`, so it is told where to fetch later versions: each request of the
    /// first URL may open a session at the server. What it fetches relative to that place must be the same.
    private static func located(
        _ bytes: [UInt8], from url: String, at location: String?
    ) -> (bytes: [UInt8], laterURL: String?) {
        guard let location, URIReference(location).isHTTP else { return (bytes, nil) }
        let folders = [url, location].map { URIReference.resolve(".", against: URIReference($0)) }
        if folders[0] == folders[1] { return (bytes, location) }
        guard let routed = (try? DASHManifest.routed(bytes, from: url) { $0 }) ?? nil else { return (bytes, nil) }
        return (routed, location)
    }

    private func ask(for manifest: DASHManifest, from url: String) {
        // Protection that ends does not matter to media that is there already.
        state.withLock {
            $0.mayBeProtected = $0.mayBeProtected || manifest.isProtected
            $0.longestSegment = manifest.longestSegment
            $0.qualities = manifest.qualities
            $0.audioTracks = manifest.audioTracks
            if manifest.isProtected, manifest.location != nil {
                $0.location = LaterVersions(manifest, from: url, source: url)?.url
            }
            $0.isDynamic = manifest.isDynamic
        }
        if let location = state.withLock({ $0.location }) { segments?.manifestDidMove(to: location) }
        if manifest.isDynamic { watch.setOpenEnded() }
        for flaw in manifest.flaws { DASHDemuxer.log.log(.warning, nil, "In the manifest, \(flaw).") }
        keys.noteChecksums(in: manifest.keyGroups { $0.first { $0 == .playReady } })
        demand(manifest, from: url)
    }

    private func demand(_ manifest: DASHManifest, from url: String) {
        keys.demand(manifest.keyGroups(choose: keys.choose), origin: "dash/mpd", mediaURL: url, cookies: origin.cookies)
    }

    // MARK: Live

    /// Media is encrypted, of which the manifest that was read here says nothing. A later version may.
    func encryptionDidAppear() {
        state.withLock { $0.mayBeProtected = true }
        refresh(in: .zero)
    }

    /// Looks at each new version of the manifest for keys that it brings, until the end, at most once a second, after
    /// `delay` for the first time. The limits of the first version hold for all of them. Clear manifests are the stock
    /// demuxer's matter alone.
    private func refresh(in delay: Duration) {
        let first = state.withLock { state in
            defer { state.later = nil }
            return state.later
        }
        guard let first else { return }
        let task = Task { [weak self, sleep, now] in
            var later = first
            var due = now() + delay
            while !Task.isCancelled {
                do {
                    try await sleep(now().duration(to: due))
                } catch {
                    return
                }
                guard let run = self else { return }
                let period = later.period
                do throws(PresentationFailure) {
                    if let (new, url) = try await run.fetch(later.url) {
                        run.ask(for: new, from: url)
                        guard let next = LaterVersions(new, from: url, source: later.url) else { return }
                        later = next
                    }
                } catch {
                    return run.fail(error)
                }
                // The stock demuxer, too, waits for the old period once more.
                due += min(period, later.period)
                // Times that a slow server made pass are left out.
                let late = due.duration(to: now())
                if late > .zero { due += later.period * Int((late / later.period).rounded(.up)) }
            }
        }
        let isLate = state.withLock { state -> Bool in
            if !state.hasEnded { state.refresh = task }
            return state.hasEnded
        }
        if isLate { task.cancel() }
    }

    /// The manifest, and where it came from. Nil where it cannot be had or read: the stock demuxer says so, which fetches it
    /// too. Throws for what is too much for any reader.
    private func fetch(_ url: String) async throws(PresentationFailure) -> (manifest: DASHManifest, url: String)? {
        let response: HTTPResponse
        do throws(PresentationFailure) {
            response = try await origin.response(.manifest, url)
        } catch {
            if error.isFinal { throw error }
            return nil
        }
        guard response.status == 200 else { return nil }
        do throws(FormatError) {
            return (try DASHManifest(response.body), response.url)
        } catch {
            if error.isForNobody { throw .manifest(error, at: url) }
            return nil
        }
    }

    private func fail(_ failure: PresentationFailure) {
        let body = state.withLock { $0.hasEnded ? nil : $0.onFailure }
        body?(failure)
    }

    func end() {
        let refresh = state.withLock { state in
            state.hasEnded = true
            state.onFailure = nil
            state.onLeftOut = nil
            return state.refresh
        }
        refresh?.cancel()
        segments?.close()
        observation.end()
    }
}

extension SegmentServer {
    /// The manifest with its media here; nil where that cannot be.
    fileprivate func routed(_ manifest: [UInt8], from url: String) -> [UInt8]? {
        (try? DASHManifest.routed(manifest, from: url) { self.route($0) }) ?? nil
    }
}

extension FormatError {
    /// Whether no reader should take the manifest: it is too large, or tries to do harm.
    fileprivate var isForNobody: Bool { isSameKind(as: .unsupported("")) || isSameKind(as: .tooLarge("")) }
}

extension PresentationFailure {
    /// A manifest that is none, or one that no player should read.
    static func manifest(_ error: FormatError, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .format, text: "The manifest \(HTTPRequest(url: url).printableURL) cannot be used: \(error).",
            advice: "Check what the server sends under that URL.")
    }
}

extension DASHManifest {
    /// What to ask for early. Media whose manifest has nothing that a request could be made of is not in it: its own
    /// boxes may have more.
    package func keyGroups(choose: ([ProtectionSystem]) -> ProtectionSystem?) -> [ManifestKeyGroup] {
        struct Kind: Hashable {
            var system: ProtectionSystem
            var boxes: [PSSHBox]
            var licenseURLs: [String]
        }
        var groups: [ManifestKeyGroup] = []
        // Many parts of a manifest repeat the same data: it is read once, and each KID counts once.
        var places: [Kind: Int] = [:]
        var known: [Set<KeyID>] = []
        func add(_ keyIDs: some Sequence<KeyID>, to place: Int) {
            // Zeros stand for keys that sample groups name.
            for keyID in keyIDs
            where !keyID.isZero && known[place].count < ManifestKeys.limit && known[place].insert(keyID).inserted {
                groups[place].keyIDs.append(keyID)
            }
        }
        var servicesInData: [[PSSHBox]: Bool] = [:]
        func hasService(in boxes: [PSSHBox]) -> Bool {
            if let found = servicesInData[boxes] { return found }
            let found = boxes.contains { $0.playReadyHeader?.details.licenseAcquisitionURL != nil }
            servicesInData[boxes] = found
            return found
        }
        for protection in protections {
            // Boxes that belong to no system's descriptor are for those that have none themselves.
            let common = protection.descriptors.filter { $0.scheme == .commonEncryption }.map(\.protectionBoxes)
            var withData = Set(common.joined().map(\.system))
            for case (let descriptor, .system(let system)) in protection.descriptors.map({ ($0, $0.scheme) })
            where !withData.contains(system) && !descriptor.systemBoxes.isEmpty {
                withData.insert(system)
            }
            // KIDs are enough for ClearKey.
            let askable = (protection.systems + common.joined().map(\.system)).filter {
                KeySystem($0) == .clearKey || withData.contains($0)
            }
            guard let system = choose(askable) else { continue }
            // ClearKey has two names, and packagers write data below one and the URL below the other. What stands further
            // inside goes before what it inherits.
            func isSame(_ other: ProtectionSystem) -> Bool {
                other == system || KeySystem(system).map { KeySystem(other) == $0 } == true
            }
            func isPeer(_ descriptor: DASHContentProtection) -> Bool {
                if case .system(let other) = descriptor.scheme { isSame(other) } else { false }
            }
            let peers = protection.descriptors.filter(isPeer)
            let own = peers.last { !$0.systemBoxes.isEmpty }?.systemBoxes
            let boxes = own ?? common.map { boxes in boxes.filter { isSame($0.system) } }.last { !$0.isEmpty } ?? []
            let innermostFirst = protection.innermostFirst
            var named = innermostFirst.filter(isPeer).flatMap(\.licenseURLs)
            if named.isEmpty {
                // What is named for no system in particular is for those that name none themselves.
                named = innermostFirst.filter { $0.scheme == .commonEncryption }.flatMap(\.licenseURLs)
                if !named.isEmpty, hasService(in: boxes) { named = [] }
            }
            var licenseURLs: [String] = []
            for url in named
            where licenseURLs.count < ManifestKeys.serviceLimit && !licenseURLs.contains(url) {
                licenseURLs.append(url)
            }
            let keyDescriptors = protection.keyDescriptors
            let kind = Kind(system: system, boxes: boxes, licenseURLs: licenseURLs)
            let place = places[kind] ?? groups.count
            if place == groups.count {
                places[kind] = place
                known.append([])
                groups.append(
                    ManifestKeyGroup(
                        system: system, keyIDs: [], boxes: boxes, licenseURL: licenseURLs.first,
                        otherURLs: Array(licenseURLs.dropFirst()), media: protection.media))
                add(boxes.flatMap(\.namedKeyIDs), to: place)
                // Others may be inherited, for keys that are asked for elsewhere.
                if keyDescriptors.isEmpty {
                    for descriptor in peers { add(descriptor.systemBoxes.flatMap(\.namedKeyIDs), to: place) }
                }
            } else if groups[place].media != protection.media {
                groups[place].media = nil
            }
            for descriptor in keyDescriptors { add(descriptor.defaultKeyIDs, to: place) }
        }
        return groups
    }
}

extension PSSHBox {
    fileprivate var namedKeyIDs: [KeyID] {
        keyIDs.isEmpty ? playReadyHeader?.keys.map(\.keyID) ?? [] : keyIDs
    }

    fileprivate var playReadyHeader: WRMHeader? {
        guard system == .playReady else { return nil }
        return (try? PlayReadyObject(initializationData: data).header()) ?? nil
    }
}
