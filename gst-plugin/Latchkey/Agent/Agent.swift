// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElements
public import LatchkeyKeySession
public import LatchkeyOffline
public import LatchkeyOutputs
public import LatchkeyProtection
public import LatchkeyViewingSession

/// Plays one piece of protected content: looks at it, manages its rights, and makes the player for it.
///
/// After the Downloadable Agent's manual, section 5.3: `contentInfo`, `acquireLicense`, `makePlayer`, and the events of
/// `events`. Keep the agent for as long as the playback goes on: when it goes, its keys are closed, and a playback that
/// is under way ends with an error that says so. The same agent may play its content again and again. Thread-safe; no
/// method blocks, but those of GStreamer that set states.
///
/// ```swift
/// let agent = Agent(contentURL: "https://example.com/movie/stream.mpd", type: .dash)
/// let info = try await agent.contentInfo()
/// if info.rightsStatus != .valid { try await agent.acquireLicense() }
/// let player = try agent.makePlayer()
/// player.play()
/// for await event in agent.events { … }
/// ```
public final class Agent: Sendable {
    /// Who acquires licenses.
    public enum Acquisition: String, Sendable, CaseIterable {
        /// The application, by `acquireLicense`: nothing is asked of a license service otherwise. Samples without rights
        /// wait, and the application is notified.
        case manual
        /// The elements, as soon as a key is needed.
        case automatic
    }

    /// What an agent is made with.
    public struct Configuration: Sendable {
        /// Who acquires licenses.
        public var acquisition = Acquisition.manual
        /// Where keys and licenses come from. Nil: what the configuration file and the environment say, as for elements.
        public var settings: ControlSettings?
        /// In the place of the configuration file that elements go by, where there are no `settings`. One that cannot be
        /// used is an error of `contentInfo` and of what else needs it.
        public var configurationFile: String?
        /// Asked before those of the settings and before those that are registered with `Latchkey.register`.
        public var loaders: [any ResourceLoader] = []
        /// How long samples wait for a license, with `.manual`, before playback ends.
        public var holdTimeout = Duration.seconds(120)
        /// How long playback of HLS with keys, DASH, Smooth Streaming and protected files waits where the network fails, or
        /// something else comes than media, before it ends. Zero: GStreamer decides, as it does for all other media.
        public var outageTimeout = Duration.seconds(300)
        /// The players' sinks, in the words of gst-launch.
        public var videoSink = "autovideosink"
        /// The players' sinks for sound.
        public var audioSink = "autoaudiosink"
        /// The source of the data on the outputs (`latchkeyguard`'s property `outputs`).
        public var outputs = "kms"
        /// Where content is kept for playback without the network. What is in there plays from there. Nil: nothing does.
        public var cache = ContentCache.standard
        /// Lines of the log below this are no events. The log itself has all of them.
        public var logThreshold = AgentLogMessage.Level.info

        /// Licenses are acquired by the application; the rest is configured as for elements.
        public init() {}
    }

    let core: AgentCore

    /// Never fails: a URL that cannot be used is an error of `contentInfo`. `contentURL` is an absolute `http`, `https`
    /// or, for files, `file` URL.
    public init(contentURL: String, type: ContentType, configuration: Configuration = Configuration()) {
        core = AgentCore(contentURL: contentURL, type: type, configuration: configuration)
    }

    deinit { core.release() }

    /// Ends the agent now, as when its last reference goes: its keys are closed, and a playback that is under way ends with
    /// an error. The streams of `events` end when the viewing session was ended, or could not be, which is their last
    /// event: two seconds at most. Again does nothing.
    public func close() { core.release() }

    /// As it was given.
    public var contentURL: String { core.contentURL }
    /// As it was given.
    public var type: ContentType { core.type }

    // MARK: Content and rights

    /// Looks at the content, and at the rights that are installed for it. An untrusted clock is repaired if a time
    /// service is configured.
    ///
    /// Checks that the content is what its type says: a playlist names segments, or variants that do; a manifest has
    /// streams that are played; a file has tracks. Throws `invalidURL`, `unreachable`, `serverError`, `invalidContent`
    /// (whose text says what came, if it is a web page or the like), `unsupportedContent` and `configuration`.
    public func contentInfo() async throws(AgentError) -> ContentInfo { try await core.contentInfo() }

    /// Acquires the licenses for the content and installs them. Whatever waits for one goes on. Returns how the rights
    /// stand then: a license may be one for the future.
    ///
    /// With a delegate, that sends the challenges, and those to join a domain. Delegates are for PlayReady-style
    /// licenses; for others register a `ResourceLoader`. Throws `licenseNotAcquired` with the reason, `notProtected`, and
    /// what `contentInfo` throws.
    @discardableResult
    public func acquireLicense(
        delegate: (any PlayReadyDelegate)? = nil
    ) async throws(AgentError) -> RightsStatus {
        try await core.acquireLicense(delegate)
    }

