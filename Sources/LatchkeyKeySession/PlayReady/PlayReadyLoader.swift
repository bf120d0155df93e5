// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// Gets keys from PlayReady-style licenses: from the store, from the content, over HTTP, or through a delegate.
///
/// It takes PlayReady requests, and, where a license service is configured, requests of media that names no key system or
/// names several. A license with an end is a lease: it is renewed ahead of its end while the media plays. Where a license
/// depends on the date and the clock is not trusted, the time service is asked once.
///
/// Thread-safe; exchanges run on tasks of their own.
public final class PlayReadyLoader: StoredKeyLoader {
    /// Names the loader in error texts.
    public let name = "PlayReady"
    /// What asks for licenses and keeps them.
    public let client: PlayReadyClient
    private let delegate: (any PlayReadyDelegate)?
    /// Whether licenses are acquired, and renewed.
    private let acquires: Bool
    private let renews: Bool
    private let tasks = Mutex<[UInt64: Task<Void, Never>]>([:])
    let inUse = Mutex(LicensesInUse())
    private let clockWatch: ClockWatch

    /// Without `acquires`, only what is in the store counts, as where the application acquires licenses by itself. Without
    /// `renews`, playing stops at the end of a license.
    public convenience init(
        client: PlayReadyClient, delegate: (any PlayReadyDelegate)? = nil, acquires: Bool = true, renews: Bool = true
    ) {
        self.init(client: client, delegate: delegate, acquires: acquires, renews: renews) {
            try await Task.sleep(for: $0)
        }
    }

    /// `pause` waits between two looks at the clock.
    init(
        client: PlayReadyClient, delegate: (any PlayReadyDelegate)? = nil, acquires: Bool = true, renews: Bool = true,
        pause: @escaping @Sendable (Duration) async throws -> Void
    ) {
        clockWatch = ClockWatch(client, pause: pause)
        self.client = client
        self.delegate = delegate
        self.acquires = acquires
        self.renews = renews
    }

    /// PlayReady alone.
    public var keySystems: Set<KeySystem>? { [.playReady] }

