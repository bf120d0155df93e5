// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// An agent's key session with what belongs to it. Made anew after the session was closed. Thread-safe.
final class AgentSession: Sendable {
    let session: KeySession
    /// What elements go by.
    let settings: ControlSettings
    /// Nil where no PlayReady-style licenses are configured.
    let playReady: PlayReadyLoader?
    /// Nil where elements acquire licenses.
    let gate: AcquisitionGate?
    private let localKeys: StaticKeys?
    /// May have stored keys.
    private let fairPlay: [FairPlayLoader]
    private let observation: KeyObservation

    /// Throws `invalidConfiguration` for settings that cannot be used.
    init(for core: AgentCore) throws(KeyError) {
        let isManual = core.configuration.acquisition == .manual
        var settings = try Self.settings(core.configuration.settings, core.configuration.configurationFile)
        var configuration = try settings.makeConfiguration()
        configuration.holdsAtEndOfLease = isManual
        configuration.prefetchesUsedKeysOnly = isManual
        let log = configuration.log
        configuration.log = { [weak core] line in
            log(line)
            core?.log(.warning, line)
        }
        configuration.decryptionLog = { [weak core] line in
            core.map { $0.log(.info, AgentCore.withoutQueries(line, of: $0.contentURL)) }
        }
        configuration.originalMediaURL = { [weak core] in core?.originalURL($0) }
        localKeys = try settings.keysFile.map { path throws(KeyError) in try StaticKeys.read(path: path) }
        let gate = isManual ? AcquisitionGate(core.gateHooks) : nil
        self.gate = gate
        // Ahead of those that write plays down, for which the line would wait.
        let decryptionLog = DecryptionLog { [weak core] line in core?.log(.info, line) }
        let front: [any ResourceLoader] = (gate.map { [$0] } ?? []) + [decryptionLog]
        let own = core.configuration.loaders + ResourceLoaderFactory.default.makeLoaders()
        session = KeySession(loaders: front + own, configuration: configuration)
        var fairPlay = own.compactMap { $0 as? FairPlayLoader }
        let transport = LoggedTransport(session.transport(over: CurlTransport.shared)) { [weak core] line in
            core?.log(.info, line)
        }
        var playReady: PlayReadyLoader?
        for loader in settings.makeLoaders(transport: transport) {
            if let own = loader as? PlayReadyLoader {
                let renews = settings.playReady?.renews ?? true
                let known = Self.loader(
                    own.client.configuration, transport, for: core, acquires: !isManual, renews: renews)
                playReady = known
                session.addLoader(known)
            } else {
                session.addLoader(loader)
                if let loader = loader as? FairPlayLoader { fairPlay.append(loader) }
            }
        }
        (self.playReady, self.fairPlay) = (playReady, fairPlay)
        if isManual { settings.keyTimeout = core.configuration.holdTimeout }
        self.settings = settings
        observation = session.observe { [weak core] event in core?.handle(event) }
        session.viewing?.onTeardownError { [weak core] notice in core?.teardownDidFail(notice) }
    }

    static func settings(_ own: ControlSettings?, _ file: String?) throws(KeyError) -> ControlSettings {
        if let own { return own }
        return if let file { try PipelineSession.settings(file: file) } else { try PipelineSession.settings() }
    }

    private static func loader(
        _ configuration: PlayReadyClient.Configuration, _ transport: any HTTPTransport, for core: AgentCore,
        acquires: Bool, renews: Bool
    ) -> PlayReadyLoader {
        var configuration = configuration
        let log = configuration.log
        configuration.log = { [weak core] line in
            log(line)
            core?.log(.warning, line)
        }
        configuration.onClockEvent = { [weak core] event in core?.handle(event) }
        return PlayReadyLoader(
            client: PlayReadyClient(configuration: configuration, transport: transport), acquires: acquires,
            renews: acquires && renews)
    }

    // MARK: Rights

