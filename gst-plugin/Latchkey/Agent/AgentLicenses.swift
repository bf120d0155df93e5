// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyViewingSession
import Synchronization

extension AgentCore {
    // MARK: Content

    func contentInfo() async throws(AgentError) -> ContentInfo {
        advance(.inspectionBegan)
        do throws(AgentError) {
            let parts = try session()
            let content = try await inspect(parts)
            let rights = try await parts.rights(of: content)
            log(.info, "\(printableURL): \(content.isProtected ? "protected, " : "")\(rights)")
            advance(.inspected(mayPlay: rights.kind == .valid))
            await parts.gate?.reconsider()
            return ContentInfo(
                isProtected: content.isProtected, keySystems: content.keySystems, protectionSystems: content.systems,
                keyIDs: content.keyIDs, rights: rights, audioTrackNames: content.audioTrackNames,
                tracks: content.tracks, keyNeeds: content.needs.map { parts.keyNeed($0, rights) },
                licenseURLs: content.licenseURLs)
        } catch {
            log(.error, "\(error)")
            advance(.inspectionFailed)
            throw error
        }
    }

    private var printableURL: String { HTTPRequest(url: contentURL).printableURL }

    /// `waits`: whether outages are waited for.
    func inspect(_ parts: AgentSession, waits: Bool = true) async throws(AgentError) -> InspectedContent {
        var source = ContentSource(transport: contentTransport()) { [weak self] in self?.log(.info, $0) }
        source.onWhole = { [weak self] in self?.keepForPlayback($1, of: $0) }
        source.outageLimit = waits ? configuration.outageTimeout : .zero
        source.sleep = { [weak self] pause in
            guard let self else { throw CancellationError() }
            try await sleep(pause)
        }
        source.onOutage = { [weak self] in self?.log(.warning, "\($0). Playback waits, and it is asked for again.") }
        let inspector = ContentInspector(
            source: source, keySystem: parts.settings.keySystem,
            keyFormats: HLSSettings().keyFormats(for: parts.settings),
            envelopes: EnvelopeParsers(includesOwn: parts.settings.readsEnvelopes),
            keyLimit: parts.settings.playlistKeys ?? HLSPlaylist.defaultKeyLimit)
        var content = try await inspector.inspect(contentURL, type)
        content.cookies = source.cookies
        let track = guarded.withLock { [content] guarded in
            guarded.content = content
            return guarded.selectedAudioTrack
        }
        if let track, !content.audioTrackNames.contains(track) {
            log(
                .warning,
                "the audio track “\(track)” is none of the content's, which are: "
                    + content.audioTrackNames.joined(separator: ", "))
        }
        changeFileAudio()
        return content
    }

    /// Throws when the task is cancelled, and if the agent was closed.
    func sleep(_ pause: Duration) async throws {
        try await Task.sleep(for: pause)
        if guarded.withLock(\.isReleased) { throw CancellationError() }
    }

    /// The manifest goes to the player that is made next. Cookies would not: their origin is asked again, as the player is.
    private func keepForPlayback(_ answer: ContentSource.Answer, of url: String) {
        guard url == contentURL, !answer.setsCookies else { return }
        let content = ManifestHandover.Content(
            body: answer.bytes, type: answer.contentType, source: url, url: answer.url)
        guarded.withLock { $0.fetched = content }
    }

    /// For a player: what was looked at, unless that is too long ago.
    func manifestHandover() -> ManifestHandover? {
        let content = guarded.withLock { guarded in
            defer { guarded.fetched = nil }
            return guarded.fetched
        }
        guard let content, content.isFresh(at: .now), ManifestHandover.isPossible else { return nil }
        return try? ManifestHandover(content)
    }

    // MARK: Licenses

    func acquireLicense(_ delegate: (any PlayReadyDelegate)?) async throws(AgentError) -> RightsStatus {
        let parts = try session()
        let content: InspectedContent
        if let known = guarded.withLock({ $0.content }) { content = known } else { content = try await inspect(parts) }
        guard content.isProtected, !content.needs.isEmpty else { throw .notProtected }
        advance(.acquisitionBegan)
        log(.info, "acquiring the license for \(printableURL)")
        let start = ContinuousClock.now
        do throws(AgentError) {
            try await acquire(content, parts, delegate)
            let rights = try await parts.rights(of: content)
            guarded.withLock { $0.frequency.licenseWasInstalled() }
            log(.info, "license acquired in \((ContinuousClock.now - start).milliseconds) ms: \(rights)")
            await parts.gate?.reconsider()
            advance(.acquired(mayPlay: rights.kind == .valid))
            return rights
        } catch {
            log(.error, "\(error)")
            advance(.acquisitionFailed)
            throw error
        }
    }