    /// Takes PlayReady requests, those with PlayReady data, and, with a configured license service, all with KIDs that
    /// are not FairPlay-style. Answers on a task of its own.
    public func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard isFor(request) else { return false }
        forgetAtEnd(of: request)
        tasks.withLock { tasks in
            // Made inside the lock, so that its end cannot come before its entry.
            tasks[request.id] = Task { [weak self] in
                guard let answer = await self?.answer(to: request) else { return }
                switch answer {
                case .success(let answer): request.finishLoading(with: answer)
                case .failure(let error): request.finishLoading(with: error)
                }
                self?.forget(request)
            }
        }
        return true
    }

    /// Takes renewals where licenses may be acquired and renewed; else the lease ends.
    public func shouldWaitForRenewal(of request: KeyLoadingRequest) -> Bool {
        acquires && renews && shouldWaitForLoading(of: request)
    }

    /// Ends the acquisition, if one is under way.
    public func didCancel(_ request: KeyLoadingRequest) { forget(request)?.cancel() }

    /// A key is used for playing: from here on the clock is looked at. The first play is noted before.
    public func didStartPlaying(_ keyID: KeyID?, in session: KeySession) {
        let names = keyID.map { session.names(of: [$0]) }
        let licenses = inUse.withLock { inUse in
            names.map { inUse.entries(for: $0, in: session.playbackSessionID) }
                ?? inUse.entries(in: session.playbackSessionID)
        }
        guard licenses.contains(where: { $0.license.license.terms.dependsOnTime }) else { return }
        clockWatch.begin(for: session) { [weak self] in await self?.withdrawUntrusted(in: $0) }
    }

    /// Whether it would take the request.
    package func isFor(_ request: KeyLoadingRequest) -> Bool {
        if request.isRenewal {
            let names = request.names(of: request.keyIDs)
            if inUse.withLock({ $0.has(names, in: request.playbackSessionID) }) { return true }
        }
        return Self.isFor(request, hasService: client.configuration.licenseURL != nil)
    }

    /// Whether such a loader would take the request, with a configured license service or without. `request` is no renewal.
    static func isFor(_ request: KeyLoadingRequest, hasService: Bool) -> Bool {
        if request.keySystem == .playReady { return true }
        guard request.keySystem != .fairPlay, request.keyURI == nil else { return false }
        if request.initializationData.contains(where: { $0.system == .playReady }) { return true }
        return hasService && !request.keyIDs.isEmpty
    }

    /// Licenses do not outlive the session that they were given to.
    private func forgetAtEnd(of request: KeyLoadingRequest) {
        let session = request.playbackSessionID
        request.atSessionEnd(ObjectIdentifier(self)) { [weak self, client] in
            self?.inUse.withLock { $0.end(session) }
            self?.clockWatch.end(for: session)
            Task { await client.endSession(session) }
        }
    }

    @discardableResult
    private func forget(_ request: KeyLoadingRequest) -> Task<Void, Never>? {
        tasks.withLock { $0.removeValue(forKey: request.id) }
    }

    // MARK: Answers

    private func answer(to request: KeyLoadingRequest) async -> Result<KeyAnswer, KeyError> {
        do throws(PlayReadyAcquisitionError) {
            return .success(try await keys(for: request))
        } catch {
            return .failure(error.keyError)
        }
    }

    private func keys(for request: KeyLoadingRequest) async throws(PlayReadyAcquisitionError) -> KeyAnswer {
        let (need, place) = try need(of: request)
        if need.isNamedByURI { request.noteSaysNoKeyID() }
        // Times of an answer count from the question.
        let start = try await client.trustedTime().time
        var found: [KeyID: JudgedLicense] = [:]
        // Why licenses that travel with the media are of no use.
        var failures: [EmbeddedFailure] = []
        if !request.isRenewal {
            for keyID in need.keyIDs {
                if let judged = try await client.judge(keyID, session: request.playbackSessionID) {
                    found[keyID] = judged
                }
            }
            let embedded = try await client.judge(embedded: need.embedded)
            failures = embedded.failures
            for judged in embedded.judged
            where !(found[judged.keyID]?.verdict.mayPlay ?? false) { found[judged.keyID] = judged }
            let isRepaired = try await repairClock(for: &found)
            await claim(&found, for: request.playbackSessionID)
            // What plays already is no reason for another license, which counts at the service, and would most likely wait
            // for the same clock.
            for keyID in need.keyIDs where !isRepaired {
                guard let judged = found[keyID], judged.verdict.status == .untrustedTime,
                    let error = judged.verdict.error,
                    inUse.withLock({ $0.has([need.name(of: keyID)], in: request.playbackSessionID) })
                else { continue }
                throw .init(error.adding("KID \(keyID)"))
            }
        }
        let missing = need.keyIDs.filter { !(found[$0]?.verdict.mayPlay ?? false) }
        // Why the service refuses some of the licenses.
        var refusal: PlayReadyAcquisitionError?
        if acquires {
            for header in try need.headers(for: missing) {
                do throws(KeyError) { try await request.establishViewing() } catch { throw .init(error) }
                let licenses: [InstalledLicense]
                do throws(PlayReadyAcquisitionError) {
                    licenses = try await client.acquire(
                        header, place, session: request.playbackSessionID, delegate: delegate)
                } catch {
                    // If there is no service to ask, the media's own license is what matters.
                    if error.keyError.isSameKind(as: .invalidConfiguration("")),
                        let failure = failures.error(for: missing)
                    {
                        throw .init(failure)
                    }
                    guard error.keyError.isOfService, !need.isNamedByURI, !request.isRenewal, !Task.isCancelled else {
                        throw error
                    }
                    refusal = refusal ?? error
                    continue
                }
                for judged in try await client.judge(acquired: licenses) { found[judged.keyID] = judged }
            }
            try await repairClock(for: &found)
            await claim(&found, for: request.playbackSessionID)
        }
        if let refusal {
            let playable = need.keyIDs.filter { found[$0]?.verdict.mayPlay ?? false }
            if !playable.isEmpty {
                let part = try await answer(to: request, need.limited(to: playable), place, found, start: start)
                do throws(KeyError) { try request.provide(part) } catch { throw .init(error) }
            }
            if need.hasHeaders(for: missing) { request.noteAloneIsNoUse() }
            throw refusal
        }
        let unknown = need.keyIDs.filter { found[$0] == nil }
        if !unknown.isEmpty, let failure = failures.error(for: unknown) { throw .init(failure) }
        return try await answer(to: request, need, place, found, start: start)
    }

    /// A renewal after the first play has nothing of the media's: what brought the licenses counts.
    private func need(
        of request: KeyLoadingRequest
    ) throws(PlayReadyAcquisitionError) -> (PlayReadyNeed, MediaPlace) {
        guard request.isRenewal, request.initializationData.isEmpty else {
            return (try PlayReadyNeed(request), MediaPlace(request))
        }
        let missing = request.missingKeyIDs
        let names = request.names(of: missing.isEmpty ? request.keyIDs : missing)
        let entries = inUse.withLock { $0.entries(for: names, in: request.playbackSessionID) }
        let place = MediaPlace(
            suggestedURL: request.suggestedURL ?? entries.first?.origin.place.suggestedURL,
            mediaURL: request.mediaURL ?? entries.first?.origin.place.mediaURL,
            cookies: request.cookies ?? entries.first?.origin.place.cookies)
        if let need = PlayReadyNeed(renewing: entries) { return (need, place) }
        return (try PlayReadyNeed(request), place)
    }

    private func answer(
        to request: KeyLoadingRequest, _ need: PlayReadyNeed, _ place: MediaPlace, _ found: [KeyID: JudgedLicense],
        start: UnixTime
    ) async throws(PlayReadyAcquisitionError) -> KeyAnswer {
        for keyID in need.keyIDs {
            guard let judged = found[keyID] else {
                throw .init(PlayReadyError.licenseNotFound("acquire one for KID \(keyID)"))
            }
            if let error = judged.verdict.error { throw .init(error.adding("KID \(keyID)")) }
            if judged.installed.license.keyType == .keyExchange {
                throw .init(
                    PlayReadyError.unsupportedLicense(
                        "that for KID \(keyID) is a root license, whose key is for leaf licenses and not for media"))
            }
        }
        // A header may bring more licenses. Each key goes out with terms of its own, when it is asked for.
        let usable = need.keyIDs.compactMap { found[$0] }
        let session = request.playbackSessionID
        inUse.withLock { inUse in
            for judged in usable {
                inUse.add(
                    judged.installed, for: need.name(of: judged.keyID), in: session,
                    from: .init(
                        header: need.header(of: judged.keyID), place: place,
                        isNamedByURI: need.isNamedByURI))
            }
        }
        // Where it ended meanwhile, they go now.
        forgetAtEnd(of: request)
        var terms = KeyTerms(usable, from: start, renews: acquires && renews)
        for judged in usable {
            let name = need.name(of: judged.keyID)
            terms.outputPolicies[name] = judged.outputPolicy
            guard judged.verdict.expiresAfterFirstPlay != nil else { continue }
            terms.playNotes[name] = PlayNote { [self] session throws(KeyError) in
                try await notePlay(judged.installed, in: session)
            }
        }
        if need.isNamedByURI, let key = found[need.keyIDs[0]]?.installed.license.contentKey {
            return .limited(.key(key), terms)
        }
        let keys = Dictionary(usable.map { ($0.keyID, $0.installed.license.contentKey) }, uniquingKeysWith: { $1 })
        return .limited(.keys(keys), terms)
    }

    /// Takes the licenses that are for one session only. Those that another session has taken meanwhile are not there.
    private func claim(_ found: inout [KeyID: JudgedLicense], for session: UInt64) async {
        for judged in found.values where judged.verdict.mayPlay && !judged.installed.isPersistent {
            if !(await client.claim(judged.installed, for: session)) { found[judged.keyID] = nil }
        }
    }

    /// Asks the time service where a license waits for trusted time, and judges again. False where it did not answer.
    @discardableResult
    private func repairClock(for found: inout [KeyID: JudgedLicense]) async throws(PlayReadyAcquisitionError) -> Bool {
        guard client.configuration.timeURL != nil,
            found.values.contains(where: { $0.verdict.status == .untrustedTime })
        else { return true }
        do throws(TrustedClockError) {
            try await client.repairClock()
        } catch {
            client.configuration.log("the clock was not repaired: \(error)")
            return false
        }
        for judged in try await client.judge(acquired: found.values.map(\.installed)) { found[judged.keyID] = judged }
        return true
    }

    // MARK: The clock

    /// Keys whose license has an end, and may not be used with the clock as it is now, are asked for again, which repairs
    /// the clock where that can be done, and else says what is wrong. Licenses without an end play on, as PlayReady’s
    /// public documentation says (“Trusted clocks”). Where the store cannot tell, the key goes.
    private func withdrawUntrusted(in session: KeySession) async {
        var untrusted: [(entry: LicensesInUse.Entry, reason: String)] = []
        for entry in inUse.withLock({ $0.entries(in: session.playbackSessionID) })
        where entry.license.license.terms.mayEnd {
            do throws(PlayReadyAcquisitionError) {
                let judged = try await client.judge(acquired: [entry.license]).first
                guard let judged, judged.verdict.status == .untrustedTime else { continue }
                untrusted.append((entry, judged.verdict.rights.reason))
            } catch {
                untrusted.append((entry, "the system clock was set back, and \(error)"))
            }
        }
        guard let first = untrusted.first else { return }
        // At once: what has one of them still would play on with it for a moment, and ask for another.
        let others = untrusted.count > 1 ? " and \(untrusted.count - 1) more" : ""
        var keys: [KeyID: ContentKey] = [:]
        for (entry, _) in untrusted {
            for name in entry.names { keys[name] = entry.license.license.contentKey }
        }
        let keyID = first.entry.license.license.keyID
        session.withdraw(keys, because: .leaseExpired("KID \(keyID)\(others): \(first.reason)"))
    }

    // MARK: First play

    /// From here on counts the time after the first play. The key is not used before: a rental whose first play cannot be noted
    /// would begin anew each time.
    private func notePlay(_ installed: InstalledLicense, in session: KeySession) async throws(KeyError) {
        do throws(PlayReadyAcquisitionError) {
            let first = try await client.markFirstPlay(installed)
            guard installed.license.terms.hasRealTimeExpiration else { return }
            // From now on the license has an end that also stops what is being played.
            let now = try await client.trustedTime().time
            let judged = try await client.judge(acquired: [installed]).first
            guard let judged, judged.verdict.rights.stops != nil, first <= now else { return }
            let key = installed.license.contentKey
            var terms = KeyTerms([judged], from: now, renews: acquires && renews)
            // It may have ended while the first play was written down. A key with no time at all would not be taken.
            terms.lease = terms.lease.map { max($0, .milliseconds(100)) }
            terms.expiry = terms.expiry.map { max($0, .milliseconds(100)) }
            let names = inUse.withLock { $0.names(of: installed.id, in: session.playbackSessionID) }
            for name in names { terms.outputPolicies[name] = judged.outputPolicy }
            session.install(names.reduce(into: [:]) { $0[$1] = key }, terms: terms)
        } catch {
            client.configuration.log("the first play of license \(installed.id) is not noted: \(error)")
            throw .leaseExpired("KID \(installed.license.keyID): its first play cannot be noted: \(error)")
        }
    }
}

