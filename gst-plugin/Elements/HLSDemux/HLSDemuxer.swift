// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// HLS with keys: a bin around GStreamer's own demuxer.
///
/// The stock demuxer never sees a key. It gets rewritten playlists and, where they need it, init segments from a loopback
/// server, which also decrypts segments that are encrypted as a whole. Others with keys come from there as they are, with
/// encrypted samples; clear ones it fetches from the origin as always. The keys that the playlists name are asked for at once.
/// What comes out passes a gate, so that media that is decrypted already stops when the right to it ends.
final class HLSDemuxer: AdaptiveBin, @unchecked Sendable {
    // SAFETY: `settings` is guarded by `monitor`.

    static let log = DebugCategory("latchkeyhlsdemux", "Latchkey's HLS demuxer")

    var settings = HLSSettings()

    override class var stock: (factory: String, older: String) {
        ("hlsdemux2", "hlsdemux, which plays no protected media")
    }

    override class var manifestLimit: Int { 16 << 20 }

    var run: HLSRun? { currentRun as? HLSRun }

    override func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        let weak = WeakElement(reference)
        let run = HLSRun(
            shared: shared, settings: monitor.withLock { settings },
            choice: KeyChoice(partialLicenses(shared), shared), makeRelay: makeRelay, makePlainRelay: makePlainRelay,
            onLeftOut: { refusals, run in weak.withElement { ($0 as? HLSDemuxer)?.tellLeftOut(refusals, of: run) } },
            onDeparture: { departure, run in
                weak.withElement { ($0 as? HLSDemuxer)?.setDeparture(departure, of: run) }
            },
            onFiles: { isAll in weak.withElement { ($0 as? HLSDemuxer)?.note(playsFiles: isAll) } },
            onOpenRoute: { keyID, error in weak.withElement { ($0 as? HLSDemuxer)?.end(keyID, because: error) } },
            isAskedToPlay: { weak.map { $0.reference.isAskedToPlay } ?? false },
            onWrongKey: { keyID in weak.withElement { ($0 as? HLSDemuxer)?.tellWrongKey(keyID) } })
        do throws(HTTPError) {
            try run.presentation.open { failure in weak.withElement { ($0 as? HLSDemuxer)?.fail(failure) } }
        } catch {
            throw .loopback(error)
        }
        run.presentation.beginWatch(look())
        setDeparture(nil, of: currentRun?.origin)
        return run
    }

    /// The stock demuxer gets the rewritten playlist, which leads to the loopback server, and names the presentation's
    /// own URL as the referrer of what it fetches.
    override func handOn(_ bytes: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] {
        guard let run else { return bytes }
        run.presentation.manifestThread.recordCurrent()
        let track = audioTrack
        let rewritten = try run.presentation.start(
            bytes, from: url, audioTrack: track, isNew: !manifest.isHandedOver)
        let tracks = run.presentation.audioTracks.map { AudioChoice.Track(name: $0.name, language: $0.language) }
        withGuarded { $0.audio.setTracks(tracks, withFirst: track, idsHaveNames: true) }
        return rewritten
    }

    override func willHandOn() { if beginsWithFirstVariant { run?.presentation.prepareFirstVariant() } }

    /// The stock demuxer does, unless it was told a speed or, from 1.24 on, a bit rate to begin with.
    var beginsWithFirstVariant: Bool {
        ["connection-bitrate", "start-bitrate"].allSatisfy { child?.pointer.property($0) == .uint(0) }
    }

    override func needs(_ keyIDs: [KeyID], of session: KeySession, at position: Double) -> Bool {
        guard let run else { return true }
        let uris = keyIDs.compactMap { session.keyURI(of: $0) }
        return uris.count < keyIDs.count || run.presentation.needs(uris, at: position)
    }

    override var hasDownloaded: Bool { run?.presentation.wasReached ?? false }

    override func outputDidAppear(_ pad: PadReference) {
        run?.presentation.outputDidAppear()
        run?.routes.add(pad)
        super.outputDidAppear(pad)
    }

    override func outputDidDisappear(_ pad: PadReference) { run?.routes.remove(pad) }

    /// Pictures that were decrypted in the loopback server have come to where no guard is. None gets any further.
    private func end(_ keyID: KeyID?, because error: KeyError) {
        guard let run else { return }
        run.presentation.fail(.key(keyID.map { run.session.name(of: $0) } ?? DecryptorFailure.name(nil), error))
    }

    /// Says that a key which is used in the loopback server is not that of the media, once a key in the pipeline.
    private func tellWrongKey(_ keyID: KeyID) {
        guard let run, let pipeline = withGuarded({ $0.pipeline }) else { return }
        let name = run.session.name(of: keyID)
        withGuarded { $0.wrongKey = name }
        pipeline.tellOnce(
            .wrongKey(keyID),
            with: { reference.post(wrongKey: keyID, named: name, because: DecryptorFailure.otherChecksum) })
    }

    override func limitPictures(to pixels: Int?) {
        let qualities = run?.presentation.qualities ?? []
        setAllowedBitRate(pixels.flatMap { qualities.bitRateLimit(pixels: $0) })
    }

    override var isWaitingForKey: Bool { run?.keys.isAwaited ?? false }

    override func willStop() { run?.presentation.end() }

    override var isAskedAgain: Bool { run?.presentation.isAskedAgain ?? false }

    // MARK: Inside

    /// Segments with notes need the element that reads them, which takes caps of its own. Fragmented MP4 needs that in front of
    /// the demuxer if a playlist names a key for it.
    override func renamed(_ caps: Caps) -> Caps? {
        guard ISODecryptor.isISOMedia(caps) else {
            guard let renamed = HLSCaps.renamed(caps), hasNotes else { return nil }
            return renamed
        }
        guard let run, run.isoPath == .box, run.presentation.hasProtectedInitSegments else { return nil }
        return ISODecryptor.plugged(caps)
    }

    override var hasNotes: Bool { run?.presentation.hasNotes ?? false }

    /// An init segment may be encrypted although no playlist names a key for it.
    override var encryptedInitSegments: EncryptedInitSegments {
        run?.isoPath == .sample ? .decryptedInFrontOnceClear : .decryptedInFront
    }

    override func streamIsRefused(_ failure: PresentationFailure) { run?.presentation.fail(failure) }

    override func causeOfStop() -> PresentationFailure? {
        guard let run else { return nil }
        if !run.watch.hasOutput, let doubt = run.presentation.doubt { return doubt }
        return run.presentation.segments.failure("GStreamer's demuxer has stopped without an error.")
    }

    /// Workaround (GStreamer >=1.26 <1.28): the stock demuxer does not see the end of a live presentation. Its parsers get
    /// the end of the stream from here.
    override func liveDidEnd() {
        // The event waits for the buffer in front of it, and that one maybe for a key.
        let weak = WeakElement(reference)
        reference.callAsync { weak.withElement { ($0 as? HLSDemuxer)?.endParsers() } }
    }

    private func endParsers() {
        guard let watch = run?.watch else { return }
        for sink in watch.parsers where !sink.hasEnded {
            guard mayFail, run?.watch === watch, watch.isStillAtEnd else { return }
            sink.take(.endOfStream())
        }
    }

    override func originURL(_ url: String) -> String {
        run?.presentation.withOriginURLs(url, isForPeople: false) ?? url
    }

    /// Whether an element behind this bin has refused what came out of it.
    private var isStoppedDownstream: Bool { withGuarded { $0.outputs.contains { $0.inner.lastFlow == .error } } }

    override func take(_ message: consuming Message) {
        // What the stock demuxer got from the loopback server has the origin's URL for everybody else.
        if let presentation = run?.presentation {
            let isForPeople = message.kind != .element
            handleOwn(noted(message).mapTexts { presentation.withOriginURLs($0, isForPeople: isForPeople) })
        } else {
            handleOwn(message)
        }
    }

    private func handleOwn(_ message: consuming Message) {
        guard message.kind == .error, let child else { return super.take(message) }
        guard message.isFrom(child) else {
            run?.presentation.errorDidAppearInside()
            return super.take(message)
        }
        let run = self.run
        let (isStopping, hasOutputs, hasFailed) = withGuarded { ($0.isStopping, !$0.outputs.isEmpty, $0.hasFailed) }
        // What follows from a failure that was told is no news.
        if hasFailed || run?.presentation.hasFailed == true { return }
        guard let run, !isStopping else { return forward(message) }
        // Which of the two errors the stock demuxer posts depends on how the bytes come.
        let isNoMedia =
            message.isStreamError(GST_STREAM_ERROR_TYPE_NOT_FOUND)
            || (message.stoppedFlow == .error && !hasOutputs && !run.presentation.hasErrorInside)
        if let failure = run.presentation.takeFailure() {
            fail(failure)
        } else if isNoMedia, let doubt = run.presentation.doubt {
            fail(doubt)
        } else if message.stoppedFlow == .error, !isStoppedDownstream,
            let failure = run.presentation.segments.failure(message.errorDetails() ?? "")
        {
            fail(failure)
        } else if run.presentation.wasNeeded, !run.presentation.wasReached {
            postUnreached("playlists", message)
        } else {
            forward(message)
        }
    }
}

