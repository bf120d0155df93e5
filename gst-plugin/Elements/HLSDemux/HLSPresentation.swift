// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// One presentation while it plays: rewrites its playlists and answers the loopback requests of the stock demuxer.
/// Thread-safe.
final class HLSPresentation: Sendable {
    let origin: HLSOrigin
    let keys: HLSKeys
    let table: HLSResourceTable
    let segments: AnnouncedSegments
    let answers = HLSAnswers()
    private let relayedAnswers = RelayedAnswers()
    let watch = StillnessWatch()
    let manifestThread = ManifestThread()
    let state: Mutex<State>
    /// Held by the one thread that rewrites a playlist, which may take long: so `state` is not. Taken before `state`, and never by
    /// a stop. Tasks wait in `turns` first, so that they block no thread.
    let turn = Mutex(())
    let turns = HLSTurns()
    private let keyFormats: [HLSKeyFormat]
    private let keyLimit: Int
    /// Workaround (GStreamer <1.28): of several audio tracks of one language, the stock demuxer has the first in its
    /// collection, and plays the last in its place.
    private let takesLanguagesForTracks = Environment.gstreamerVersion.minor < 28
    private let envelopes: HLSEnvelopes
    private let outputLevel: @Sendable () -> OutputRequirement
    /// Nil: no variant is left out for its keys.
    let choice: KeyChoice?
    /// Hears of the keys for which variants are left out.
    let onLeftOut: @Sendable ([KeyID: KeyError]) -> Void
    /// Hears that the stock demuxer is to play another variant; nil: any.
    let onDeparture: @Sendable (HLSVariantChoice.Departure?) -> Void
    /// Hears of each playlist of a presentation that is a file, whether it names media in files alone.
    private let onFiles: @Sendable (Bool) -> Void
    /// What is fetched again where the network fails; nil: the stock demuxer decides.
    let relay: SegmentRelay?
    /// `relay`, or one that tries once. Protected segments come through it: what the stock demuxer fetches itself lacks fields
    /// of the source element, and before GStreamer 1.28 the cookies that segments set.
    private let segmentRelay: SegmentRelay

    struct State {
        var servers: PresentationServers?
        var rewriters: [String: HLSPlaylistRewriter] = [:]
        /// What the playlists take of memory.
        var budget = HLSPlaylistBudget()
        var variables: [String: String] = [:]
        var sessionKeys: [HLSKey] = []
        /// The playlists of the sound, by those of the variants.
        var defaultAudio: [String: String] = [:]
        /// Hash values of what was prepared before it was asked for, each once. Names of keys are up to 64 KiB each, so they are
        /// not kept. Two with the same value cost one answer that is not prepared.
        var prepared: Set<Int> = []
        var qualities: [PictureQuality] = []
        /// What the master playlist names each playlist for.
        var roles: [String: HLSRewriting.Child.Role] = [:]
        /// Those of playlists with encrypted samples.
        var encryptedRoles: Set<HLSRewriting.Child.Role> = []
        var timeline = HLSTimeline()
        var schedule = HLSKeySchedule()
        var variants = HLSVariantChoice()
        /// When the first answer was waited for, and the playlists for whose keys that was done.
        var choiceStart: ContinuousClock.Instant?
        var awaited: Set<String> = []
        /// The keys for which variants are left that played. Told when another one plays.
        var departed: [KeyID: KeyError] = [:]
        /// Something came out of the stock demuxer.
        var hasOutput = false
        /// A playlist that is here already: the first one, for the first request.
        var first: HTTPResponse?
        /// The playlist of the variant that the master playlist has first.
        var firstVariant: String?
        /// Segments are announced by notes, so that an element must read them.
        var hasNotes = false
        var hasProtectedInitSegments = false
        /// A playlist's segments are in envelopes, and so are those of all others then.
        var isEnveloped = false
        var requestCount = 0
        /// The presentation's URL.
        var home = ""
        /// The audio track that is to play, by name or language; nil: the default.
        var audioTrack: String?
        var audioTracks: [HLSAudioTracks.Track] = []
        var failure: HLSFailure?
        /// The last key that was right for a whole segment.
        var provenKey: HLSKey?
        /// What to say if the stock demuxer finds no media in a segment that is decrypted with another key.
        var doubt: HLSFailure?
        /// Says that the presentation cannot go on, once.
        var onFailure: (@Sendable (HLSFailure) -> Void)?
        var hasFailed = false
        /// An element in the stock demuxer has posted an error.
        var hasErrorInside = false
        /// Nil where the stock demuxer plays on behind such segments.
        var absent = AbsentSegments.isNeeded() ? AbsentSegments() : nil
        /// Playlists whose segments have other numbers than at the origin.
        var numberedAnew: Set<String> = []
        /// Playlists that were refused, as the demuxer stops.
        var refused: Set<String> = []
        /// One of them was refused twice.
        var isAskedAgain = false
    }