extension XMRTerms {
    /// Whether a time counts from the first play.
    fileprivate var limitsPlaying: Bool { expirationAfterFirstPlay != nil || expirationAfterFirstUse != nil }

    /// Whether a time comes, or may come, after which it cannot be used.
    fileprivate var mayEnd: Bool { limitsPlaying || end != nil || removalDate != nil }

    /// Whether the time decides about it.
    fileprivate var dependsOnTime: Bool { mayEnd || begin ?? 0 != 0 }

    fileprivate var saysOutputs: Bool {
        outputLevels != nil || !analogProtections.isEmpty || !digitalVideoProtections.isEmpty
            || !digitalAudioProtections.isEmpty || !playEnablers.isEmpty
    }
}

extension KeyTerms {
    /// The shortest times of several licenses. `start` is when the keys were asked for.
    init(_ licenses: some Sequence<JudgedLicense>, from start: UnixTime, renews: Bool) {
        self.init()
        for judged in licenses {
            if let stop = judged.verdict.rights.stops {
                let left = Duration.seconds(max(0, start.seconds(to: stop)))
                if renews { lease = min(lease ?? left, left) } else { expiry = min(expiry ?? left, left) }
            }
        }
    }
}

extension JudgedLicense {
    /// Nil where the license says nothing of outputs.
    fileprivate var outputPolicy: OutputPolicy? {
        let terms = installed.license.terms
        return terms.saysOutputs ? OutputPolicy(terms) : nil
    }
}