extension HLSDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeyhlsdemux", longName: "HLS demuxer with keys", classification: "Codec/Demuxer/Adaptive",
        summary: "Plays HLS, also with keys that GStreamer's own demuxer does not know: SAMPLE-AES, skd:// and other "
            + "key formats, fragmented MP4 with AES-128",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/x-hls"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            Property(
                "key-formats", nick: "Key formats",
                blurb: "KEYFORMATs to use where a playlist offers several, the preferred one first, separated by "
                    + "commas; unset: identity, com.apple.streamingkeydelivery, com.microsoft.playready and "
                    + "Widevine's, those of the configured key system first",
                kind: .string(default: nil),
                get: { .string(($0 as? HLSDemuxer)?.keyFormats) },
                set: { element, value in
                    guard case .string(let text) = value else { return }
                    (element as? HLSDemuxer)?.keyFormats = text
                }),
            isoPathProperty, outageLimit, partialLicenses, sourceHeaderOrigins,
        ] + audioProperties + stockProperties + [startBitrate],
        signals: [
            KeyResponse.signal { ($0 as? HLSDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? HLSDemuxer)?.run?.session },
        ],
        implementation: HLSDemuxer.self)

    /// GStreamer's own finder takes a playlist for plain text if keys stand in front of all that it knows a playlist by, and that
    /// is not in the first 4096 bytes, or in those that have come.
    static let playlistType = TypeFinder(
        name: "latchkey-hls", rank: Rank(Rank.primary.value + 10), extensions: ["m3u8", "m3u"],
        caps: "application/x-hls"
    ) { source in
        // Most files are none.
        guard source.bytes(at: 0, count: 7).map({ $0.elementsEqual("#EXTM3U".utf8) }) == true else { return false }
        return source.start(HLSPlaylist.recognitionSize).map { HLSPlaylist.isKeyed(start: $0) } ?? false
    }

    private var keyFormats: String? {
        get { monitor.withLock { settings.keyFormats } }
        set { monitor.withLock { settings.keyFormats = newValue?.isEmpty == true ? nil : newValue } }
    }

    private static let isoPathProperty = Property(
        "iso-path", nick: "ISO path",
        blurb: "Where encrypted fragmented MP4 is decrypted: “box”, in front of GStreamer's demuxer, or “sample”, "
            + "behind it; unset: sample if a secure decryptor is registered, and otherwise box. Set it before the "
            + "demuxer starts",
        kind: .string(default: nil),
        get: { .string(($0 as? HLSDemuxer)?.isoPath?.rawValue) },
        set: { element, value in
            guard case .string(let text) = value else { return }
            (element as? HLSDemuxer)?.isoPath = text.flatMap { ISOPath(rawValue: $0) }
        })

    private var isoPath: ISOPath? {
        get { monitor.withLock { settings.isoPath } }
        set { monitor.withLock { settings.isoPath = newValue } }
    }
}