    /// Goes into the signed part of license challenges from now on, for the service to read: XML, say. Nil: nothing.
    /// PlayReady-style licenses only, and of services that the settings name: `license-url`, `domain-url` and
    /// `custom-data-origins`.
    public var customLicenseChallengeData: String? {
        get { core.customData }
        set { core.customData = newValue }
    }

    // MARK: Playback

    /// What is made of external digital outputs while this agent's protected content plays. Counts at once, for what
    /// plays and for what is made later.
    public var hdmiMode: HDMIMode {
        get { core.hdmiMode }
        set { core.hdmiMode = newValue }
    }

    /// The picture that takes the place of the video with `hdmiMode` `alternative`: the bytes of a PNG or JPEG file, or of
    /// what else GStreamer decodes; nil, as at the start: a white one. It keeps its proportions, with black around it.
    /// Counts from the next frame on, for what plays and for what is made later. Decodes it before it returns. Throws
    /// `configuration` where it cannot be decoded; the one before stays then.
    public func setHDMIAlternativeImage(_ image: [UInt8]?) throws(AgentError) {
        do throws(PipelineError) {
            core.setAlternativePicture(
                try image.map { image throws(PipelineError) in try AlternativePicture(image) })
        } catch {
            throw .configuration("the alternative image cannot be used: \(error.description)")
        }
    }

    /// The same with the bytes of a file.
    public func setHDMIAlternativeImage(file path: String) throws(AgentError) {
        do throws(PipelineError) {
            core.setAlternativePicture(try AlternativePicture(file: path))
        } catch {
            throw .configuration("the alternative image cannot be used: \(error.description)")
        }
    }

    /// The name of the audio track that plays (`ContentInfo.audioTrackNames`); nil: the default. Set it before the player
    /// starts, or change it while it plays. A name that the content does not have is in the log.
    ///
    /// Of a file, the names have to be known as it starts to play: `contentInfo` brings them. Without that, the default track
    /// plays until the file was looked into. The player has to be `playbin3`, or another one around decodebin3.
    public var selectedAudioTrack: String? {
        get { core.selectedAudioTrack }
        set { core.selectedAudioTrack = newValue }
    }

    /// A player for the content: `playbin3` with this agent's session, its loaders and its output guards. Content that is
    /// in the cache plays from there, as far as it is there; the rest comes from the network, and is in the cache then.
    /// Throws `configuration` where an element is missing or a sink cannot be made, and `cancelled` after the agent's end.
    public func makePlayer() throws(AgentError) -> Player { try core.makePlayer() }

    /// Makes a pipeline of the application's own use this agent's session and loaders, and watches it. Call it before the
    /// pipeline leaves READY. Guards (`latchkeyguard`) that are in it get `hdmiMode`; it is the application that puts them
    /// in front of the sinks. Source elements in it that read the content's URL, also those that `playbin3` or
    /// `uridecodebin3` make when its `uri` is that, read from the cache where the content is in there. The pipeline is not
    /// kept alive. Throws as `makePlayer`.
    public func attach(to pipeline: UnsafeMutablePointer<GstElement>) throws(AgentError) {
        try core.attach(to: pipeline)
    }

    /// The same for a pipeline in the words of gst-launch, which this makes. Throws `configuration` with what GStreamer
    /// says of the words.
    public func attach(pipeline description: String) throws(AgentError) -> Player {
        try core.attach(pipeline: description)
    }

    // MARK: The application and the machine

    /// The application is not in front any more. While it plays, its viewing session is kept.
    public func background() { core.viewing?.enterBackground() }

    /// The application is in front again, or was not away.
    public func foreground() { core.viewing?.enterForeground() }

    /// The application's picture is in front, in a window of its own. For the viewing session, the same as `foreground`: call
    /// it after `background`.
    public func pictureInPicture() { core.viewing?.enterForeground() }

    /// The application or the machine is about to stand still. Returns when a viewing session that is to be ended for that
    /// (`end-before-sleep`) was ended, or could not be in two seconds.
    public func suspend() async { await core.viewing?.suspendAndWait() }

    /// It goes on. One heartbeat tells whether a viewing session that stood still for too long is there still.
    public func resume() { core.viewing?.resume() }

    // MARK: What happens

    /// Where the agent stands.
    public var state: AgentState { core.state }

    /// The states, from the present one on.
    public var states: AsyncStream<AgentState> { core.states }

