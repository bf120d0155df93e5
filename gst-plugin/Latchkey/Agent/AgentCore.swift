// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyOffline
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// What an agent is, apart from its lifetime: players hold this, and the application holds the agent. Thread-safe.
final class AgentCore: Sendable {
    let contentURL: String
    let type: ContentType
    let configuration: Agent.Configuration
    let events = Broadcast<AgentEvent>()
    private let stateBroadcast = Broadcast<AgentState>(beginningWith: .initialized)
    let guarded = Mutex(Guarded())

    struct Guarded {
        var parts: AgentSession?
        var content: InspectedContent?
        /// The manifest, as it was looked at, for the player that is made next.
        var fetched: ManifestHandover.Content?
        var customData: String?
        var hdmiMode = HDMIMode.standard
        var alternativePicture: AlternativePicture?
        var selectedAudioTrack: String?
        var progress = AgentProgress()
        var frequency = EventFrequency()
        var attachments: [UInt64: Attachment] = [:]
        var lastAttachment: UInt64 = 0
        var http: HTTPClientWatch?
        /// Keeps the viewing session between a license and its playback.
        var use: PlaybackUse?
        var isReleased = false
        /// Content that is in the cache, in part, comes from the network for the rest.
        var usesNetwork = false
        /// Why the outputs show nothing; nil where they do.
        var outputsBlocked: String?
        /// The end of playback was reported: the error that follows is not reported again.
        var hasToldEnd = false
        /// The number of the last seek that was logged.
        var lastSeek: UInt32?
        /// The last answer that was no content, or is called a web page.
        var foreign: (content: ForeignContent, url: String)?
        /// Types of no content that media had all the same.
        var typesOfMedia: Set<String> = []
    }

    /// A pipeline that plays this content.
    struct Attachment: Sendable {
        let pipeline: WeakPipeline
        var bus: BusObservation?
        /// The session that its elements use.
        var session: KeySession
        /// What takes the name of an audio track.
        var demuxers: [WeakPipeline] = []
        var fileAudio = FileAudio()
        /// Serves what is cached of the content.
        var gateway: CacheGateway?
        /// Has the manifest for the player's source.
        var handover: ManifestHandover?
    }

    init(contentURL: String, type: ContentType, configuration: Agent.Configuration) {
        self.contentURL = contentURL
        self.type = type
        self.configuration = configuration
    }

    // MARK: State

    var state: AgentState { guarded.withLock { $0.progress.state } }
    var states: AsyncStream<AgentState> { stateBroadcast.stream() }

    func advance(_ event: AgentProgress.Event) {
        let new = guarded.withLock { guarded -> AgentState? in
            guard let new = guarded.progress.take(event) else { return nil }
            // Under the lock: several threads tell states in the order in which they are entered.
            stateBroadcast.send(new)
            events.send(.stateChanged(new))
            return new
        }
        if let new { log(.debug, "the agent is \(new.rawValue)") }
    }

    // MARK: Telling

    func log(_ level: AgentLogMessage.Level, _ text: @autoclosure () -> String) {
        #if !LATCHKEY_PROTECTED
            let message = AgentLogMessage(level, String(text().map { $0.isNewline ? " " : $0 }))
            AgentLog.write(message)
            guard level >= configuration.logThreshold else { return }
            events.send(.logMessage(message))
            post("latchkey-agent-log", [("level", .string("\(level)")), ("text", .string(message.text))])
        #endif
    }

    /// Posts an element message on every pipeline that plays the content.
    func post(_ name: String, _ fields: [(String, FieldValue)]) {
        for attachment in guarded.withLock({ Array($0.attachments.values) }) {
            attachment.pipeline.with { $0.post(name, fields) }
        }
    }

    func rightsAreMissing(_ status: RightsStatus, _ keyIDs: [KeyID]) {
        if status.kind == .untrustedTime { return timeIsUntrusted(status.reason) }
        guard guarded.withLock({ $0.frequency.rightsAreMissing() }) else { return }
        log(.warning, "no rights: \(status)")
        events.send(.rightsNotAvailable(status, keyIDs))
        post(
            "latchkey-agent-rights-not-available",
            [
                ("status", .string(status.kind.rawValue)), ("reason", .string(status.reason)),
                ("key-ids", .strings(keyIDs.map(\.description))),
            ])
    }