    /// `outputLevel` says what the outputs have, for the choice of variants. `choice` leaves out those whose keys may not be
    /// used, and `onLeftOut` hears of these. `onDeparture` hears that one is to be left that plays. Segments come through `relay`,
    /// and all is asked for as long as it tries; or, if that is nil, through `plainRelay`, which waits for no outage.
    init(
        origin: HLSOrigin, keys: HLSKeys, keyFormats: [HLSKeyFormat], envelopes: EnvelopeParsers = EnvelopeParsers(),
        relay: SegmentRelay? = nil, plainRelay: SegmentRelay? = nil, keyLimit: Int = HLSPlaylist.defaultKeyLimit,
        memoryLimit: Int = HLSPlaylist.defaultMemoryLimit,
        outputLevel: @escaping @Sendable () -> OutputRequirement = { .unprotected }, choice: KeyChoice? = nil,
        onLeftOut: @escaping @Sendable ([KeyID: KeyError]) -> Void = { _ in },
        onDeparture: @escaping @Sendable (HLSVariantChoice.Departure?) -> Void = { _ in },
        onFiles: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.outputLevel = outputLevel
        self.choice = choice
        self.onLeftOut = onLeftOut
        self.onDeparture = onDeparture
        self.onFiles = onFiles
        self.envelopes = HLSEnvelopes(parsers: envelopes, origin: origin, keys: keys)
        table = HLSResourceTable()
        segments = AnnouncedSegments(table, watch.output)
        self.origin = origin
        self.relay = relay
        segmentRelay = relay ?? plainRelay ?? SegmentRelay(origin, limit: .zero) { _ in }
        self.keys = keys
        self.keyFormats = keyFormats
        self.keyLimit = keyLimit
        state = Mutex(State(budget: HLSPlaylistBudget(limit: memoryLimit)))
    }

    /// Opens the loopback servers. `onFailure` hears, once, of what ends the presentation and what the stock demuxer would
    /// try again for ever.
    func open(onFailure: @escaping @Sendable (HLSFailure) -> Void) throws(HTTPError) {
        let servers = try PresentationServers(
            sharesFirst: true, quick: { [weak self] in self?.quickAnswer($0) }
        ) { [weak self] request in
            await self?.answer(request) ?? .notFound
        }
        state.withLock {
            $0.servers = servers
            $0.onFailure = onFailure
        }
    }

    /// Looks from now on whether the stock demuxer stops in silence, with `look`.
    func beginWatch(_ look: @escaping @Sendable () -> Void) {
        guard let servers = state.withLock({ $0.servers }) else { return }
        watch.begin(
            own: { [weak self, table] url in
                guard let path = servers.path(in: url) else { return nil }
                let resource = table.resource(String(path.prefix { $0 != "." && $0 != "?" }))
                if case .playlist(let url) = resource { return .playlist(isRefresh: self?.watch.isLive(url) ?? false) }
                return .segment(url: resource?.originURL ?? url)
            },
            onAnswer: { [weak self] answer in
                if let failure = self?.segments.flaw(of: answer) { self?.fail(failure) }
            }, look: look)
    }

    func fail(_ failure: HLSFailure) {
        let body = state.withLock { state -> (@Sendable (HLSFailure) -> Void)? in
            guard !state.hasFailed, state.servers != nil else { return nil }
            state.hasFailed = true
            return state.onFailure
        }
        body?(failure)
    }

    /// An element in the stock demuxer has posted an error.
    func errorDidAppearInside() { state.withLock { $0.hasErrorInside = true } }
    var hasErrorInside: Bool { state.withLock { $0.hasErrorInside } }

    /// Whether the failure that ended the presentation was told.
    var hasFailed: Bool { state.withLock { $0.hasFailed } }

    /// Answers everything that the stock demuxer still waits for, at once. The ports stay open: the demuxer does not take
    /// broken connections well.
    func end() {
        watch.end()
        answers.end()
        relayedAnswers.end()
    }