extension PlayReadyLoader: Redacted {
    /// That of the client's configuration.
    public var description: String { client.configuration.description }
}

extension KeyError {
    /// Whether the license service has answered that it gives none, which says nothing of other licenses.
    var isOfService: Bool { isSameKind(as: .denied("")) || isSameKind(as: .serverStatus("")) }
}

/// The licenses whose keys sessions have, as a value: to find them again when they are played.
struct LicensesInUse {
    struct Entry: Sendable {
        let license: InstalledLicense
        /// What the session calls the key.
        var names: Set<KeyID>
        let session: UInt64
        /// What brought it, for a renewal that has nothing of the media's.
        let origin: Origin
    }

    struct Origin: Sendable {
        var header: WRMHeader?
        var place: MediaPlace
        /// `PlayReadyNeed.isNamedByURI`.
        var isNamedByURI = false
    }

    /// The oldest go when there are more, and all go with their session. A stream that rotates keys brings new ones for ever.
    private let limit: Int
    private var entries: [Entry] = []

    init(limit: Int = 4096) { self.limit = limit }

    mutating func add(_ license: InstalledLicense, for name: KeyID, in session: UInt64, from origin: Origin) {
        remove(name, in: session)
        if entries.count >= limit { entries.removeFirst() }
        entries.append(Entry(license: license, names: [name], session: session, origin: origin))
    }