    func timeIsUntrusted(_ reason: String) {
        guard guarded.withLock({ $0.frequency.timeIsUntrusted() }) else { return }
        log(.warning, "the time is not trusted: \(reason)")
        events.send(.untrustedSystemTime(reason: reason))
        post("latchkey-agent-untrusted-time", [("reason", .string(reason))])
    }

    func contentIsInvalid(_ reason: String, at url: String) {
        guard guarded.withLock({ $0.frequency.contentIsInvalid() }) else { return }
        let url = HTTPRequest(url: url).printableURL
        log(.warning, "\(url): \(reason)")
        events.send(.invalidContent(url: url, reason: reason))
        post("latchkey-agent-invalid-content", [("url", .string(url)), ("reason", .string(reason))])
    }

    private func serverDidFail(_ status: Int, at url: String) {
        let url = HTTPRequest(url: url).printableURL
        log(.warning, "\(url) answers with HTTP status \(status)")
        events.send(.serverError(url: url, status: status))
        post("latchkey-agent-server-error", [("url", .string(url)), ("http-status", .uint(UInt32(clamping: status)))])
    }

    func playbackShouldBeAborted(_ reason: String) {
        log(.error, "playback should be aborted: \(reason)")
        events.send(.playbackShouldBeAborted(reason: reason))
        post("latchkey-agent-playback-should-be-aborted", [("reason", .string(reason))])
    }

    func playbackWillBeAborted(_ reason: String) {
        log(.error, "playback will be aborted: \(reason)")
        events.send(.playbackWillBeAborted(reason: reason))
        post("latchkey-agent-playback-will-be-aborted", [("reason", .string(reason))])
    }

    private func cacheEdgeWasReached(_ edge: Duration?, _ reason: String) {
        log(.warning, "playback has come to the end of what is cached: \(reason)")
        events.send(.cacheEdgeReached(cachedDuration: edge, reason: reason))
        let milliseconds = edge.map { UInt64(clamping: $0.milliseconds) } ?? 0
        post(
            "latchkey-agent-cache-edge-reached",
            [("cached-duration", .uint64(milliseconds * 1_000_000)), ("reason", .string(reason))])
    }

    // MARK: Settings

    var customData: String? {
        get { guarded.withLock { $0.customData } }
        set { guarded.withLock { $0.customData = newValue } }
    }

    var hdmiMode: HDMIMode {
        get { guarded.withLock { $0.hdmiMode } }
        set {
            let pipelines = guarded.withLock { guarded in
                guarded.hdmiMode = newValue
                return guarded.attachments.values.map(\.pipeline)
            }
            for pipeline in pipelines { pipeline.with { setGuards(in: $0) } }
        }
    }

    func setAlternativePicture(_ picture: AlternativePicture?) {
        let pipelines = guarded.withLock { guarded in
            guarded.alternativePicture = picture
            return guarded.attachments.values.map(\.pipeline)
        }
        for pipeline in pipelines { pipeline.with { setGuards(in: $0) } }
    }

    /// Nil where no session server is configured, or nothing was asked for yet.
    var viewing: ViewingPermit? { guarded.withLock { $0.parts }?.session.viewing }

    // MARK: The end

    /// The application gave the agent up: keys are closed, and all playback ends.
    func release() {
        let (wasReleased, parts, attachments, watch) = guarded.withLock { guarded in
            defer { (guarded.isReleased, guarded.parts, guarded.attachments, guarded.http) = (true, nil, [:], nil) }
            return (guarded.isReleased, guarded.parts, guarded.attachments, guarded.http)
        }
        guard !wasReleased else { return }
        parts?.session.close(.sessionClosed("the agent was released"))
        withExtendedLifetime((attachments, watch)) { keep(nil) }
        guard let viewing = parts?.session.viewing, viewing.isEnding else { return finish() }
        // What goes wrong at the end of the viewing session is the last event. It may come over a bus.
        Task { [buses = attachments.values.map(\.bus)] in
            await viewing.ended()
            withExtendedLifetime(buses) { finish() }
        }
    }

    private func finish() {
        events.finish()
        stateBroadcast.finish()
    }
}