    /// How the installed rights stand to what a pipeline asks for.
    func rights(of request: KeyLoadingRequest) async -> RightsStatus {
        if hasLocalKeys(request.keyIDs, uri: request.keyURI) { return Self.local }
        if request.keySystem == .fairPlay, let stored = await storedRights(request.keyURI) { return stored }
        guard let playReady, isForPlayReady(request) else { return .noLicense }
        do throws(PlayReadyAcquisitionError) {
            return try await playReady.client.rightsStatus(of: request)
        } catch {
            return RightsStatus(kind: .none, reason: error.description)
        }
    }

    /// The same for content that was looked at. Throws where the license store cannot be used.
    func rights(of content: InspectedContent) async throws(AgentError) -> RightsStatus {
        guard content.isProtected else { return RightsStatus(kind: .valid, reason: "the content is not protected") }
        guard !content.needs.isEmpty else {
            return RightsStatus(kind: .valid, reason: "the content's keys come without a license")
        }
        if content.needs.allSatisfy({ hasLocalKeys($0.keyIDs, uri: $0.key?.uri) }) { return Self.local }
        var isUsable = true
        for need in content.needs {
            let keyIDs = keyIDs(of: need)
            isUsable = isUsable && !keyIDs.isEmpty && keyIDs.allSatisfy(isUsableNow)
        }
        if isUsable { return RightsStatus(kind: .valid, reason: "the keys are there, for this agent") }
        var stored: [RightsStatus] = []
        for need in content.needs where need.system == .fairPlay {
            if let rights = await storedRights(need.key?.uri) { stored.append(rights) }
        }
        // The least of them stands for all.
        if stored.count == content.needs.count, let least = stored.min(by: Self.isLess) { return least }
        let keyIDs = content.needs.filter(isForPlayReady).flatMap(\.keyIDs)
        guard let playReady, !keyIDs.isEmpty else { return .noLicense }
        do throws(PlayReadyAcquisitionError) {
            return try await playReady.client.rightsStatus(forKeys: keyIDs, repairingClock: true)
        } catch {
            throw .configuration(error.description)
        }
    }

    private static let local = RightsStatus(kind: .valid, reason: "the keys file has the keys")

    /// Of a key that is stored; nil where none is.
    private func storedRights(_ uri: String?) async -> RightsStatus? {
        guard let uri else { return nil }
        for loader in fairPlay {
            if let rights = await loader.rightsStatus(ofStoredKeyFor: uri, in: session) { return rights }
        }
        return nil
    }

    private static func isLess(_ left: RightsStatus, _ right: RightsStatus) -> Bool {
        left.kind == right.kind
            ? (left.ends?.seconds ?? .max) < (right.ends?.seconds ?? .max) : left.kind < right.kind
    }

    private func hasLocalKeys(_ keyIDs: [KeyID], uri: String?) -> Bool {
        guard let localKeys else { return false }
        if let uri, localKeys.key(forURI: uri) != nil { return true }
        return !keyIDs.isEmpty && keyIDs.allSatisfy { localKeys.key(for: $0) != nil }
    }

    private func isUsableNow(_ keyID: KeyID) -> Bool {
        if case .usable = session.status(of: keyID) { true } else { false }
    }

    // MARK: Needs

    private var prefersClearKey: Bool { settings.keySystem == .clearKey && settings.licenseURL != nil }

    /// Whether an installed license is what such a request waits for.
    func isForPlayReady(_ request: KeyLoadingRequest) -> Bool {
        guard let playReady, playReady.isFor(request) else { return false }
        return !prefersClearKey || request.keySystem == .playReady
    }

    /// Whether the license store has what such a need asks for.
    func isForPlayReady(_ need: InspectedContent.Need) -> Bool {
        guard playReady != nil else { return false }
        if need.system == .playReady || need.data.contains(where: { $0.system == .playReady }) { return true }
        return isForAnyService(need) && !need.keyIDs.isEmpty
    }

    /// Whether it is asked for at the configured service, which has licenses for all that names a KID.
    private func isForAnyService(_ need: InspectedContent.Need) -> Bool {
        playReady?.client.configuration.licenseURL != nil && !prefersClearKey && need.key == nil
            && need.system != .fairPlay
    }