    func acquire(
        _ content: InspectedContent, _ parts: AgentSession, _ delegate: (any PlayReadyDelegate)?
    ) async throws(AgentError) {
        if content.lacksKeyIDs {
            let systems = content.systems.map(\.name).joined(separator: ", ")
            throw .licenseNotAcquired(
                .malformedRequest(
                    "the manifest \(printableURL) names no key, and has protection headers "
                        + (systems.isEmpty ? "of no system" : "of \(systems) alone")
                        + "; a PlayReady header with a KID is needed"))
        }
        let others = content.needs.filter { !parts.isForPlayReady($0) }
        guard others.isEmpty || delegate == nil else {
            throw .licenseNotAcquired(
                .invalidConfiguration("delegates are for PlayReady-style licenses; register a ResourceLoader"))
        }
        // From here to playback, this counts as playing: keys count only while the viewing session is there.
        let use = parts.session.beginPlayback()
        do throws(KeyError) {
            try await parts.session.establishViewing()
            if let client = parts.playReady?.client {
                await client.setCustomData(guarded.withLock { $0.customData } ?? client.configuration.customData)
                do throws(PlayReadyAcquisitionError) {
                    let needs = content.needs.filter(parts.isForPlayReady)
                    try await acquire(needs, content.cookies, parts, client, delegate)
                } catch {
                    throw error.keyError
                }
            }
            try await demand(others, content.cookies, parts)
            keep(use)
        } catch {
            use?.end()
            throw .licenseNotAcquired(error)
        }
    }

    /// Until something plays, whose elements count from then on, or until the agent's end.
    func keep(_ use: PlaybackUse?) {
        let old = guarded.withLock { guarded in
            defer { guarded.use = use }
            return guarded.use
        }
        old?.end()
    }

    /// Into the license store; and what is held and has other keys, as after a change of keys.
    private func acquire(
        _ needs: [InspectedContent.Need], _ cookies: CookieStore?, _ parts: AgentSession, _ client: PlayReadyClient,
        _ delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        for need in needs {
            try await client.acquireLicense(
                forKeys: need.keyIDs, data: need.data, suggestedURL: need.suggestedURL, mediaURL: need.mediaURL,
                cookies: cookies, delegate: delegate)
        }
        await parts.gate?.reconsider()
        for request in parts.gate?.held ?? [] where parts.isForPlayReady(request) {
            try await client.acquireLicense(for: request, delegate: delegate)
        }
    }

    /// Has the loaders asked, also for what is held and needs no license, and waits for the keys of `needs`.
    private func demand(
        _ needs: [InspectedContent.Need], _ cookies: CookieStore?, _ parts: AgentSession
    ) async throws(KeyError) {
        let session = parts.session
        let keyIDs = needs.flatMap { parts.keyIDs(of: $0) }
        let acquisition = parts.gate?.beginAcquisition(of: keyIDs)
        defer { if let acquisition { parts.gate?.end(acquisition) } }
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let wanted = Set(keyIDs)
        let failure = Mutex<KeyError?>(nil)
        let observation = session.observe { event in
            if case .failed(_, let failed, let error) = event, failed.contains(where: wanted.contains) {
                failure.withLock { $0 = error }
            }
            signal.yield()
        }
        defer { observation.cancel() }
        parts.gate?.letGo()
        for need in needs {
            var demand = parts.demand(for: need)
            demand.cookies = cookies
            session.demand(demand)
        }
        // The media will name its keys.
        guard !keyIDs.isEmpty else { return }
        signal.yield()
        let start = session.generation
        for await _ in changes {
            var isComplete = true
            for keyID in keyIDs {
                switch session.status(of: keyID) {
                case .usable: break
                case .failed(let error, _): throw error
                case .pending(let id) where session.isUntaken(requestID: id):
                    let uri = needs.first { parts.keyIDs(of: $0).contains(keyID) }?.key?.printableURI
                    let error = KeyError.noLoader(
                        "\(uri ?? "KID \(keyID)"): no license service is configured for it")
                    session.fail(requestID: id, with: error)
                    throw error
                // Nothing comes any more: too many were asked for, or it came and went.
                case .absent:
                    throw failure.withLock(\.self)
                        ?? .leaseExpired("KID \(keyID), before the others were there; acquire the license again")
                case .pending: isComplete = false
                }
            }
            if isComplete { return }
            if session.isClosed, session.generation != start { throw .sessionClosed("the session was closed") }
        }
        throw .cancelled("the task was cancelled")
    }

    // MARK: What happens to keys

    var gateHooks: AcquisitionGate.Hooks {
        AcquisitionGate.Hooks(
            rights: { [weak self] request in
                guard let parts = self?.guarded.withLock({ $0.parts }) else { return .noLicense }
                return await parts.rights(of: request)
            },
            needsLicense: { [weak self] request in
                self?.guarded.withLock({ $0.parts })?.isForPlayReady(request) ?? false
            },
            didHold: { [weak self] request, status in self?.rightsAreMissing(status, request.keyIDs) },
            holdsDidChange: { [weak self] in self?.advance(.holds($0)) },
            didStartPlaying: { [weak self] in self?.guarded.withLock { $0.frequency.contentWasDecrypted() } })
    }