    /// Closes the ports.
    func close() {
        end()
        let servers = state.withLock { state in
            defer { state.servers = nil }
            return state.servers
        }
        segments.close()
        servers?.close()
    }

    deinit { close() }

    // MARK: What the demuxer asks

    /// Whether segments are announced by notes.
    var hasNotes: Bool { state.withLock { $0.hasNotes } }

    /// Whether the stock demuxer ever reached the loopback server.
    var wasReached: Bool { state.withLock { $0.requestCount > 0 } }

    /// Whether the stock demuxer has asked again for a playlist that it was refused because it is to stop.
    var isAskedAgain: Bool { state.withLock { $0.isAskedAgain } }

    /// Something comes out of the stock demuxer: from now on it waits for what is to come, and no note waits for its key.
    func outputDidAppear() {
        state.withLock { $0.hasOutput = true }
        manifestThread.forget()
        keys.lookAgain()
    }

    /// What to say if the stock demuxer finds no media: that the key may be wrong. Nil if the key is right.
    var doubt: HLSFailure? { state.withLock { $0.doubt } }

    /// Whether the stock demuxer was ever sent to the loopback server.
    var wasNeeded: Bool { table.count > 0 }

    /// The last failure since the last call.
    func takeFailure() -> HLSFailure? {
        state.withLock { state in
            defer { state.failure = nil }
            return state.failure
        }
    }

    /// Rewrites the first playlist, master or media, that came from `url`, so that the audio track of that name plays.
    func start(
        _ bytes: [UInt8], from url: String, audioTrack: String? = nil, isNew: Bool = true
    ) throws(HLSFailure) -> [UInt8] {
        origin.setHome(url)
        keys.setMediaURL(url, cookies: origin.cookies)
        state.withLock { ($0.home, $0.audioTrack) = (url, audioTrack) }
        // A media playlist that cannot be used fails here, and its keys are asked for.
        let rewriting = try rewrite(bytes, from: url)
        if rewriting.kind == .master {
            state.withLock { $0.firstVariant = rewriting.children.first { $0.role == .variant }?.url }
            return rewriting.bytes
        }
        // The stock demuxer would fetch a media playlist that it got here again from where it came. So it gets one that
        // leads to this one, which need not be fetched for that, unless segments may be gone since it came.
        if isNew || rewriting.isEnded { state.withLock { $0.first = HTTPResponse(status: 200, body: bytes, url: url) } }
        let resource = HLSResource.playlist(url: url)
        defer { table.keep([resource], of: "") }
        return Array("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n\(route(resource))\n".utf8)
    }

    // MARK: Rewriting

    func route(_ resource: HLSResource) -> String {
        state.withLock { $0.servers }.map { self.address(of: resource, at: $0) } ?? "http://127.0.0.1:9/"
    }

    /// `base`: what the references of a playlist count from. With them, the text of a long playlist is a third as long. `isApart`:
    /// the playlists of the origin are waited for, and the stock demuxer has two connections to each server.
    private func address(
        of resource: HLSResource, at servers: PresentationServers, from base: String = "", isApart: Bool = false
    ) -> String {
        let name = table.name(of: resource) + resource.suffix
        let url = servers.url(name, from: resource.mediaOrigin, isApart: isApart && !resource.isPlaylist)
        guard !base.isEmpty, !resource.isPlaylist, url.hasPrefix(base) else { return url }
        return String(Substring(url.utf8.dropFirst(base.utf8.count)))
    }

    /// Of the master playlist.
    var audioTracks: [HLSAudioTracks.Track] { state.withLock { $0.audioTracks } }

    /// What the stock demuxer has to choose from.
    var qualities: [PictureQuality] { state.withLock { $0.qualities } }

    /// In bytes. To read a playlist takes many times its size for a moment. Of a larger one, that goes back to the system at once,
    /// and not only to the heap of a thread: the next one may be read on another.
    private static let largeSize = 1 << 20