    /// Who will be asked for the keys. `rights` are those of the content.
    func keyNeed(_ need: InspectedContent.Need, _ rights: RightsStatus) -> ContentKeyNeed {
        let (system, source) = source(of: need, rights)
        return ContentKeyNeed(
            keySystem: system, keyIDs: need.keyIDs, keyURI: need.key?.printableURI, source: source)
    }

    /// The system that will be asked, and where its keys come from. Where nothing is asked, the system that the content names.
    private func source(of need: InspectedContent.Need, _ rights: RightsStatus) -> (KeySystem?, String?) {
        let named = need.key.map { KeySystem(HLSKeyFormat($0.keyFormat).protectionSystem) } ?? KeySystem(need.system)
        if hasLocalKeys(need.keyIDs, uri: need.key?.uri) { return (named, "the keys file") }
        // Where no KID is known yet, the media will tell one.
        if let playReady, isForPlayReady(need) || isForAnyService(need) {
            if rights.kind == .valid { return (.playReady, "the license store") }
            let url = playReady.client.configuration.licenseURL ?? need.suggestedURL
            return (.playReady, Self.service("PlayReady-style", url))
        }
        if need.system == .fairPlay, settings.keySystem ?? .fairPlay == .fairPlay, let fairPlay = settings.fairPlay {
            if rights.kind == .valid, !keyIDs(of: need).allSatisfy(isUsableNow) { return (.fairPlay, "a stored key") }
            let own = settings.keySystem == .fairPlay ? settings.licenseURL : nil
            return (
                .fairPlay,
                Self.service("FairPlay-style", fairPlay.service.url ?? own)
                    ?? "the FairPlay-style key server that the key's URI names"
            )
        }
        guard settings.keySystem ?? .clearKey == .clearKey, need.system != .playReady || settings.licenseURL != nil,
            let source = Self.service("ClearKey", settings.licenseURL ?? need.suggestedURL)
        else {
            return (named, nil)
        }
        return (.clearKey, source)
    }

    private static func service(_ name: String, _ url: String?) -> String? {
        url.map { "the \(name) service at \(HTTPRequest(url: $0).printableURL)" }
    }

    /// What the session calls the keys.
    func keyIDs(of need: InspectedContent.Need) -> [KeyID] {
        guard let key = need.key, let uri = key.uri else { return need.keyIDs }
        return [session.keyID(forURI: uri, mediaKeyID: key.keyID)]
    }

    /// What asks the session for them.
    func demand(for need: InspectedContent.Need) -> KeyDemand {
        let keyIDs = keyIDs(of: need)
        var data = need.data
        if let key = need.key, let keyID = keyIDs.first {
            let box = key.initializationData(keyID: keyID)
            data = [InitializationData(system: box.system, bytes: box.serialized() ?? [], origin: "hls/m3u8")]
        }
        var demand = KeyDemand(
            keyIDs: keyIDs, keySystem: settings.keySystem ?? KeySystem(need.system), initializationData: data,
            suggestedURL: need.suggestedURL, mediaURL: need.mediaURL, retryFailuresUpTo: session.generation)
        demand.otherURLs = need.otherURLs
        return demand
    }
}

extension AgentCore {
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
        return try take(fresh)
    }

    /// The session from now on, unless another thread was faster. Throws where the agent was released meanwhile: nothing would
    /// close it.
    func take(_ fresh: AgentSession) throws(AgentError) -> AgentSession {
        let taken = guarded.withLock { guarded -> AgentSession? in
            if guarded.isReleased { return nil }
            if let parts = guarded.parts, !parts.session.isClosed { return parts }
            guarded.parts = fresh
            guarded.hasToldEnd = false
            return fresh
        }
        guard let taken else { throw .cancelled("the agent was released") }
        return taken
    }
}

/// Stands in front of the loaders of an agent's session, where the application acquires licenses by itself: a request
/// whose rights are not installed is held, and goes on when they are. Thread-safe.
final class AcquisitionGate: StoredKeyLoader {
    let name = "agent"
    /// It has no keys of its own.
    let keySystems: Set<KeySystem>? = []