/// What the user sets on the HLS demuxer.
package struct HLSSettings: Sendable {
    /// KEYFORMATs, the preferred one first, separated by commas.
    var keyFormats: String?
    /// Nil: what suits the process.
    var isoPath: ISOPath?

    package init(keyFormats: String? = nil) { self.keyFormats = keyFormats }

    static let known: [HLSKeyFormat] = [.identity, .fairPlay, .playReady, .widevine]

    /// The formats of keys that are used, the preferred one first: those of the property, and without it all that
    /// loaders may know keys of: those of the configured key system first, those of systems without a license service
    /// last.
    func keyFormats(preferring system: KeySystem?, provisioned: [KeySystem] = []) -> [HLSKeyFormat] {
        if let keyFormats {
            return keyFormats.split(separator: ",").map { Self.format(String($0.drop { $0 == " " })) }
        }
        func rank(_ format: HLSKeyFormat) -> Int {
            if format == .identity { return 1 }
            guard let own = KeySystem(format.protectionSystem) else { return 3 }
            return own == system ? 0 : provisioned.contains(own) ? 2 : 3
        }
        return (0...3).flatMap { wanted in Self.known.filter { rank($0) == wanted } }
    }

    /// The same for a configuration. Those that it prefers come first; the property says which are used at all.
    package func keyFormats(for configuration: ControlSettings) -> [HLSKeyFormat] {
        let provisioned: [KeySystem?] = [
            configuration.fairPlay.map { _ in .fairPlay }, configuration.playReady.map { _ in .playReady },
        ]
        let usual = keyFormats(preferring: configuration.keySystem, provisioned: provisioned.compactMap(\.self))
        guard keyFormats == nil else { return usual }
        let preferred = configuration.keyFormats.map(Self.format)
        return preferred + usual.filter { !preferred.contains($0) }
    }

    private static func format(_ name: String) -> HLSKeyFormat {
        known.first { $0.name == name } ?? HLSKeyFormat(name)
    }
}

