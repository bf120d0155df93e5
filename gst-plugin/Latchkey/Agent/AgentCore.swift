// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyOffline
import LatchkeyElementKit
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// What an agent is, apart from its lifetime: players hold this, and the application holds the agent. Thread-safe.
final class AgentCore: Sendable {
    let contentURL: String
    let type: ContentType
    let configuration: Agent.Configuration
    let events = Broadcast<AgentEvent>()
    private let stateBroadcast = Broadcast<AgentState>()
    let guarded = Mutex(Guarded())

    struct Guarded {
        var parts: AgentSession?
        var content: InspectedContent?
        var customData: String?
        var hdmiMode = HDMIMode.standard
        var alternativePicture: AlternativePicture?
        var selectedAudioTrack: String?
        var progress = AgentProgress()
        var frequency = EventFrequency()
        var attachments: [UInt64: Attachment] = [:]
        var lastAttachment: UInt64 = 0
        var http: HTTPClientWatch?
        /// Keeps the viewing session between a licence and its playback.
        var use: PlaybackUse?
        var isReleased = false
        /// Content that is in the cache, in part, comes from the network for the rest.
        var usesNetwork = false
        /// Why the outputs show nothing; nil where they do.
        var outputsBlocked: String?
        /// Told that playback is being ended: the error that follows is no news.
        var hasToldEnd = false
        /// The number of the last seek that was logged.
        var lastSeek: UInt32?
        /// The URL of the last answer that was a web page.
        var webPageURL: String?
    }

    /// A pipeline that plays this content.
    struct Attachment: Sendable {
        let pipeline: WeakPipeline
        var bus: BusObservation?
        /// The session that its elements use.
        var session: KeySession
        /// What takes the name of an audio track.
        var demuxers: [WeakPipeline] = []
        /// Serves what is cached of the content.
        var gateway: CacheGateway?
        /// Serves a whole file that is not cached, and waits for outages.
        var file: FileGateway?
    }

    init(contentURL: String, type: ContentType, configuration: Agent.Configuration) {
        self.contentURL = contentURL
        self.type = type
        self.configuration = configuration
    }

    // MARK: State

    var state: AgentState { guarded.withLock { $0.progress.state } }
    var states: AsyncStream<AgentState> { stateBroadcast.stream(beginningWith: state) }

    func advance(_ event: AgentProgress.Event) {
        guard let new = guarded.withLock({ $0.progress.take(event) }) else { return }
        log(.debug, "the agent is \(new.rawValue)")
        stateBroadcast.send(new)
        events.send(.stateChanged(new))
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

    func serverDidFail(_ status: Int, at url: String) {
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

    func cacheEdgeWasReached(_ edge: Duration?, _ reason: String) {
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

    /// The application gave the agent up: keys are closed, and whoever plays ends.
    func release() {
        let (wasReleased, parts, attachments, watch) = guarded.withLock { guarded in
            defer { (guarded.isReleased, guarded.parts, guarded.attachments, guarded.http) = (true, nil, [:], nil) }
            return (guarded.isReleased, guarded.parts, guarded.attachments, guarded.http)
        }
        guard !wasReleased else { return }
        parts?.session.close(.sessionClosed("the agent was released"))
        withExtendedLifetime((attachments, watch)) {}
        keep(nil)
        guard let viewing = parts?.session.viewing, viewing.isEnding else { return finish() }
        // What goes wrong at the end of the viewing session is the last event.
        Task {
            await viewing.ended()
            finish()
        }
    }

    private func finish() {
        events.finish()
        stateBroadcast.finish()
    }

    /// The session that keys come from; a new one where the last was closed, as by the loss of the viewing session.
    func session() throws(AgentError) -> AgentSession {
        let (known, isReleased) = guarded.withLock { ($0.parts, $0.isReleased) }
        guard !isReleased else { throw .cancelled("the agent was released") }
        if let known, !known.session.isClosed { return known }
        let fresh: AgentSession
        do throws(KeyError) {
            fresh = try AgentSession(for: self)
        } catch {
            throw .configuration(error.description)
        }
        // Another thread may have been faster.
        return guarded.withLock { guarded in
            if let parts = guarded.parts, !parts.session.isClosed { return parts }
            guarded.parts = fresh
            guarded.hasToldEnd = false
            return fresh
        }
    }
}