extension AgentCore {
    // MARK: Making

    func makePlayer() throws(AgentError) -> Player {
        guard Latchkey.registerElements() else { throw .configuration("GStreamer refuses Latchkey's elements") }
        guard let element = gst_element_factory_make("playbin3", nil) else {
            throw .configuration("GStreamer's playbin3 is missing: install gstreamer1.0-plugins-base")
        }
        let pipeline = Pipeline(element)
        let gateway = try cacheGateway()
        let handover = gateway == nil ? manifestHandover() : nil
        element.setProperty("uri", .string(gateway?.url ?? handover?.url ?? contentURL))
        do throws(PipelineError) {
            for (name, sink) in [
                ("video-sink", configuration.videoSink), ("audio-sink", configuration.audioSink),
            ] {
                let bin = try Pipeline.bin(sink, behind: "latchkeyguard name=latchkey-guard ! ", of: name)
                element.setElement(name, bin)
                if let guardElement = Pipeline.element("latchkey-guard", in: bin) {
                    guardElement.pointer.setProperty("outputs", .string(configuration.outputs))
                }
            }
        } catch {
            throw .configuration(error.description)
        }
        let id = try attachment(to: element)
        guarded.withLock {
            $0.attachments[id]?.gateway = gateway
            $0.attachments[id]?.handover = handover
        }
        noteStoredContent()
        // Behind the attachment, from which on changes reach the player.
        setGuards(in: ElementReference(element))
        return Player(pipeline, of: self, attachment: id)
    }

    func attach(to pipeline: UnsafeMutablePointer<GstElement>) throws(AgentError) {
        guard Latchkey.registerElements() else { throw .configuration("GStreamer refuses Latchkey's elements") }
        let id = try attachment(to: pipeline)
        lead(pipeline, in: id)
        setGuards(in: ElementReference(pipeline))
    }

    func attach(pipeline description: String) throws(AgentError) -> Player {
        guard Latchkey.registerElements() else { throw .configuration("GStreamer refuses Latchkey's elements") }
        let element: UnsafeMutablePointer<GstElement>
        do throws(PipelineError) {
            element = try Pipeline.launch(description)
        } catch {
            throw .configuration(error.description)
        }
        let pipeline = Pipeline(element)
        let id = try attachment(to: element)
        lead(element, in: id)
        setGuards(in: ElementReference(element))
        return Player(pipeline, of: self, attachment: id)
    }

    /// Sources that are in a pipeline already; those that come later are led as they do.
    private func lead(_ pipeline: UnsafeMutablePointer<GstElement>, in id: UInt64) {
        ElementReference(pipeline).forEachWithURI { leadToCache($0, in: id) }
    }

    /// Brings what the application makes of outputs to the guards of a pipeline, as it plays or before.
    private func setGuards(in pipeline: ElementReference) {
        var mode: HDMIMode
        repeat {
            mode = hdmiMode
            pipeline.forEachAround(madeBy: "latchkeyguard") {
                setPicture(of: $0.reference)
                $0.reference.pointer.setProperty("hdmi-mode", .string(mode.rawValue))
            }
            // Set by another thread meanwhile, which may have been quicker here.
        } while hdmiMode != mode
    }

    private func setPicture(of guardElement: ElementReference) {
        AlternativePicture.set(guarded.withLock { $0.alternativePicture }, of: guardElement)
    }

    /// Gives the pipeline the session, and watches it. Returns the attachment's number.
    private func attachment(to element: UnsafeMutablePointer<GstElement>) throws(AgentError) -> UInt64 {
        let parts = try session()
        PipelineSession.attach(parts.session, settings: parts.settings, to: element)
        let id = guarded.withLock { guarded in
            guarded.lastAttachment += 1
            guarded.attachments[guarded.lastAttachment] = Attachment(
                pipeline: WeakPipeline(element), session: parts.session)
            return guarded.lastAttachment
        }
        noteStoredContent()
        let bus = BusObservation(element) { [weak self] event in
            if case .streamsSelected(let streams) = event { self?.note(selected: streams, in: id) }
            self?.handle(event)
        }
        guarded.withLock { $0.attachments[id]?.bus = bus }
        if Self.httpClients.contains(where: { ElementReference(element).hasNeighbour(madeBy: $0) }) { watchHTTP() }
        // The pipeline gives it up when it goes.
        let end = Pipeline.isBin(element) ? EndOfPipeline { [weak self] in self?.forget(id) } : nil
        Pipeline.onElementAdded(to: element) { [weak self] element in
            withExtendedLifetime(end) { self?.elementDidAppear(element, in: id) }
        }
        ElementReference(element).forEachNeighbour(madeBy: "decodebin3") { chooseAudio(with: $0, in: id) }
        lookForFileAudio()
        let version = Environment.gstreamerVersion
        log(.info, "Latchkey \(Latchkey.versionForLog()), GStreamer \(version.major).\(version.minor).\(version.micro)")
        return id
    }