extension HLSPresentation {
    /// Whether something that one of the keys is for is shown at `position`, in seconds, or later.
    func needs(_ uris: [String], at position: Double) -> Bool {
        state.withLock { state in uris.contains { state.timeline.needs($0, at: position) } }
    }

    /// Whether a playlist that was read names a key for an init segment.
    var hasProtectedInitSegments: Bool { state.withLock { $0.hasProtectedInitSegments } }

    /// A text of the stock demuxer, with the origin's URL in place of each URL of the loopback servers: that one is a
    /// secret of this process, and of no use outside it. `isForPeople`: without queries, where tokens are. What has no URL of
    /// its own, as a note, gets the presentation's.
    func withOriginURLs(_ text: String, isForPeople: Bool) -> String {
        let (servers, home) = state.withLock { ($0.servers, $0.home) }
        guard let servers else { return text }
        return servers.replacingURLs(in: text, isForPeople: isForPeople) { path, query in
            let url = table.resource(String(path.prefix { $0 != "." }))?.originURL ?? home
            return query.map { HLSDeliveryDirectives.forwarding(String($0), to: url) } ?? url
        }
    }
}

extension HLSResource {
    /// Whether it is an init segment that says of samples how they are encrypted, or is made to say so.
    var isProtectedInitSegment: Bool {
        guard case .initSegment(let segment) = self else { return false }
        return segment.protection != .unchanged
    }
}

/// Caps inside the stock demuxer.
enum HLSCaps {
    /// What segments with notes in front are called, so that the element that reads the notes gets them.
    private static let withNotes = "application/x-latchkey-ts"

    private static let taken: Set<String> = [
        "video/mpegts", "application/x-id3", "audio/mpeg", "audio/x-ac3", "audio/x-eac3", "audio/ac3",
    ]