    func rewrite(
        _ bytes: [UInt8], from url: String, as name: String? = nil, kind: HLSSegmentKind? = nil,
        isEnveloped: Bool? = nil
    ) throws(HLSFailure) -> HLSRewriting {
        defer { if bytes.count > Self.largeSize { ek_trim_heaps() } }
        let name = name ?? url
        let foreign = ForeignContent(start: bytes) ?? (bytes.first { $0 > 0x20 } == UInt8(ascii: "<") ? .xml : nil)
        if let foreign { throw .foreign(foreign, inPlaceOf: "playlist", at: url) }
        let servers = state.withLock { $0.servers }
        let outputLevel = outputLevel()
        let (table, hasCookies, isLocal) = (table, origin.cookies.hasBeenUsed, origin.isLocal)
        // A media playlist comes from a loopback server, also the first one: a master playlist of our own leads to it.
        let base = servers?.url("", from: URIReference(name).origin) ?? ""
        let isApart = HLSPlaylist.blocksReload(start: bytes)
        let (rewriting, wanted) = try turn.withLock { _ throws(HLSFailure) -> (HLSRewriting, [HLSKey]?) in
            var rewriter = state.withLock { state -> HLSPlaylistRewriter in
                var rewriter =
                    state.rewriters[name]
                    ?? HLSPlaylistRewriter(
                        keyFormats: keyFormats, importedVariables: state.variables, sessionKeys: state.sessionKeys)
                rewriter.keyLimit = keyLimit
                rewriter.outputLevel = outputLevel
                rewriter.relaysSegments = true
                if relay == nil { rewriter.relayLimit = Self.relayLimit }
                // Workaround (GStreamer <1.26): the stock demuxer fetches no files.
                rewriter.relaysFiles = isLocal
                // Not for a live playlist that plays: the stock demuxer knows its segments by their URLs.
                if state.rewriters[name] == nil { rewriter.relaysClearPlaylists = hasCookies || isLocal }
                rewriter.audioTrack = state.audioTrack
                rewriter.tellsLanguagesOnce = takesLanguagesForTracks
                if let kind { rewriter.segmentKind = kind }
                if let isEnveloped { rewriter.isEnveloped = isEnveloped }
                if envelopes.parsers.isEmpty { rewriter.isEnveloped = false }
                if isEnveloped == true { state.isEnveloped = true }
                if state.isEnveloped { rewriter.isEnveloped = true }
                let role = state.roles[name]
                rewriter.hasEncryptedSibling = role.map { state.encryptedRoles.contains($0) } ?? false
                rewriter.memoryLimit = state.budget.room(for: name, as: role)
                return rewriter
            }
            let rewriting: HLSRewriting
            do throws(FormatError) {
                rewriting = try rewriter.rewrite(bytes, from: url, as: name, keptIn: table) { resource in
                    servers.map { self.address(of: resource, at: $0, from: base, isApart: isApart) } ?? ""
                }
            } catch {
                throw .format(error)
            }
            let rewritten = rewriter
            return (
                rewriting,
                state.withLock { state -> [HLSKey]? in
                    answers.hasEnded ? nil : state.take(rewriting, of: name, by: rewritten, keptIn: table)
                }
            )
        }
        // A stop came meanwhile. Nothing is asked for any more.
        guard let wanted else { return rewriting }
        if rewriting.kind == .media {
            let refresh = Stillness.Refresh(
                isEnded: rewriting.isEnded, target: rewriting.targetDuration ?? 0,
                role: state.withLock { $0.roles[name] }, urls: rewriting.urls,
                inits: rewriting.initURLs, count: rewriting.durations.count, last: rewriting.lastURLs,
                lastNumber: rewriting.firstSegment.map { $0 &+ UInt64(rewriting.durations.count) &- 1 },
                isDelta: rewriting.isDelta)
            watch.didRead(name, refresh)
        }
        segments.update(rewriting, of: name, servers: servers)
        if isLocal { onFiles(URIReference(url).filePath != nil && !rewriting.namesServers) }
        for key in wanted { keys.demand(key) }
        return rewriting
    }
}

extension HLSPresentation {
    /// Answers one loopback request.
    func answer(_ request: LoopbackRequest) async -> LoopbackResponse {
        let request = takeIn(request)
        guard let resource = resource(of: request) else { return .notFound }
        demand(ahead: ahead(of: resource))
        prepareAudio(of: resource, request)
        // An answer that comes as it arrives is for one request: no other may share it.
        switch resource {
        case .segment(let segment): return await decrypted(segment, request)
        case .relayedSegment(let url): return await relayed(url, request)
        default: break
        }
        // Workaround (GStreamer <1.26): the stock demuxer does not begin without the playlists that it asks for first.
        let isNeededToBegin = resource.isPlaylist && !state.withLock(\.hasOutput)
        let isAskedOnce = relay != nil || isNeededToBegin
        let response = await answers.answer(Self.answerName(request), isAskedOnce: isAskedOnce) { [self] in
            await answer(request, resource)
        }
        if case .playlist(let url) = resource {
            await manifestThread.wait()
            if answers.hasEnded {
                state.withLock { if !$0.refused.insert(url).inserted { $0.isAskedAgain = true } }
            } else if response.status < 400 {
                didAnswer(url)?()
            }
        }
        return response
    }

