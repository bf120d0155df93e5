// SPDX-License-Identifier: MPL-2.0

import KeySystems
import ProtectionModel
import Synchronization

/// A session's question for keys, for a resource loader or the application to answer.
///
/// Thread-safe. It does not keep its session: when the session goes, the request is cancelled. The answer belongs to
/// the session, so it counts also when whoever demanded the keys is gone.
public final class KeyLoadingRequest: Sendable, Identifiable {
    /// Unique in the process, never zero.
    public let id: UInt64
    /// Whose licence exchange this is. Nil where the media named no system that has one.
    public let keySystem: KeySystem?
    /// The keys to get. Empty: media without a KID.
    public let keyIDs: [KeyID]
    /// The URI by which a playlist names the key, as `skd://…`: what AVFoundation calls the request's identifier. Nil
    /// for keys that have no such name. A request for several keys has the URI of the first that has one.
    public let keyURI: String?
    public let initializationData: [InitializationData]
    /// A licence URL that the media names. Not trusted: send no credentials there.
    public let suggestedURL: String?
    /// Whether the request extends a licence that the session has. Clear Key licences do not end, so theirs are not.
    public let isRenewal: Bool

    private enum Phase {
        case pending
        /// Finished, by this object or by the application.
        case finished
        case cancelled
    }

    private struct State {
        var phase = Phase.pending
        var hasAnswered = false
        var taker: (any ResourceLoader)?
    }

    private weak let session: KeySession?
    private let state = Mutex(State())

    init(
        id: UInt64, demand: KeyDemand, keyIDs: [KeyID], keyURI: String? = nil, isRenewal: Bool = false,
        session: KeySession?
    ) {
        self.id = id
        self.keySystem = demand.keySystem
        self.keyIDs = keyIDs
        self.keyURI = keyURI
        self.initializationData = demand.initializationData
        self.suggestedURL = demand.suggestedURL
        self.isRenewal = isRenewal
        self.session = session
    }

    /// The body to send to the licence service. Empty where the key system has no exchange without a loader's help.
    ///
    /// For Clear Key the licence request of W3C Encrypted Media Extensions, 9.1.3.
    public var challenge: [UInt8] {
        keySystem == .clearKey ? ClearKey.licenseRequest(for: keyIDs) : []
    }

    /// Whether the request needs no answer any more.
    public var isFinished: Bool { state.withLock { $0.phase != .pending } }

    /// Whether it ended without this object's answer: withdrawn, answered by somebody else, or the session is gone.
    public var isCancelled: Bool { state.withLock { $0.phase == .cancelled } }

    /// Those of `keyIDs` that have no key yet; for a key that has a URI, the KID that stands for it now. Empty also for
    /// media without a KID, and when the request is over.
    public var missingKeyIDs: [KeyID] { session?.missingKeyIDs(in: id) ?? [] }

    /// The URI by which a playlist names the key of this KID.
    public func keyURI(of keyID: KeyID) -> String? { session?.keyURI(of: keyID) }

    /// Answers, once; a second call does nothing. Keys that the answer lacks fail.
    ///
    /// An answer to a request that was withdrawn still counts, unless its session is closed or gone. Returns whether
    /// the answer counted.
    @discardableResult
    public func finishLoading(with answer: KeyAnswer) -> Bool { finish(.success(answer)) }

    /// Denies the keys that are missing, once; a second call does nothing. Returns whether it counted.
    @discardableResult
    public func finishLoading(with error: KeyError) -> Bool { finish(.failure(error)) }

    /// Hands over some of the keys and leaves the request to whoever has the rest.
    public func provide(_ keys: [KeyID: ContentKey]) { session?.provide(keys, for: id) }

    private func finish(_ result: Result<KeyAnswer, KeyError>) -> Bool {
        let isFirst = state.withLock { state in
            defer { state.hasAnswered = true }
            if state.phase == .pending { state.phase = .finished }
            state.taker = nil
            return !state.hasAnswered
        }
        guard isFirst, let session else { return false }
        return session.respond(toRequest: id, with: result)
    }

    // MARK: For the session

    /// Notes who will answer. False where the request was cancelled meanwhile and the loader is still to be told.
    func take(by loader: any ResourceLoader) -> Bool {
        state.withLock { state in
            if state.phase == .pending { state.taker = loader }
            return state.phase != .cancelled || state.hasAnswered
        }
    }

    /// Ends the request. Tells the loader that took it, on a task, unless it was the one that answered.
    func dismiss() {
        let taker = state.withLock { state in
            defer { state.taker = nil }
            if state.phase == .pending { state.phase = .cancelled }
            return state.phase == .cancelled ? state.taker : nil
        }
        guard let taker else { return }
        Task { taker.didCancel(self) }
    }
}

extension KeyLoadingRequest: CustomStringConvertible, CustomReflectable {
    public var description: String {
        let names = keyIDs.prefix(4).map(\.description).joined(separator: ", ")
        let more = keyIDs.count > 4 ? " and \(keyIDs.count - 4) more" : ""
        return "key request \(id) for \(keyIDs.isEmpty ? "media without a KID" : "KID \(names)\(more)")"
    }

    public var customMirror: Mirror {
        Mirror(self, children: ["id": id, "keySystem": keySystem as Any, "keyIDs": keyIDs])
    }
}
