// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyManifests
public import LatchkeyProtection
import Synchronization

/// Has the keys stored that content needs in playback without a network, before it plays: for downloads.
///
/// The loaders of a session of its own are asked, as for playback (`KeyLoadingRequest.isForStorage` is true for them),
/// and no playback begins. A value; it does nothing until `store`.
public struct KeyStoring: Sendable {
    /// What has become of a key.
    public enum Outcome: Sendable {
        /// Playback without a network will find it, as long as its terms allow.
        case stored
        /// It will not.
        case refused(KeyError)
        /// No loader is for such a key.
        case untaken
    }

    private let makeSession: @Sendable () throws(KeyError) -> KeySession
    private let timeout: Duration
    private let limit: Duration

    /// Asks `loaders`, then those of `settings`; both are made anew for each `store`. An answer has to come within
    /// `timeout`, and all of them within ten times that.
    public init(
        loaders: @escaping @Sendable () -> [any ResourceLoader] = { [] },
        transport: any HTTPTransport = CurlTransport.shared,
        timeout: Duration = .seconds(60), settings: @escaping @Sendable () throws(KeyError) -> ControlSettings
    ) {
        self.init(timeout: timeout, limit: timeout * 10) { () throws(KeyError) in
            let settings = try settings()
            var configuration = try settings.makeConfiguration()
            configuration.isForStorage = true
            let session = KeySession(loaders: loaders(), configuration: configuration)
            for loader in settings.makeLoaders(transport: session.transport(over: transport)) {
                session.addLoader(loader)
            }
            return session
        }
    }

    init(
        timeout: Duration, limit: Duration, makeSession: @escaping @Sendable () throws(KeyError) -> KeySession
    ) {
        self.makeSession = makeSession
        self.timeout = timeout
        self.limit = limit
    }

    /// Asks for the keys, one after the other, as playlists name them. Returns one outcome for each. If the task is
    /// cancelled, or an answer does not come in time, the rest is refused without a request.
    public func store(_ keys: [HLSKey]) async -> [Outcome] {
        guard !keys.isEmpty else { return [] }
        let session: KeySession
        do throws(KeyError) { session = try makeSession() } catch { return keys.map { _ in .refused(error) } }
        defer { session.close(.sessionClosed("the keys were asked for to be stored")) }
        // A session server that has to agree does so first.
        let use = session.beginPlayback()
        defer { use?.end() }
        do throws(KeyError) { try await session.establishViewing() } catch { return keys.map { _ in .refused(error) } }
        var outcomes: [Outcome] = []
        var kept: Set<KeyID> = []
        let end = ContinuousClock.now + limit
        for key in keys {
            if Task.isCancelled {
                outcomes.append(.refused(Self.cancelled))
            } else if ContinuousClock.now >= end {
                outcomes.append(.refused(.timedOut("not asked for: the \(limit) for all keys are over")))
            } else if case .refused(let error)? = outcomes.last, error.isSameKind(as: .timedOut("")) {
                outcomes.append(.refused(.timedOut("not asked for: the answer for a key before it did not come")))
            } else {
                let time = min(timeout, end - ContinuousClock.now)
                outcomes.append(await store(key, in: session, within: time, &kept))
            }
        }
        return outcomes
    }

    private static let cancelled = KeyError.cancelled("the download was paused")

    /// `kept`: the keys that are stored by now, and what needs no network.
    private func store(
        _ key: HLSKey, in session: KeySession, within time: Duration, _ kept: inout Set<KeyID>
    ) async -> Outcome {
        let (events, signal) = AsyncStream.makeStream(of: KeyEvent.self)
        let observation = session.observe { signal.yield($0) }
        let alarm = Task {
            try? await Task.sleep(for: time)
            signal.finish()
        }
        defer {
            observation.cancel()
            alarm.cancel()
        }
        let keyID = session.keyID(forURI: key.uri ?? "", mediaKeyID: key.keyID)
        // A track may name a key by its URI, and another one by its KID, too. Nothing is asked for a second time.
        if case .usable = session.status(of: keyID) {
            return kept.isDisjoint(with: session.names(of: [keyID]))
                ? .refused(.denied("it came with another key, and is not stored")) : .stored
        }
        let box = key.initializationData(keyID: keyID)
        session.demand(
            KeyDemand(
                keyIDs: [keyID], keySystem: KeySystem(box.system),
                initializationData: [
                    InitializationData(system: box.system, bytes: box.serialized() ?? [], origin: "hls/m3u8")
                ], retryFailuresUpTo: session.generation, origin: observation.id))
        var requests: [UInt64: KeyLoadingRequest] = [:]
        for await event in events {
            switch event {
            case .requested(let request, _): requests[request.id] = request
            case .usable(let id, let keyIDs, _) where keyIDs.contains(keyID):
                let request = id.flatMap { requests[$0] }
                if request?.hasStoredKey == true || request?.answerer?.needsNoNetwork == true {
                    kept.formUnion(keyIDs)
                    return .stored
                }
                return .refused(.denied("\(request?.answerer?.name ?? "who has the key") gave one that is not stored"))
            case .failed(_, let keyIDs, let error) where keyIDs.contains(keyID): return .refused(error)
            case .untaken(let request, _) where request.keyIDs.contains(keyID): return .untaken
            case .closed(let error): return .refused(error)
            default: break
            }
        }
        return .refused(Task.isCancelled ? Self.cancelled : .timedOut("no answer in \(time)"))
    }
}