    /// Answers a loopback request where the answer is at hand: no other thread has to wake up for it.
    private func quickAnswer(_ request: LoopbackRequest) -> LoopbackResponse? {
        guard let resource = resource(of: request) else { return nil }
        let response: LoopbackResponse
        if case .keyNote(let note) = resource {
            guard note.key.map({ keys.isUsable($0) }) ?? true else { return nil }
            response = self.response(of: note)
        } else {
            guard manifestThread.mayAnswer, let ready = answers.takeReady(Self.answerName(request)) else { return nil }
            response = ready
            // The observer may take long.
            if case .playlist(let url) = resource, let tell = didAnswer(url) { Task { tell() } }
        }
        _ = takeIn(request)
        let wanted = ahead(of: resource)
        // As above.
        if !wanted.isEmpty { Task { demand(ahead: wanted) } }
        return response
    }

    private func resource(of request: LoopbackRequest) -> HLSResource? {
        table.resource(String(request.path.prefix { $0 != "." }))
    }

    private static func answerName(_ request: LoopbackRequest) -> String {
        "\(request.path.prefix { $0 != "." })?\(request.query ?? "")"
    }

    /// Notes a request of the stock demuxer, and gives it as the origin gets it.
    private func takeIn(_ request: LoopbackRequest) -> LoopbackRequest {
        let (servers, home) = state.withLock { state in
            state.requestCount += 1
            return (state.servers, state.home)
        }
        let request = servers?.withoutOwnReferrer(request, home: home) ?? request
        origin.note(request)
        return request
    }

    /// The keys to ask for ahead, now that what this resource is for is fetched.
    private func ahead(of resource: HLSResource) -> [HLSKey] {
        resource.key.map { key in state.withLock { $0.schedule.didFetch(key) } } ?? []
    }

    private func demand(ahead wanted: [HLSKey]) {
        guard !wanted.isEmpty else { return }
        for key in wanted { keys.demand(key) }
        // No answer comes to what was refused before.
        keysDidFail()
    }

    // MARK: Ahead of requests

    private static let preparedLimit = 1024

    /// The stock demuxer asks for the playlist of the first variant as soon as it has the master playlist, with these
    /// fields.
    func prepareFirstVariant() {
        let (first, home) = state.withLock { ($0.firstVariant, $0.home) }
        // What the source element sends goes nowhere else.
        guard let first, URIReference(first).origin == URIReference(home).origin else { return }
        let fields = [HTTPHeader(name: "Cache-Control", value: "max-age=0"), HTTPHeader(name: "Referer", value: home)]
        prepare(.playlist(url: first), LoopbackRequest(path: "", headers: fields))
    }

    /// The stock demuxer asks for the playlist of the sound when the first segment of pictures is on its way, and waits
    /// for it on the thread that handles that. So it is made meanwhile.
    private func prepareAudio(of resource: HLSResource, _ request: LoopbackRequest) {
        guard case .playlist(let url) = resource,
            let audio = state.withLock({ $0.hasOutput ? nil : $0.defaultAudio[url] })
        else { return }
        prepare(.playlist(url: audio), request)
    }

    /// Makes the answer for a resource, which is named already, before the stock demuxer asks for it. Once: it may never
    /// do so, and what failed is told when it did.
    private func prepare(_ resource: HLSResource, _ request: LoopbackRequest) {
        let isFirst = state.withLock { state in
            // A live presentation may have new ones for ever.
            if state.prepared.count > Self.preparedLimit { state.prepared = [] }
            return state.prepared.insert(resource.hashValue).inserted
        }
        guard isFirst, let name = table.knownName(of: resource) else { return }
        var request = request
        request.query = nil
        answers.prepare("\(name)?") { [self, request] in
            do throws(HLSFailure) {
                switch resource {
                case .playlist(let url): return try await playlist(url, request)
                case .initSegment(let segment): return try await initSegment(segment, request)
                default: return nil
                }
            } catch {
                return nil
            }
        }
    }