    /// Everything that happens from now on. Each listener has a stream of its own, which ends with the agent. A
    /// listener that reads nothing for a thousand events loses the oldest.
    public var events: AsyncStream<AgentEvent> { core.events.stream() }
}

/// What is kept on this device, whichever agent or process it came from. `settings` nil: those of the configuration file,
/// which may be named.
extension Agent {
    // MARK: Licenses

    /// The PlayReady-style licenses that are stored, in the order of their KIDs, and how their rights stand now. Looks,
    /// and changes nothing; makes no store where there is none. Keys are not among what it returns. Throws `configuration`
    /// where no PlayReady-style licenses are configured, or the store cannot be used.
    public static func licenses(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> [StoredPlayReadyLicense] {
        let playReady = try playReady(settings, configurationFile)
        do {
            let configuration = try playReady.makeStoreConfiguration()
            guard configuration.isThere else { return [] }
            return try await LicenseStore.open(configuration).playReadyLicenses(policy: playReady.clockPolicy)
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// Takes one license out of the store. When it was first played stays: acquired again, it goes on from there. A
    /// playback that has its keys goes on. False where there is no such license. Throws as `licenses`.
    @discardableResult
    public static func removeLicense(
        _ id: RecordID, settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> Bool {
        let playReady = try playReady(settings, configurationFile)
        do {
            let configuration = try playReady.makeStoreConfiguration()
            guard configuration.isThere else { return false }
            return try await LicenseStore.open(configuration).removePlayReadyLicense(id)
        } catch {
            throw .configuration("\(error)")
        }
    }

    /// Removes every license and domain from the license store, and every stored key of FairPlay-style key servers, whatever
    /// acquired them: “Reset DRM database”. Without `[playready]`, the store is the user's own. Returns how many records and
    /// keys there were. Throws `configuration` if the store or the folder of keys cannot be used.
    @discardableResult
    public static func resetLicenses(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> Int {
        let settings = try self.settings(settings, configurationFile)
        do {
            var count = 0
            if let store = try settings.licenseStore, store.isThere {
                count += try await LicenseStore.open(store).deleteAll()
            }
            if let keys = settings.storedKeys {
                count += try await keys.count
                try await keys.invalidateAll()
            }
            return count
        } catch {
            throw .configuration("\(error)")
        }
    }

    private static func playReady(
        _ settings: ControlSettings?, _ file: String?
    ) throws(AgentError) -> PlayReadySettings {
        guard let playReady = try self.settings(settings, file).playReady else {
            throw .configuration("no PlayReady-style licenses are configured: there is no [playready]")
        }
        return playReady
    }

    // MARK: Viewing sessions

    /// The sessions that session servers may count for this device: those of playbacks that go on, in whatever process,
    /// and those that were left over. By name. Throws `configuration` where no session server is configured, or sessions
    /// are not written down.
    public static func viewingSessions(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> [SessionRecords.Entry] {
        try viewing(settings, configurationFile).records.entries.sorted { $0.session < $1.session }
    }

    /// Ends the sessions that processes left over at the configured server; those of processes that are still there stay. The
    /// next playback does the same: call this to end them earlier. Returns how many were ended, or given up after the fifth
    /// try, and how many could not be. Throws as `viewingSessions`.
    @discardableResult
    public static func endLeftOverViewingSessions(
        settings: ControlSettings? = nil, configurationFile: String? = nil
    ) async throws(AgentError) -> (ended: Int, left: Int) {
        let (session, records) = try viewing(settings, configurationFile)
        func leftOver() -> Set<String> {
            Set(records.entries.filter { $0.processID == nil && $0.serverURL == session.service.url }.map(\.session))
        }
        let before = leftOver()
        await ViewingSession(session).endOrphans()
        let left = leftOver().intersection(before)
        return (before.count - left.count, left.count)
    }

    private static func viewing(
        _ settings: ControlSettings?, _ file: String?
    ) throws(AgentError) -> (session: ViewingSession.Configuration, records: SessionRecords) {
        do {
            guard let viewing = try self.settings(settings, file).viewing else {
                throw AgentError.configuration(
                    "no session server is configured: set server-url in [session] of latchkey.conf")
            }
            let session = try viewing.makeConfiguration().session
            guard let records = session.records else {
                throw AgentError.configuration("sessions are not written down: records=none in [session]")
            }
            return (session, records)
        } catch let error as AgentError {
            throw error
        } catch {
            throw .configuration("\(error)")
        }
    }

    private static func settings(_ own: ControlSettings?, _ file: String?) throws(AgentError) -> ControlSettings {
        do throws(KeyError) { return try AgentSession.settings(own, file) } catch {
            throw .configuration("\(error)")
        }
    }
}