    /// The session is over: its keys go.
    mutating func end(_ session: UInt64) { entries.removeAll { $0.session == session } }

    var isEmpty: Bool { entries.isEmpty }

    func entries(in session: UInt64) -> [Entry] { entries.filter { $0.session == session } }

    func entries(for names: [KeyID], in session: UInt64) -> [Entry] {
        let names = Set(names)
        return entries.filter { $0.session == session && !$0.names.isDisjoint(with: names) }
    }

    func has(_ names: [KeyID], in session: UInt64) -> Bool {
        entries.contains { $0.session == session && !$0.names.isDisjoint(with: names) }
    }

    /// What the session calls the license's key.
    func names(of license: RecordID, in session: UInt64) -> Set<KeyID> {
        entries.reduce(into: []) { names, entry in
            if entry.session == session, entry.license.id == license { names.formUnion(entry.names) }
        }
    }

    private mutating func remove(_ name: KeyID, in session: UInt64) {
        entries.removeAll { $0.session == session && $0.names.contains(name) }
    }
}

/// Looks at the trusted clock while sessions play what depends on the date: nothing else reads it then. Thread-safe.
final class ClockWatch: Sendable {
    static let interval = Duration.seconds(5)

    private let client: PlayReadyClient
    private let pause: @Sendable (Duration) async throws -> Void
    private let tasks = Mutex<[UInt64: Task<Void, Never>]>([:])

    init(_ client: PlayReadyClient, pause: @escaping @Sendable (Duration) async throws -> Void) {
        self.client = client
        self.pause = pause
    }

    /// From now until the session's end; again does nothing. `withdraw` takes away what may not be used with a clock that was
    /// set back, at each look that finds it so: a license may allow some time. The first leaves it to what asks for its key
    /// again to ask the time service; each one after it asks too, where one is configured, so that a service that did not
    /// answer is not the end of what waits for it.
    func begin(for session: KeySession, withdraw: @escaping @Sendable (KeySession) async -> Void) {
        let id = session.playbackSessionID
        tasks.withLock { tasks in
            guard tasks[id] == nil else { return }
            tasks[id] = Task { [weak session, client, pause] in
                var wasSetBack = false
                while !Task.isCancelled, (try? await pause(Self.interval)) != nil, session != nil {
                    let time = try? await client.trustedTime()
                    // A clock that was set back, and cannot be read any more, is no better.
                    let isSetBack = time.map { $0.trust == .rolledBack } ?? wasSetBack
                    let isNew = isSetBack && !wasSetBack
                    wasSetBack = isSetBack
                    guard isSetBack else { continue }
                    if isNew { session?.tell(ClockNotice()) }
                    if let session { await withdraw(session) }
                    if !isNew { await Self.repair(client) }
                }
            }
        }
    }

    private static func repair(_ client: PlayReadyClient) async {
        guard client.configuration.timeURL != nil else { return }
        do throws(TrustedClockError) {
            try await client.repairClock()
        } catch {
            client.configuration.log("the clock was not repaired: \(error)")
        }
    }

    func end(for session: UInt64) { tasks.withLock { $0.removeValue(forKey: session) }?.cancel() }
}