    private func answer(_ request: LoopbackRequest, _ resource: HLSResource) async -> LoopbackResponse {
        while true {
            do throws(HLSFailure) {
                let response = try await response(to: request, resource)
                if let url = resource.originURL { relay?.didSucceed(url) }
                return response
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                if let relay, let url = resource.originURL, await relay.triesAgain(error, at: url) {
                    guard relay.handsOn(error, at: url) else { continue }
                }
                // As for live segments: the stock demuxer asks for it again at once.
                switch resource {
                case .playlist, .initSegment: if relay == nil, error.mayPass { _ = await pausesIfLive() }
                default: break
                }
                let end = resource.originURL.flatMap { relay?.ended(error, at: $0) } ?? error
                return answer(to: resource, end)
            }
        }
    }

    private func response(
        to request: LoopbackRequest, _ resource: HLSResource
    ) async throws(HLSFailure) -> LoopbackResponse {
        switch resource {
        case .playlist(let url): return try await playlist(url, request)
        case .initSegment(let segment): return try await initSegment(segment, request)
        // Never come here.
        case .segment, .relayedSegment: return .notFound
        case .envelope(let segment):
            return try await envelopes.answer(segment, request) { state.withLock(\.hasOutput) }
        case .keyNote(let note): return try await keyNote(note)
        }
    }

    private func answer(to resource: HLSResource, _ error: HLSFailure) -> LoopbackResponse {
        if Task.isCancelled { return .notFound }
        if case .playlist = resource {
            // Another variant may do. Where none does, the stock demuxer says so, and this is why.
            state.withLock { $0.failure = error }
        } else if error.isFinal {
            fail(error)
        } else {
            state.withLock { $0.failure = error }
        }
        return LoopbackResponse(status: error.status)
    }

    /// From the origin as it is.
    private func relayed(_ url: String, _ request: LoopbackRequest) async -> LoopbackResponse {
        await relayedAnswers.answer { [self] in
            do throws(HLSFailure) {
                return try await segmentThatMayBeAbsent(url, request) ?? LoopbackResponse(status: 204)
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                if !Task.isCancelled { state.withLock { $0.failure = error } }
                return LoopbackResponse(status: error.status)
            }
        }
    }

    /// More than a day of segments of two seconds has. Above it, what only cookies need is not worth the memory.
    private static let relayLimit = 50_000
    /// Of what no connection brings, where the stock demuxer is to decide. It would make as many itself, within a moment; live, a
    /// pause is between them.
    private static let attempts = 4

    /// The server of a live presentation may restart, and be back in a moment. False if the task is cancelled.
    private func pausesIfLive() async -> Bool {
        guard state.withLock({ $0.schedule.isLive }) else { return true }
        return await segmentRelay.waits(SegmentRelay.pause)
    }

    /// What the origin answers, as it comes. Nil: it has no such segment, and playback is to go on without. `isLonger`: the
    /// request has a range that may end behind the resource, so that 416 says nothing of the segment.
    private func segmentThatMayBeAbsent(
        _ url: String, _ request: LoopbackRequest, isEncrypted: Bool = false, isLonger: Bool = false
    ) async throws(HLSFailure) -> LoopbackResponse? {
        var attempt = 0
        var failures = 0
        while true {
            do throws(HLSFailure) {
                let response = try await segmentRelay.answer(url, request, isEncrypted: isEncrypted)
                state.withLock { $0.absent?.didCome(url) }
                return response
            } catch {
                if relay == nil, !Task.isCancelled, !error.isAnswer {
                    failures += 1
                    if error.mayPass, failures < Self.attempts {
                        guard await pausesIfLive() else { throw error }
                        continue
                    }
                    // The stock demuxer takes a server error in its place for the end, or asks for ever; and before GStreamer 1.26
                    // it may abort the process at a live segment that is not there.
                    fail(error)
                    if state.withLock({ $0.absent?.isLive }) == true { return nil }
                    throw error.givenUp(true)
                }
                guard error.isRefusal, !(isLonger && error.refusesRange),
                    let verdict = state.withLock({
                        $0.absent?.verdict(on: url, attempt: attempt, isRefused: !error.isAbsence)
                    })
                else { throw error }
                HLSDemuxer.log.log(.warning, nil, error.text)
                switch verdict {
                case .isToCome(let pause):
                    guard await segmentRelay.waits(pause) else { throw error }
                    attempt += 1
                case .isLeftOut: return nil
                case .isTheEnd:
                    fail(error)
                    return nil
                }
            }
        }
    }

    // MARK: Playlists