    /// Before the pipeline of an attachment starts: a session that was closed meanwhile gives way to a new one.
    func willStart(_ id: UInt64, _ element: UnsafeMutablePointer<GstElement>) throws(AgentError) {
        let parts = try session()
        if Self.isStopped(element) { endHandover(of: id, element) }
        let isNew = guarded.withLock { guarded in
            guard guarded.attachments[id]?.session !== parts.session else { return false }
            guarded.attachments[id]?.session = parts.session
            return true
        }
        guard isNew else { return }
        PipelineSession.attach(parts.session, settings: parts.settings, to: element)
        noteStoredContent()
    }

    /// It plays nothing, and is not about to.
    static func isStopped(_ element: UnsafeMutablePointer<GstElement>) -> Bool {
        var (state, pending) = (GST_STATE_VOID_PENDING, GST_STATE_VOID_PENDING)
        _ = gst_element_get_state(element, &state, &pending, 0)
        return pending == GST_STATE_VOID_PENDING && state.rawValue <= GST_STATE_READY.rawValue
    }

    /// Where the manifest that was looked at is of no use any more, the player reads the content's own URL: credentials that the
    /// application gives its source may not follow a redirect.
    private func endHandover(of id: UInt64, _ element: UnsafeMutablePointer<GstElement>) {
        let spent = guarded.withLock { guarded -> ManifestHandover? in
            guard let handover = guarded.attachments[id]?.handover, handover.isSpent else { return nil }
            guarded.attachments[id]?.handover = nil
            return handover
        }
        if spent != nil { element.setProperty("uri", .string(contentURL)) }
    }

    /// The elements that fetch with libsoup. The first of them brings it into the process; a player that waits for its
    /// turn does without.
    private static let httpClients: Set = ["souphttpsrc", "hlsdemux2", "dashdemux2", "mssdemux2"]

    private func watchHTTP() {
        guard guarded.withLock({ $0.http == nil }) else { return }
        let watch = HTTPClientWatch { [weak self] in self?.handle($0) }
        let surplus = guarded.withLock { guarded -> HTTPClientWatch? in
            guard guarded.http == nil, !guarded.attachments.isEmpty else { return watch }
            guarded.http = watch
            return nil
        }
        withExtendedLifetime(surplus) {}
    }

    private final class EndOfPipeline: Sendable {
        private let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }

        deinit { body() }
    }

    /// The pipeline of an attachment is gone.
    func forget(_ id: UInt64) {
        let (attachment, watch) = guarded.withLock { guarded in
            let attachment = guarded.attachments.removeValue(forKey: id)
            guard guarded.attachments.isEmpty else { return (attachment, nil as HTTPClientWatch?) }
            defer { guarded.http = nil }
            return (attachment, guarded.http)
        }
        withExtendedLifetime((attachment, watch)) {}
    }

    // MARK: Inside

    private func elementDidAppear(_ element: ElementReference, in id: UInt64) {
        let factory = element.factoryName
        if let factory, Self.httpClients.contains(factory) { watchHTTP() }
        if let factory, let milliseconds = outageLimit(of: factory, in: id) {
            element.pointer.setProperty("outage-limit", .uint(milliseconds))
        }
        switch factory {
        case "latchkeyhlsdemux", "latchkeydashdemux", "latchkeymssdemux":
            let track = guarded.withLock { guarded in
                guarded.attachments[id]?.demuxers.append(WeakPipeline(element.pointer))
                return guarded.selectedAudioTrack
            }
            if let track { element.pointer.setProperty("audio-track", .string(track)) }
        case "decodebin3": chooseAudio(with: element, in: id)
        case "parsebin":
            // What an adaptive demuxer has fetched comes in here.
            guard let sink = element.pad("sink") else { return }
            let check = FragmentCheck()
            sink.probeBuffers { [weak self] buffer in
                switch check.look(at: buffer) {
                case .webPage:
                    guard let self else { return nil }
                    foreignContentDidCome(.webPage, at: guarded.withLock { $0.foreign?.url } ?? contentURL)
                    return nil
                case .start: self?.guarded.withLock { $0.frequency.contentWasRead() }
                case .rest: break
                }
                return buffer
            }
        case "latchkeyguard":
            element.pad("src")?.probeEvents(.upstream) { [weak self] event in
                if let target = event.seekTarget { self?.logSeek(to: target, event.sequenceNumber) }
                return event
            }
        // Of `playbin3` and its like: as the URI was given to them.
        default:
            leadToCache(element, in: id)
        }
    }

    /// Once, though it goes to several sinks.
    private func logSeek(to target: UInt64, _ number: UInt32) {
        let isNew = guarded.withLock { guarded in
            defer { guarded.lastSeek = number }
            return guarded.lastSeek != number
        }
        if isNew { log(.info, "seek to \(target / 1_000_000) ms") }
    }

    /// For how long the element is to wait for outages, in milliseconds; nil for elements that do not.
    private func outageLimit(of factory: String, in id: UInt64) -> UInt32? {
        switch factory {
        case "latchkeyhlsdemux", "latchkeymssdemux": break
        // What comes out of the cache has no outages: what is not there is its edge.
        case "latchkeydashdemux", "latchkeyisodec", "latchkeywebmrelay":
            if guarded.withLock({ $0.attachments[id]?.gateway != nil }) { return 0 }
        default: return nil
        }
        return UInt32(clamping: configuration.outageTimeout.milliseconds)
    }

    private func foreignContentDidCome(_ content: ForeignContent, at url: String) {
        guarded.withLock { $0.foreign = (content, url) }
        contentIsInvalid(
            "\(content.rawValue) came in the place of media, as from the log-in page of a network", at: url)
    }

    var selectedAudioTrack: String? {
        get { guarded.withLock { $0.selectedAudioTrack } }
        set {
            let demuxers = guarded.withLock { guarded in
                guarded.selectedAudioTrack = newValue
                return guarded.attachments.values.flatMap(\.demuxers)
            }
            for demuxer in demuxers {
                demuxer.with { $0.pointer.setProperty("audio-track", .string(newValue ?? "")) }
            }
            lookForFileAudio()
            changeFileAudio()
        }
    }

    // MARK: The network

    private func handle(_ answer: HTTPClientAnswer) {
        guard isOurs(answer) else { return }
        if answer.isFinished {
            guard answer.status > 0 else { return }
            return logRequest(answer.url, Int(answer.status), size: answer.length, nanoseconds: answer.elapsed ?? 0)
        }
        if answer.status >= 400 { serverDidFail(Int(answer.status), at: answer.url) }
        if answer.status < 300, let type = ForeignContent.type(answer.contentType ?? ""),
            type == "text/html" || !type.hasPrefix("image/") && isBesideContent(answer.url)
        {
            check(answer.url, type)
        }
    }

    /// What else the application fetches from the content's server may have such a type by right.
    private func isBesideContent(_ url: String) -> Bool {
        let content = URIReference(contentURL).printable
        return content.lastIndex(of: "/").map { URIReference(url).printable.hasPrefix(content[...$0]) } ?? false
    }

    private func logWrongType(_ type: String, of url: String) {
        log(.info, "\(HTTPRequest(url: url).printableURL) has the type \(type), and is read as media")
    }

    private func logRequest(_ url: String, _ status: Int, size: UInt64?, nanoseconds: UInt64) {
        let time = nanoseconds / 1_000_000
        let rate = size.flatMap { size in time > 0 ? min(size / time, .max / 8) * 8 : nil }
        log(
            .debug,
            "\(HTTPRequest(url: url).printableURL): HTTP \(status) in \(time) ms"
                + (size.map { ", \($0) bytes" } ?? "") + (rate.map { ", \($0) kbit/s" } ?? ""))
    }

    /// What adaptive demuxers tell of the segments that it fetches.
    private func segmentWasFetched(
        _ outcome: String, _ url: String, _ reason: String, _ status: Int, _ type: String, _ size: UInt64,
        _ time: UInt64
    ) {
        switch outcome {
        case "done":
            logRequest(url, status, size: size, nanoseconds: time)
            if let type = ForeignContent.type(type) { logWrongType(type, of: url) }
        case "server-error": serverDidFail(status, at: url)
        case "invalid-content": ForeignContent(rawValue: reason).map { foreignContentDidCome($0, at: url) }
        case "no-network": log(.warning, "\(reason) Playback waits, and it is asked for again.")
        default: break
        }
    }

    /// Looks whether it is no content that a server sends there, or media with a wrong type: demuxers may swallow either. Of a
    /// server that gives media such a type, web pages alone are expected.
    private func check(_ url: String, _ type: String) {
        let isPage = type == "text/html"
        let isKnown = guarded.withLock { guarded in
            if isPage { guarded.foreign = (.webPage, url) }
            return !isPage && guarded.typesOfMedia.contains(type)
        }
        if isKnown { return logWrongType(type, of: url) }
        Task { [weak self] in
            let start = try? await ContentSource(transport: CurlTransport.shared).part(
                url, offset: 0, count: ForeignContent.size)
            guard let self, let start else { return }
            if let content = ForeignContent(start: start.bytes) { return foreignContentDidCome(content, at: url) }
            // A server may have others for ever.
            guarded.withLock { if $0.typesOfMedia.count < 16 { $0.typesOfMedia.insert(type) } }
            logWrongType(type, of: url)
        }
    }

    /// Adaptive demuxers name their manifest as the referrer. What they ask this process itself for is no server's.
    ///
    /// Workaround (GStreamer >=1.26): they name none, and the URL has to be of the content's origin.
    private func isOurs(_ answer: HTTPClientAnswer) -> Bool {
        let (content, url) = (URIReference(contentURL), URIReference(answer.url))
        if url.printable == content.printable { return true }
        guard let referrer = answer.referrer else { return url.origin != nil && url.origin == content.origin }
        guard URIReference(referrer).printable == content.printable else { return false }
        return url.origin?.hasPrefix("http://127.0.0.1:") != true || url.origin == content.origin
    }

    // MARK: The bus

    func handle(_ event: BusEvent) {
        let isOver = guarded.withLock { $0.isReleased }
        switch event {
        case .element(let name, let fields) where !isOver || name == "latchkey-session-teardown-error":
            handle(name, fields)
        case _ where isOver, .element, .streamsSelected: break
        case .stateChanged(from: .null, to: .ready): advance(.begins)
        case .stateChanged(from: _, to: .playing):
            log(.info, "the player plays")
            keep(nil)
            advance(.plays)
        case .stateChanged(from: _, to: .paused): advance(.pauses)
        case .stateChanged: advance(.stopped)
        case .endOfStream:
            tellCacheEdge()
            log(.info, "the player has come to the end")
            advance(.endOfStream)
        case .warning(let text, let debug): log(.warning, Self.withoutQueries("\(text) \(debug)", of: contentURL))
        case .error(let domain, let code, let text, let debug, _): playbackDidFail(domain, code, text, debug)
        }
    }

    /// GStreamer's words have whole URLs. Queries stay out of the log, and so do paths of our own server, which are secret. The
    /// server of `content` may be on this machine, too.
    static func withoutQueries(_ text: String, of content: String) -> String {
        let home = URIReference(content).origin
        return text.split(omittingEmptySubsequences: false) { $0.isWhitespace }.map { word in
            guard let scheme = word.firstRange(of: "://") else { return String(word) }
            if word[scheme.upperBound...].hasPrefix("127.0.0.1"),
                home == nil || URIReference(String(word)).origin != home
            {
                return word[..<scheme.upperBound] + "127.0.0.1/…"
            }
            return HTTPRequest(url: String(word)).printableURL
        }.joined(separator: " ")
    }

    private func playbackDidFail(_ domain: String, _ code: Int32, _ text: String, _ debug: String) {
        log(.error, Self.withoutQueries("\(text) \(debug)", of: contentURL))
        let isStream = domain == "gst-stream-error-quark"
        func isOne(of codes: GstStreamError...) -> Bool { isStream && codes.contains { $0.number == code } }
        // What the decoders of libvpx and libaom say of a frame that they cannot decode, with one code or another.
        let isUndecoded = domain == "gst-library-error-quark"
        let (hasToldEnd, blocked, foreign, isProtected) = guarded.withLock {
            ($0.hasToldEnd, $0.outputsBlocked, $0.foreign, $0.content?.isProtected ?? true)
        }
        // A session may have been closed before there was a pipeline to tell it to. A guard closes keys before it tells.
        let session = guarded.withLock { $0.parts }?.session
        let violation = blocked ?? session?.outputViolation
        if isOne(of: GST_STREAM_ERROR_DECRYPT_NOKEY), hasToldEnd || session?.isClosed == true || violation != nil {
            if !hasToldEnd { playbackWillBeAborted(violation ?? text) }
            return advance(.aborted)
        }
        if let foreign, isOne(of: GST_STREAM_ERROR_TYPE_NOT_FOUND, GST_STREAM_ERROR_WRONG_TYPE, GST_STREAM_ERROR_DEMUX)
        {
            contentIsInvalid("it is \(foreign.content.rawValue), as from the log-in page of a network", at: foreign.url)
        } else if isProtected,
            isUndecoded
                || isOne(
                    of: GST_STREAM_ERROR_DECRYPT, GST_STREAM_ERROR_DECODE, GST_STREAM_ERROR_DEMUX,
                    GST_STREAM_ERROR_FORMAT, GST_STREAM_ERROR_WRONG_TYPE)
        {
            playbackShouldBeAborted(text)
        }
        advance(.failed)
    }

    private func handle(_ name: String, _ fields: [String: FieldValue]) {
        func text(_ field: String) -> String { if case .string(let text?)? = fields[field] { text } else { "" } }
        func flag(_ field: String) -> Bool { fields[field] == .boolean(true) }
        func texts(_ field: String) -> [String] { if case .strings(let list)? = fields[field] { list } else { [] } }
        var details: SessionErrorDetails {
            var status = 0
            if case .uint(let number)? = fields["http-status"] { status = Int(number) }
            return SessionErrorDetails(
                httpStatus: status, code: text("code"), message: text("message"), reason: text("reason"),
                conflicts: texts("conflicts"))
        }
        switch name {
        case "latchkey-fetch":
            var (status, size, time): (UInt32, UInt64, UInt64) = (0, 0, 0)
            if case .uint(let number)? = fields["http-status"] { status = number }
            if case .uint64(let number)? = fields["size"] { size = number }
            if case .uint64(let number)? = fields["time"] { time = number }
            return segmentWasFetched(
                text("outcome"), text("url"), text("reason"), Int(status), text("content-type"), size, time)
        case "latchkey-wrong-key":
            playbackShouldBeAborted("the key for \(text("key-name")) is a wrong one: \(text("reason"))")
        case "latchkey-session-setup-error": events.send(.sessionSetupError(details))
        case "latchkey-session-heartbeat-error": events.send(.sessionHeartbeatError(details, isFinal: flag("final")))
        case "latchkey-session-teardown-error": events.send(.sessionTeardownError(details))
        case "latchkey-output-protection":
            var pixels: UInt64 = 0
            if case .uint64(let number)? = fields["max-pixels"] { pixels = number }
            let reasons = texts("reasons")
            let isBlocked = text("status") == "blocked"
            guarded.withLock { $0.outputsBlocked = isBlocked ? reasons.joined(separator: "; ") : nil }
            events.send(
                .outputStatus(
                    OutputStatus(
                        status: text("status"), showsVideo: flag("video"), playsAudio: flag("audio"),
                        maximumPixels: pixels > 0 ? pixels : nil, reasons: reasons)))
        default: return
        }
        log(.info, "\(name): \(text("reason"))\(text("status"))")
    }
}