    struct Hooks: Sendable {
        /// How the installed rights stand to a request.
        var rights: @Sendable (KeyLoadingRequest) async -> RightsStatus
        /// Whether only an installed license answers a request: the loaders would deny it.
        var needsLicense: @Sendable (KeyLoadingRequest) -> Bool
        /// A request is held, for want of rights.
        var didHold: @Sendable (KeyLoadingRequest, RightsStatus) -> Void
        /// Whether requests are held.
        var holdsDidChange: @Sendable (Bool) -> Void
        /// Something of this key plays.
        var didStartPlaying: @Sendable () -> Void
    }

    private struct State {
        var held: [UInt64: KeyLoadingRequest] = [:]
        /// The keys of the acquisitions under way.
        var acquisitions: [UInt64: [KeyID]] = [:]
        var lastAcquisition: UInt64 = 0
    }

    private let state = Mutex(State())
    private let hooks: Hooks

    init(_ hooks: Hooks) { self.hooks = hooks }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard !Self.isFree(request), !isPartOfAcquisition(request) else { return false }
        state.withLock { $0.held[request.id] = request }
        Task { [weak self] in
            // An acquisition may have begun, and let go what was held, just before. It waits for its keys.
            self?.letGo()
            await self?.consider(request)
        }
        return true
    }

    /// Only the application acquires licenses; the lease ends, and then the rights are looked at anew.
    func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool {
        Task { request.finishLoading(with: .denied("the application acquires licenses by itself")) }
        return true
    }

    func didCancel(_ request: KeyLoadingRequest) { forget(request) }

    func didStartPlaying(_ keyID: KeyID?, in session: KeySession) { hooks.didStartPlaying() }

    /// A key at its own URI is no matter of a license.
    private static func isFree(_ request: KeyLoadingRequest) -> Bool {
        request.keySystem == nil && request.keyURI != nil
    }

    /// Lets what is asked for from now on through, until the `end` of what it returns: these keys, and what needs no license.
    /// `letGo` does the same for what is held.
    func beginAcquisition(of keyIDs: [KeyID]) -> UInt64 {
        state.withLock { state in
            state.lastAcquisition += 1
            state.acquisitions[state.lastAcquisition] = keyIDs
            return state.lastAcquisition
        }
    }

    func end(_ acquisition: UInt64) { state.withLock { $0.acquisitions[acquisition] = nil } }

    private func isPartOfAcquisition(_ request: KeyLoadingRequest) -> Bool {
        let acquisitions = state.withLock { Array($0.acquisitions.values) }
        guard !acquisitions.isEmpty else { return false }
        return acquisitions.joined().contains(where: request.keyIDs.contains) || !hooks.needsLicense(request)
    }

    /// Lets what is held and belongs to an acquisition go on to the loaders.
    func letGo() { for request in held where isPartOfAcquisition(request) && forget(request) { request.passOn() } }

    /// The rights may be others now: looks at them anew for what is held.
    func reconsider() async {
        for request in state.withLock({ Array($0.held.values) }) { await consider(request) }
    }

    /// What is held, in the order in which it was asked for.
    var held: [KeyLoadingRequest] { state.withLock { $0.held.values.sorted { $0.id < $1.id } } }

    private func consider(_ request: KeyLoadingRequest) async {
        let status = await hooks.rights(request)
        guard state.withLock({ $0.held[request.id] != nil }) else { return }
        guard status.kind == .valid else {
            hooks.holdsDidChange(true)
            hooks.didHold(request, status)
            return
        }
        if forget(request) { request.passOn() }
    }

    /// False where it was not held.
    @discardableResult
    private func forget(_ request: KeyLoadingRequest) -> Bool {
        let (wasHeld, isLast) = state.withLock { state in
            (state.held.removeValue(forKey: request.id) != nil, state.held.isEmpty)
        }
        if wasHeld, isLast { hooks.holdsDidChange(false) }
        return wasHeld
    }
}