    func handle(_ event: KeyEvent) {
        switch event {
        case .requested(let request, _): log(.debug, "\(request)")
        case .usable(_, let keyIDs, let elapsed):
            let names = keyIDs.map(\.description).joined(separator: ", ")
            log(
                .info, "keys are there after \(elapsed.milliseconds) ms: \(names.isEmpty ? "one without a KID" : names)"
            )
            if configuration.acquisition == .automatic {
                guarded.withLock {
                    $0.frequency.licenseWasInstalled()
                    $0.frequency.contentWasDecrypted()
                }
            }
        case .failed(_, let keyIDs, let error):
            log(.error, "no key: \(error)")
            if configuration.acquisition == .automatic, !error.isSameKind(as: .sessionClosed("")) {
                rightsAreMissing(RightsStatus(kind: .none, reason: error.description), keyIDs)
            }
        case .expired(_, let error, _): log(.info, "\(error)")
        case .renewalFailed(_, _, let error): log(.warning, "a license was not renewed: \(error)")
        case .notStored(_, let error, _): log(.warning, "a key was not stored: \(error)")
        case .closed(let reason):
            let isNews = guarded.withLock { guarded in
                defer { guarded.hasToldEnd = true }
                return !guarded.isReleased && !guarded.hasToldEnd && !guarded.attachments.isEmpty
            }
            guard isNews else { return }
            playbackWillBeAborted(reason.description)
            advance(.aborted)
        // With a pipeline that plays, that of its elements which tells first is the one.
        case .viewing(let notice): if !hasPlayback, notice.claim() { tell(notice) }
        // The client's clock has told it already.
        case .clockSetBack, .untaken, .withheld: break
        }
    }

    /// Whether a pipeline plays, or is on its way there: those that are stopped have no elements that hear of the session.
    private var hasPlayback: Bool {
        let pipelines = guarded.withLock { $0.attachments.values.map(\.pipeline) }
        return pipelines.contains { $0.with { !Self.isStopped($0.pointer) } ?? false }
    }

    /// Comes behind the elements, which post it where a bus takes it; that of a stopped pipeline does not.
    func teardownDidFail(_ notice: ViewingNotice) {
        if notice.claim() { tell(notice) }
    }

    private func tell(_ notice: ViewingNotice) {
        let failure = notice.failure
        let details = SessionErrorDetails(
            httpStatus: failure.status ?? 0, code: failure.code ?? "", message: failure.message,
            reason: failure.kind.rawValue, conflicts: failure.conflicts.map(\.description))
        log(.error, "the session server: \(failure)")
        switch notice.kind {
        case .setupError: events.send(.sessionSetupError(details))
        case .heartbeatError(let isFinal): events.send(.sessionHeartbeatError(details, isFinal: isFinal))
        case .teardownError: events.send(.sessionTeardownError(details))
        }
    }

    func handle(_ event: TrustedClock.Event) {
        switch event {
        case .rolledBack: timeIsUntrusted("the system clock was set back; set it right")
        case .trusted:
            log(.info, "the clock is trusted")
            let gate = guarded.withLock { $0.parts }?.gate
            Task { await gate?.reconsider() }
        case .notSaved(let error): log(.warning, "the clock's state is not saved: \(error)")
        case .lost(let error): timeIsUntrusted("what was kept of the clock cannot be read: \(error)")
        }
    }
}

/// Licenses for playback without a network.
extension AgentCore {
    /// Has the PlayReady-style licenses of the content stored, unless they are, and may be used. Nil: they are stored, or the
    /// content needs none; else why not, in words.
    func storeLicense(_ delegate: (any PlayReadyDelegate)?) async -> String? {
        do throws(AgentError) {
            let parts = try session()
            var content = try await inspect(parts)
            content.needs = content.needs.filter { $0.system == .playReady || parts.isForPlayReady($0) }
            guard content.isProtected, !content.needs.isEmpty else { return nil }
            guard let client = parts.playReady?.client else {
                throw .configuration("no PlayReady-style licenses are configured: there is no [playready]")
            }
            let keyIDs = content.needs.flatMap(\.keyIDs)
            if try await Self.storedRights(forKeys: keyIDs, client).kind == .valid { return nil }
            try await acquire(content, parts, delegate)
            let rights = try await Self.storedRights(forKeys: keyIDs, client)
            switch rights.kind {
            case .valid, .future: return nil
            case .none: return "the license service gave one that may not be stored"
            case .expired, .untrustedTime: return rights.reason
            }
        } catch {
            return error.description
        }
    }

    /// By a client of its own: that knows what is in the store, and no license for a session alone.
    private static func storedRights(
        forKeys keyIDs: [KeyID], _ client: PlayReadyClient
    ) async throws(AgentError) -> RightsStatus {
        do throws(PlayReadyAcquisitionError) {
            return try await PlayReadyClient(configuration: client.configuration, transport: client.transport)
                .rightsStatus(forKeys: keyIDs, repairingClock: true)
        } catch {
            throw .configuration(error.description)
        }
    }
}