/// Content that is in the cache: looked at and played from there.
extension AgentCore {
    private var cachedItem: CachedItem? {
        guard let format = type.cacheFormat else { return nil }
        return configuration.cache?.cachedItem(contentURL, format: format)
    }

    /// What content is looked at with.
    func contentTransport() -> any HTTPTransport {
        guard let item = cachedItem else { return CurlTransport.shared }
        return CachedTransport(item, otherwise: CurlTransport.shared) { [weak self] in
            self?.log(.warning, "from the cache: \($0)")
        }
    }

    /// Nil where nothing of the content is in the cache.
    private func cacheGateway() throws(AgentError) -> CacheGateway? {
        guard let item = cachedItem else { return nil }
        do throws(CacheError) {
            return try CacheGateway(
                item, position: { [weak self] in self?.position },
                onEvent: { [weak self] in self?.handle($0) })
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// A source element of a pipeline that the application made reads from the cache, where the content is in there. Call it
    /// before the source begins.
    private func leadToCache(_ source: ElementReference, in id: UInt64) {
        guard let uri = source.sourceURI, URIReference.normalized(uri) == URIReference.normalized(contentURL) else {
            return
        }
        if let gateway = gateway(of: id) {
            if !source.setSourceURI(gateway.url) { log(.warning, "\(source.name) cannot read from the cache") }
        }
    }

    /// The content's URL for what a gateway serves; nil for other URLs.
    func originalURL(_ url: String) -> String? {
        let own = guarded.withLock { $0.attachments.values.flatMap { [$0.gateway?.url, $0.handover?.url] } }
        let origin = URIReference(url).origin
        return own.compactMap(\.self).contains { URIReference($0).origin == origin } ? contentURL : nil
    }

    /// That of an attachment, which lives as long; nil where nothing of the content is in the cache.
    private func gateway(of id: UInt64) -> CacheGateway? {
        if let known = guarded.withLock({ $0.attachments[id]?.gateway }) { return known }
        let made: CacheGateway?
        do throws(AgentError) { made = try cacheGateway() } catch {
            log(.warning, "the cache is left aside: \(error)")
            return nil
        }
        guard let made else { return nil }
        // Two sources may begin at once. The one that is too much ends behind the lock.
        let gateway = withExtendedLifetime(made) {
            guarded.withLock { guarded in
                let gateway = guarded.attachments[id]?.gateway ?? made
                guarded.attachments[id]?.gateway = gateway
                return gateway
            }
        }
        noteStoredContent()
        return gateway
    }

    /// Content that is stored needs no viewing session while its keys are stored, too.
    private func noteStoredContent() {
        let (session, isStored) = guarded.withLock { guarded in
            let hasGateway = guarded.attachments.values.contains { $0.gateway != nil }
            return (
                guarded.parts?.session,
                hasGateway && !guarded.usesNetwork || isLocalFile || ViewingPermit.isFile(contentURL)
            )
        }
        if isStored { session?.setContentIsStored(true) }
    }

    /// Of whatever plays.
    private var position: Duration? {
        let pipelines = guarded.withLock { $0.attachments.values.map(\.pipeline) }
        return pipelines.lazy.compactMap { $0.with { $0.shownPosition() } ?? nil }.first
            .map { .nanoseconds(Int64(clamping: $0)) }
    }

    func handle(_ event: CacheGateway.Event) {
        switch event {
        case .usesNetwork:
            let session = guarded.withLock { guarded in
                guarded.usesNetwork = true
                return guarded.parts?.session
            }
            session?.setContentIsStored(false)
        case .edgeReached(let edge, let error): cacheEdgeWasReached(edge, error.reason)
        case .failure(let error):
            log(.warning, "from the cache: \(error)")
            if let status = error.httpStatus { serverDidFail(status, at: contentURL) }
            if error.code == .invalidContent {
                let url = error.url ?? contentURL
                contentIsInvalid(String(error.reason.trimmingPrefix("\(url): ")), at: url)
            }
        }
    }

    /// At the end of playback: whether that is the end of the content, or of what is cached.
    private func tellCacheEdge() {
        for gateway in guarded.withLock({ $0.attachments.values.compactMap(\.gateway) }) {
            guard let edge = gateway.edge else { continue }
            cacheEdgeWasReached(edge, "the rest is not cached, and there is no network")
        }
    }
}