    /// The caps for segments that may have notes; nil for others.
    static func renamed(_ caps: Caps) -> Caps? {
        guard let type = caps.mediaType(), taken.contains(type) else { return nil }
        return Caps(withNotes)
    }
}

/// What an HLS demuxer has from one start to the next stop. Thread-safe.
final class HLSRun: AdaptiveRun {
    let presentation: HLSPresentation
    let keys: HLSKeys
    let session: KeySession
    let isoPath: ISOPath
    /// The ways of what is decrypted in the loopback server.
    let routes: PictureRoutes
    var watch: StillnessWatch { presentation.watch }
    var origin: PresentationOrigin { presentation.origin }
    private let loader: IdentityKeyLoader
    let observation = SessionObservation()

    /// `choice` leaves out variants whose keys may not be used; nil: none is. `onLeftOut` hears of these, and `onDeparture` that
    /// one is to be left that plays, both with the run's origin. `makeRelay` gives what fetches segments in the stock demuxer's
    /// place and waits for outages; nil: what `makePlainRelay` gives does, and waits for none. `onOpenRoute` hears that pictures of
    /// a key which is used in the loopback server came to where no guard is, `onFiles` whether playlists name files alone, and
    /// `onWrongKey` that such a key is not that of the media. `isAskedToPlay` is for `HLSKeys`.
    init(
        shared: SharedSession, settings: HLSSettings, choice: KeyChoice?,
        makeRelay: (PresentationOrigin) -> SegmentRelay?, makePlainRelay: (PresentationOrigin) -> SegmentRelay,
        onLeftOut: @escaping @Sendable ([KeyID: KeyError], PresentationOrigin) -> Void,
        onDeparture: @escaping @Sendable (HLSVariantChoice.Departure?, PresentationOrigin) -> Void,
        onFiles: @escaping @Sendable (Bool) -> Void,
        onOpenRoute: @escaping @Sendable (KeyID?, KeyError) -> Void, isAskedToPlay: @escaping @Sendable () -> Bool,
        onWrongKey: @escaping @Sendable (KeyID) -> Void
    ) {
        session = shared.session
        isoPath = ISOPath(wanted: settings.isoPath, hasSecureDecryptor: SecureDecryptors.areThere)
        let routes = PictureRoutes(session: session, onOpen: onOpenRoute)
        self.routes = routes
        keys = HLSKeys(
            session: session, timeout: shared.settings.keyWait,
            openRoute: { routes.refusal(of: $0) }, isAskedToPlay: isAskedToPlay, onWrongKey: onWrongKey)
        let origin = HLSOrigin(transport: CurlTransport.shared)
        presentation = HLSPresentation(
            origin: origin, keys: keys,
            keyFormats: settings.keyFormats(for: shared.settings),
            envelopes: EnvelopeParsers(includesOwn: shared.settings.readsEnvelopes), relay: makeRelay(origin),
            plainRelay: makePlainRelay(origin), keyLimit: shared.settings.playlistKeys ?? HLSPlaylist.defaultKeyLimit,
            memoryLimit: shared.settings.playlistMemory ?? HLSPlaylist.defaultMemoryLimit,
            outputLevel: { [session] in session.outputLevel }, choice: choice,
            onLeftOut: { onLeftOut($0, origin) }, onDeparture: { onDeparture($0, origin) }, onFiles: onFiles)
        loader = IdentityKeyLoader(origin: origin, timeout: shared.settings.keyWait)
        session.addLoader(loader)
    }

    func didObserve() { if let id = observation.id { keys.setObserver(id) } }

    func setPlaying(_ isPlaying: Bool) { keys.setPlaying(isPlaying) }

    func hasUsed(_ keyIDs: [KeyID]) -> Bool { keys.hasUsed(keyIDs) }

    func keysDidFail() { presentation.keysDidFail() }

    func end() {
        presentation.close()
        routes.forget()
        PlayNotes.wait(for: [session.unwrittenPlays])
        observation.end()
        session.removeLoader(loader)
    }
}
