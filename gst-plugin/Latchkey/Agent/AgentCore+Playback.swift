// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyOffline
import LatchkeyElementKit
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

extension AgentCore {
    // MARK: Making

    func makePlayer() throws(AgentError) -> Player {
        guard Latchkey.registerElements() else { throw .configuration("GStreamer refuses Latchkey's elements") }
        guard let element = gst_element_factory_make("playbin3", nil) else {
            throw .configuration("GStreamer's playbin3 is missing: install gstreamer1.0-plugins-base")
        }
        let pipeline = Pipeline(element)
        let gateway = try cacheGateway()
        let file = gateway == nil ? fileGateway() : nil
        element.setProperty("uri", .string(gateway?.url ?? file?.url ?? contentURL))
        do throws(PipelineError) {
            for (name, sink) in [
                ("video-sink", configuration.videoSink), ("audio-sink", configuration.audioSink),
            ] {
                let bin = try Pipeline.bin("latchkeyguard name=latchkey-guard ! \(sink)")
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
            $0.attachments[id]?.file = file
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
    func setGuards(in pipeline: ElementReference) {
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
        let bus = BusObservation(element) { [weak self] event in self?.handle(event) }
        guarded.withLock { $0.attachments[id]?.bus = bus }
        if Self.httpClients.contains(where: { ElementReference(element).hasNeighbour(madeBy: $0) }) { watchHTTP() }
        // The pipeline gives it up when it goes.
        let end = Pipeline.isBin(element) ? EndOfPipeline { [weak self] in self?.forget(id) } : nil
        Pipeline.onElementAdded(to: element) { [weak self] element in
            withExtendedLifetime(end) { self?.elementDidAppear(element, in: id) }
        }
        let version = Environment.gstreamerVersion
        log(.info, "Latchkey \(Latchkey.version), GStreamer \(version.major).\(version.minor).\(version.micro)")
        return id
    }

    /// Before the pipeline of an attachment starts: a session that was closed meanwhile gives way to a new one.
    func willStart(_ id: UInt64, _ element: UnsafeMutablePointer<GstElement>) throws(AgentError) {
        let parts = try session()
        let isNew = guarded.withLock { guarded in
            guard guarded.attachments[id]?.session !== parts.session else { return false }
            guarded.attachments[id]?.session = parts.session
            return true
        }
        guard isNew else { return }
        PipelineSession.attach(parts.session, settings: parts.settings, to: element)
        noteStoredContent()
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
        if let factory, waitsForOutages(factory, in: id) {
            let milliseconds = UInt32(clamping: configuration.outageTimeout.milliseconds)
            element.pointer.setProperty("outage-limit", .uint(milliseconds))
        }
        switch factory {
        case "latchkeymssdemux":
            let track = guarded.withLock { guarded in
                guarded.attachments[id]?.demuxers.append(WeakPipeline(element.pointer))
                return guarded.selectedAudioTrack
            }
            if let track { element.pointer.setProperty("audio-track", .string(track)) }
        case "parsebin":
            // What an adaptive demuxer has fetched comes in here.
            guard let sink = element.pad("sink") else { return }
            let check = FragmentCheck()
            sink.probeBuffers { [weak self] buffer in
                switch check.look(at: buffer) {
                case .webPage:
                    self?.webPageDidCome()
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
            waitForOutages(element, in: id)
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

    private func waitsForOutages(_ factory: String, in id: UInt64) -> Bool {
        switch factory {
        case "latchkeyhlsdemux", "latchkeymssdemux": true
        // What comes out of the cache has no outages: what is not there is its edge.
        case "latchkeydashdemux": guarded.withLock { $0.attachments[id]?.gateway == nil }
        default: false
        }
    }

    /// Serves whole files at a server; nil for other content, and where outages are not waited for.
    func fileGateway() -> FileGateway? {
        guard type == .mp4 || type == .piff else { return nil }
        return FileGateway(contentURL, limit: configuration.outageTimeout) { [weak self] fields in
            self?.handle("latchkey-fetch", fields)
        } lose: { [weak self] reason in
            self?.log(.error, reason)
        }
    }

    /// A source that reads from the gateway waits for as long as that does.
    func waitForOutages(_ source: ElementReference, in id: UInt64) {
        guard let uri = source.sourceURI, source.factoryName == "souphttpsrc",
            uri == guarded.withLock({ $0.attachments[id]?.file?.url })
        else { return }
        source.pointer.setProperty("timeout", .uint(0))
    }

    private func webPageDidCome() {
        let url = guarded.withLock { $0.webPageURL } ?? contentURL
        contentIsInvalid(Self.webPageReason, at: url)
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
        if answer.status < 300, answer.contentType?.lowercased().hasPrefix("text/html") == true { check(answer.url) }
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
        _ outcome: String, _ url: String, _ reason: String, _ status: Int, _ size: UInt64, _ time: UInt64
    ) {
        switch outcome {
        case "done": logRequest(url, status, size: size, nanoseconds: time)
        case "server-error": serverDidFail(status, at: url)
        case "web-page":
            guarded.withLock { $0.webPageURL = url }
            contentIsInvalid(Self.webPageReason, at: url)
        case "no-network": log(.warning, "\(reason) Playback waits, and it is asked for again.")
        default: break
        }
    }

    private static let webPageReason = "a web page came in the place of media, as from the log-in page of a network"

    /// Looks whether it is a web page that a server sends there, or media with a wrong type: demuxers may swallow either.
    private func check(_ url: String) {
        guarded.withLock { $0.webPageURL = url }
        Task { [weak self] in
            let start = try? await ContentSource(transport: CurlTransport.shared).part(
                url, offset: 0, count: WebPage.size)
            guard let start, WebPage.isOne(start: start.bytes) else { return }
            self?.webPageDidCome()
        }
    }

    /// Adaptive demuxers name their manifest as the referrer. What they ask this process itself for is no server's.
    ///
    /// Workaround (GStreamer >=1.26): they name none, and the URL has to be of the content's origin.
    private func isOurs(_ answer: HTTPClientAnswer) -> Bool {
        let content = URIReference(contentURL)
        let url = URIReference(answer.url)
        if url.printable == content.printable { return true }
        guard let referrer = answer.referrer else { return url.origin != nil && url.origin == content.origin }
        guard URIReference(referrer).printable == content.printable else { return false }
        let isLoopback = url.origin?.hasPrefix("http://127.0.0.1:") == true
        return !isLoopback || url.origin == content.origin
    }

    // MARK: The bus

    func handle(_ event: BusEvent) {
        switch event {
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
        case .warning(let text, let debug): log(.warning, Self.withoutQueries("\(text) \(debug)"))
        case .error(let domain, let code, let text, let debug, _): playbackDidFail(domain, code, text, debug)
        case .element(let name, let fields): handle(name, fields)
        }
    }

    /// GStreamer's words have whole URLs. Queries stay out of the log, and so do paths of our own server, which are secret.
    static func withoutQueries(_ text: String) -> String {
        text.split(omittingEmptySubsequences: false) { $0.isWhitespace }.map { word in
            guard let scheme = word.firstRange(of: "://") else { return String(word) }
            if word[scheme.upperBound...].hasPrefix("127.0.0.1") { return word[..<scheme.upperBound] + "127.0.0.1/…" }
            return HTTPRequest(url: String(word)).printableURL
        }.joined(separator: " ")
    }

    private func playbackDidFail(_ domain: String, _ code: Int32, _ text: String, _ debug: String) {
        log(.error, Self.withoutQueries("\(text) \(debug)"))
        let isStream = domain == "gst-stream-error-quark"
        func isOne(of codes: GstStreamError...) -> Bool { isStream && codes.contains { $0.number == code } }
        let (hasToldEnd, blocked, webPage, isProtected) = guarded.withLock {
            ($0.hasToldEnd, $0.outputsBlocked, $0.webPageURL, $0.content?.isProtected ?? true)
        }
        // A session may have been closed before there was a pipeline to tell it to. A guard closes keys before it tells.
        let session = guarded.withLock { $0.parts }?.session
        let violation = blocked ?? session?.outputViolation
        if isOne(of: GST_STREAM_ERROR_DECRYPT_NOKEY), hasToldEnd || session?.isClosed == true || violation != nil {
            if !hasToldEnd { playbackWillBeAborted(violation ?? text) }
            return advance(.aborted)
        }
        if let webPage, isOne(of: GST_STREAM_ERROR_TYPE_NOT_FOUND, GST_STREAM_ERROR_WRONG_TYPE, GST_STREAM_ERROR_DEMUX)
        {
            contentIsInvalid("it is a web page, as the log-in page of a network", at: webPage)
        } else if isProtected,
            isOne(
                of: GST_STREAM_ERROR_DECRYPT, GST_STREAM_ERROR_DECODE, GST_STREAM_ERROR_DEMUX, GST_STREAM_ERROR_FORMAT,
                GST_STREAM_ERROR_WRONG_TYPE)
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
            return segmentWasFetched(text("outcome"), text("url"), text("reason"), Int(status), size, time)
        case "latchkey-wrong-key":
            let keys = texts("key-ids").map { "KID \($0)" }.joined(separator: ", ")
            let name = keys.isEmpty ? "media without a KID" : keys
            playbackShouldBeAborted("the key for \(name) is a wrong one: \(text("reason"))")
        case "latchkey-session-setup-error": events.send(.sessionSetupError(details))
        case "latchkey-session-heartbeat-error":
            events.send(.sessionHeartbeatError(details, isFinal: flag("final")))
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