    /// With the init segment that names its key, if there is one alone.
    func ownPlaylist(
        _ url: String, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> (LoopbackResponse, HLSInitSegment?) {
        watch.didAsk(for: url)
        let first = state.withLock { state -> HTTPResponse? in
            guard state.first?.url == url else { return nil }
            defer { state.first = nil }
            return state.first
        }
        var response: HTTPResponse
        if let first {
            response = first
        } else {
            // Numbers that only the stock demuxer knows mean nothing to the origin.
            let query = state.withLock { $0.numberedAnew.contains(url) } ? nil : request.query
            let asked = HLSDeliveryDirectives.forwarding(query ?? "", to: url)
            response = try await origin.response(.playlist, asked, for: request)
            // A number that is too high (draft-pantos-hls-rfc8216bis, 6.2.5.2): the encoder may have started anew.
            if response.status == 400, asked != url, await pausesIfLive() {
                response = try await origin.response(.playlist, url, for: request)
            }
        }
        if response.status == 304 {
            return (LoopbackResponse(status: 304, headers: HLSOrigin.returned(response.headers)), nil)
        }
        guard response.status == 200 else { throw .status(response.status, of: "playlist", at: response.url) }
        var rewriting = try await rewriteInTurn(response.body, from: response.url, as: url)
        if let segment = rewriting.segmentToProbe {
            let isEnveloped = await envelopes.isEnvelope(segment, request)
            rewriting = try await rewriteInTurn(response.body, from: response.url, as: url, isEnveloped: isEnveloped)
        }
        if let segment = rewriting.segmentToInspect {
            let start = try await origin.bytes(.segment, segment, range: HLSByteRange(offset: 0, length: 1024))
            if let kind = HLSSegmentKind(firstBytes: start) {
                rewriting = try await rewriteInTurn(response.body, from: response.url, as: url, kind: kind)
            }
        }
        let section =
            rewriting.onlyInitSegment
            ?? state.withLock { rewriting.initSegment(of: $0.schedule.firstKeys(of: url).first) }
        if let section { prepare(.initSegment(section), request) }
        var headers = HLSOrigin.returned(response.headers)
        if !headers.contains(where: { $0.name.lowercased() == "content-type" }) {
            headers.append(HTTPHeader(name: "Content-Type", value: "application/vnd.apple.mpegurl"))
        }
        return (LoopbackResponse(headers: headers, body: rewriting.bytes), section)
    }

    // MARK: Segments

    /// Decrypted as it arrives from the origin.
    private func decrypted(_ segment: HLSEncryptedSegment, _ request: LoopbackRequest) async -> LoopbackResponse {
        await relayedAnswers.answer { [self] in
            do throws(HLSFailure) {
                return try await self.segment(segment, request)
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                return answer(to: .segment(segment), error)
            }
        }
    }

    private func segment(
        _ segment: HLSEncryptedSegment, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> LoopbackResponse {
        let (url, key) = (segment.url, segment.decryption.key)
        // The key is fetched meanwhile.
        keys.demand(key)
        let encrypted = try await encrypted(segment, request)
        // Such as 204. The stock demuxer leaves it out, as one of clear media.
        if encrypted.stream == nil, encrypted.body.isEmpty { return LoopbackResponse(status: encrypted.status) }
        let opened = try await opening(for: segment.decryption, of: "segment", at: url, segment.byteRange)
        guard let stream = encrypted.stream else {
            do throws(DecryptionError) {
                let start = MonotonicTime.now
                let clear = try opened.decrypt(whole: encrypted.body)
                keys.logDecryption(at: url, bytes: UInt64(encrypted.body.count), time: MonotonicTime.now &- start)
                return LoopbackResponse(body: ID3Filter.filter(whole: clear))
            } catch {
                throw .wrongKey(key, at: url)
            }
        }
        // The demuxer may look at the first bytes before the last ones show that the key is right.
        let isProven = state.withLock { state in
            let isProven = state.provenKey == key
            if !isProven { state.doubt = .wrongKey(key, at: url) }
            return isProven
        }
        let onDecrypted: @Sendable (UInt64, UInt64) -> Void = { [weak self] in
            self?.keys.logDecryption(at: url, bytes: $0, time: $1)
        }
        let body = DecryptedBody(stream, opened, onDecrypted: onDecrypted) { [weak self] error in
            // A part has no padding that would tell.
            let proves = !isProven && !segment.decryption.isPart
            if error != nil { self?.fail(.wrongKey(key, at: url)) } else if proves { self?.didProve(key) }
        }
        return LoopbackResponse(
            status: 200, headers: [],
            stream: LoopbackStream(length: nil) { () async throws(LoopbackStream.Broken) in try await body.next() })
    }

    private func didProve(_ key: HLSKey) {
        state.withLock { ($0.provenKey, $0.doubt) = (key, nil) }
    }

    /// The segment as the origin has it: its bytes, or a stream of them. `isExact`: nothing behind its byte range.
    private func encrypted(
        _ segment: HLSEncryptedSegment, _ request: LoopbackRequest, isExact: Bool = false
    ) async throws(HLSFailure) -> LoopbackResponse {
        var request = request
        request.headers.removeAll { $0.name.lowercased() == "range" }
        let range = isExact ? segment.byteRange : segment.decryption.encryptedRange(segment.byteRange)
        if let range { request.headers.append(HTTPHeader(name: "Range", value: range.httpRange)) }
        let isLonger = range != segment.byteRange && !segment.decryption.isPart
        let answer: LoopbackResponse?
        do throws(HLSFailure) {
            answer = try await segmentThatMayBeAbsent(segment.url, request, isEncrypted: true, isLonger: isLonger)
        } catch {
            // Some servers have none of a range that ends behind the file, as that of the last segment may.
            guard isLonger, error.refusesRange else { throw error }
            return try await encrypted(segment, request, isExact: true)
        }
        guard var response = answer else { return LoopbackResponse(status: 204) }
        // A server without ranges sends all.
        if let range, response.status == 200, response.stream == nil {
            let needed = segment.decryption.isPart ? nil : segment.byteRange
            response.body = try range.cut(from: response.body, needing: needed, of: "segment", at: segment.url)
        }
        return response
    }

    private func opening(
        for decryption: HLSSegmentDecryption, of what: String, at url: String, _ range: HLSByteRange?
    ) async throws(HLSFailure) -> OpenedSegment {
        let key = try await keys.contentKey(for: decryption.key)
        var part: Range<UInt64>?
        if decryption.isPart, let range {
            let start = range.offset - range.cipherBlocks.offset
            part = start..<start + range.length
        }
        guard let vector = decryption.initializationVector ?? key.initializationVector else {
            throw .media(what, at: url, "neither the playlist nor the key has an IV")
        }
        do throws(DecryptionError) {
            let cipher = try SegmentCipher(key: key, initializationVector: vector, part: part)
            return OpenedSegment(cipher, range: part == nil ? range : nil)
        } catch {
            throw .media(what, at: url, "\(error)")
        }
    }

    func initSegment(
        _ segment: HLSInitSegment, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> LoopbackResponse {
        let range = segment.decryption.map { $0.encryptedRange(segment.byteRange) } ?? segment.byteRange
        let needed = segment.decryption?.isPart == false ? segment.byteRange : nil
        var bytes = try await origin.bytes(.initSegment, segment.url, for: request, range: range, needing: needed)
        if let decryption = segment.decryption, !segment.isClear(bytes) {
            let opened = try await opening(for: decryption, of: "init segment", at: segment.url, segment.byteRange)
            do throws(DecryptionError) {
                bytes = try opened.decrypt(whole: bytes)
            } catch {
                throw .media("init segment", at: segment.url, "\(error)")
            }
        }
        do {
            bytes = try keys.prepare(bytes, segment.protection)
        } catch {
            throw .media("init segment", at: segment.url, error.description)
        }
        return LoopbackResponse(headers: [HTTPHeader(name: "Content-Type", value: "video/mp4")], body: bytes)
    }

    /// At the start, the note comes when the key is there: the stock demuxer fetches segments one after the other until
    /// something comes out, and fails at the end of the playlist where nothing did. Later the decryptor waits.
    private func keyNote(_ note: HLSKeyNote) async throws(HLSFailure) -> LoopbackResponse {
        if let key = note.key { try await keys.wait(for: key) { !state.withLock(\.hasOutput) } }
        return response(of: note)
    }

    private func response(of note: HLSKeyNote) -> LoopbackResponse {
        segments.willServe(note)
        let segmentKey = SegmentKey(
            keyID: note.key.map { keys.keyID(of: $0) }, initializationVector: note.initializationVector)
        let bytes = note.kind == .packedAudio ? segmentKey.id3Tag() : segmentKey.transportStreamPackets()
        return LoopbackResponse(body: bytes)
    }
}
