// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyContainers
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
    let relayedAnswers = RelayedAnswers()
    let watch = StillnessWatch()
    let state: Mutex<State>
    private let keyFormats: [HLSKeyFormat]
    let envelopes: EnvelopeParsers
    private let outputLevel: @Sendable () -> OutputRequirement
    /// What is fetched again where the network fails; nil: the stock demuxer fetches segments, and decides.
    let relay: SegmentRelay?
    /// `relay`, or one that tries once: for segments that want fields which the stock demuxer does not send.
    let segmentRelay: SegmentRelay

    struct State {
        var servers: PresentationServers?
        var rewriters: [String: HLSPlaylistRewriter] = [:]
        var variables: [String: String] = [:]
        var sessionKeys: [HLSKey] = []
        /// The playlists of the sound, by those of the variants.
        var defaultAudio: [String: String] = [:]
        /// What was prepared before it was asked for, each once.
        var prepared: Set<HLSResource> = []
        var qualities: [PictureQuality] = []
        /// What the master playlist names each playlist for.
        var roles: [String: HLSRewriting.Child.Role] = [:]
        /// Those of playlists with encrypted samples.
        var encryptedRoles: Set<HLSRewriting.Child.Role> = []
        var timeline = HLSTimeline()
        var schedule = HLSKeySchedule()
        /// Something came out of the stock demuxer.
        var hasOutput = false
        /// A playlist that is here already: the first one, for the first request.
        var first: HTTPResponse?
        /// The playlist of the variant that the master playlist has first.
        var firstVariant: String?
        /// Segments are announced by notes, so that there must be somebody who reads them.
        var hasNotes = false
        /// A playlist's segments are in envelopes, and so are those of all others then.
        var isEnveloped = false
        var requestCount = 0
        /// The presentation's URL.
        var home = ""
        var failure: HLSFailure?
        /// The last key that a whole segment had the right padding with.
        var provenKey: HLSKey?
        /// What to say if the stock demuxer finds no media in a segment that is decrypted with another key.
        var doubt: HLSFailure?
        /// Says that the presentation cannot go on, once.
        var onFailure: (@Sendable (HLSFailure) -> Void)?
        var hasFailed = false
        /// An element in the stock demuxer has posted an error.
        var hasErrorInside = false
        /// Playlists that were refused, as the demuxer stops.
        var refused: Set<String> = []
        /// One of them was refused twice.
        var isAskedAgain = false
    }

    /// `outputLevel` says what the outputs have, for the choice of variants. With a `relay`, all segments come through it,
    /// and everything else is asked for as long as that tries.
    init(
        origin: HLSOrigin, keys: HLSKeys, keyFormats: [HLSKeyFormat], envelopes: EnvelopeParsers = EnvelopeParsers(),
        relay: SegmentRelay? = nil,
        outputLevel: @escaping @Sendable () -> OutputRequirement = { .unprotected }
    ) {
        self.outputLevel = outputLevel
        self.envelopes = envelopes
        table = HLSResourceTable()
        segments = AnnouncedSegments(table, watch.output)
        self.origin = origin
        self.relay = relay
        segmentRelay = relay ?? SegmentRelay(origin, limit: .zero) { _ in }
        self.keys = keys
        self.keyFormats = keyFormats
        state = Mutex(State())
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
            own: { [table] url in
                guard let path = servers.path(in: url) else { return nil }
                let resource = table.resource(String(path.prefix { $0 != "." && $0 != "?" }))
                if case .playlist = resource { return .playlist }
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

    /// Something comes out of the stock demuxer: from now on it waits for what is to come.
    func outputDidAppear() { state.withLock { $0.hasOutput = true } }

    /// What to say if the stock demuxer finds no media: that the key may be wrong. Nil if the key is right.
    var doubt: HLSFailure? { state.withLock { $0.doubt } }

    /// Whether the stock demuxer was ever sent to the loopback server.
    var wasNeeded: Bool { table.count > 0 }

    /// Whether something that one of the keys is for is shown at `position`, in seconds, or later.
    func needs(_ uris: [String], at position: Double) -> Bool {
        state.withLock { state in uris.contains { state.timeline.needs($0, at: position) } }
    }

    /// The last failure since the last call.
    func takeFailure() -> HLSFailure? {
        state.withLock { state in
            defer { state.failure = nil }
            return state.failure
        }
    }

    /// Rewrites the first playlist, master or media, that came from `url`.
    func start(_ bytes: [UInt8], from url: String) throws(HLSFailure) -> [UInt8] {
        origin.setHome(url)
        keys.setMediaURL(url)
        state.withLock { $0.home = url }
        // A media playlist that cannot be used fails here, and its keys are asked for.
        let rewriting = try rewrite(bytes, from: url)
        if rewriting.kind == .master {
            state.withLock { $0.firstVariant = rewriting.children.first { $0.role == .variant }?.url }
            return rewriting.bytes
        }
        // The stock demuxer would fetch a media playlist that it got here again from where it came. So it gets one that
        // leads to this one, which need not be fetched for that.
        state.withLock { $0.first = HTTPResponse(status: 200, body: bytes, url: url) }
        let resource = HLSResource.playlist(url: url)
        let target = route(resource)
        table.keep([resource], of: "")
        return Array("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n\(target)\n".utf8)
    }

    // MARK: Rewriting

    func route(_ resource: HLSResource) -> String {
        state.withLock { $0.servers }.map { self.address(of: resource, at: $0) } ?? "http://127.0.0.1:9/"
    }

    private func address(of resource: HLSResource, at servers: PresentationServers) -> String {
        servers.url(table.name(of: resource) + Self.suffix(resource), from: resource.mediaOrigin)
    }

    /// What a URL's path ends with, for people who read logs: the stock demuxer looks at the bytes.
    private static func suffix(_ resource: HLSResource) -> String {
        switch resource {
        case .playlist: ".m3u8"
        case .initSegment: ".mp4"
        case .segment, .relayedSegment: ""
        case .envelope(let segment): segment.kind == .fragmentedMP4 ? "" : ".ts"
        case .keyNote(let note): note.kind == .transportStream ? ".ts" : ".id3"
        }
    }

    /// What the stock demuxer has to choose from.
    var qualities: [PictureQuality] { state.withLock { $0.qualities } }

    func rewrite(
        _ bytes: [UInt8], from url: String, as name: String? = nil, kind: HLSSegmentKind? = nil,
        isEnveloped: Bool? = nil
    ) throws(HLSFailure) -> HLSRewriting {
        let name = name ?? url
        if let first = bytes.first(where: { $0 > 0x20 }), first == UInt8(ascii: "<") { throw .webPage(at: url) }
        let servers = state.withLock { $0.servers }
        let outputLevel = outputLevel()
        let (table, relaysSegments, relayedOrigin) = (table, relay != nil, origin.originOfOwnFields)
        let (rewriting, wanted) = try state.withLock { state throws(HLSFailure) in
            var rewriter =
                state.rewriters[name]
                ?? HLSPlaylistRewriter(
                    keyFormats: keyFormats, importedVariables: state.variables, sessionKeys: state.sessionKeys)
            rewriter.outputLevel = outputLevel
            rewriter.relaysSegments = relaysSegments
            rewriter.relayedOrigin = relayedOrigin
            if let kind { rewriter.segmentKind = kind }
            if let isEnveloped { rewriter.isEnveloped = isEnveloped }
            if envelopes.isEmpty { rewriter.isEnveloped = false }
            if isEnveloped == true { state.isEnveloped = true }
            if state.isEnveloped { rewriter.isEnveloped = true }
            let role = state.roles[name]
            rewriter.hasEncryptedSibling = role.map { state.encryptedRoles.contains($0) } ?? false
            let rewriting: HLSRewriting
            do throws(FormatError) {
                rewriting = try rewriter.rewrite(bytes, from: url) { resource in
                    servers.map { self.address(of: resource, at: $0) } ?? ""
                }
            } catch {
                throw .format(error)
            }
            state.rewriters[name] = rewriter
            state.timeline.update(rewriting, of: name)
            if rewriting.kind == .master {
                state.variables = rewriting.variables
                state.sessionKeys = rewriting.sessionKeys
                state.defaultAudio = rewriting.defaultAudio
                state.qualities = rewriting.qualities
                state.roles = Dictionary(rewriting.children.map { ($0.url, $0.role) }) { first, _ in first }
            } else if let role, rewriting.keys.contains(where: { $0.decryptor == .element }) {
                state.encryptedRoles.insert(role)
            }
            if rewriting.resources.contains(where: \.hasNote) { state.hasNotes = true }
            // Where the segments may be in envelopes, what the playlist says of keys is not settled yet.
            let isSettled = rewriting.segmentToProbe == nil
            return (rewriting, isSettled ? state.schedule.update(rewriting, of: name) : [])
        }
        if rewriting.kind == .media {
            let refresh = Stillness.Refresh(
                isEnded: rewriting.isEnded, target: rewriting.targetDuration ?? 0,
                role: state.withLock { $0.roles[name] }, urls: rewriting.urls, last: rewriting.lastURLs,
                lastNumber: rewriting.firstSegment.map { $0 &+ UInt64(rewriting.durations.count) &- 1 },
                isDelta: rewriting.isDelta)
            watch.didRead(name, refresh)
        }
        table.keep(rewriting.resources, of: name)
        segments.update(rewriting, of: name, servers: servers)
        for key in wanted { keys.demand(key) }
        return rewriting
    }
}

extension HLSResource {
    /// Whether the stream behind it starts with a note for the decryptor.
    fileprivate var hasNote: Bool {
        switch self {
        case .keyNote: true
        case .envelope(let segment): segment.kind != .fragmentedMP4
        case .playlist, .initSegment, .segment, .relayedSegment: false
        }
    }
}
