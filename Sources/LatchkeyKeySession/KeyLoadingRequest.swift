// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// A session's question for keys, for a resource loader or the application to answer.
///
/// Thread-safe. It does not keep its session: when the session goes, the request is cancelled. The answer belongs to
/// the session, so it counts also when the caller that demanded the keys is gone.
public final class KeyLoadingRequest: Sendable, Identifiable {
    /// Unique in the process, never zero.
    public let id: UInt64
    /// Whose license exchange this is. Nil where the media named no system that has one.
    public let keySystem: KeySystem?
    /// The keys to get. Empty: media without a KID.
    public let keyIDs: [KeyID]
    /// The URI by which a playlist names the key, as `skd://…`: what AVFoundation calls the request's identifier. Nil
    /// for keys that have no such name. A request for several keys has the URI of the first that has one.
    public let keyURI: String?
    /// What the media brought for it, such as `pssh` boxes; in the order of the media.
    public let initializationData: [InitializationData]
    /// A license URL that the media names. Not trusted: send no credentials there.
    public let suggestedURL: String?
    /// `KeyDemand.otherURLs`
    let otherURLs: [String]
    /// Where the media that names these keys came from. Nil: not known.
    package let mediaURL: String?
    /// Those of the presentation, for a license service at its hosts.
    let cookies: CookieStore?
    /// Whether the request extends a license that the session has. Clear Key licenses do not end, so theirs are not.
    public let isRenewal: Bool

    /// The number of requests for the same keys after which no loader is asked whether to try again.
    public static let maximumAttempts = 4
    /// 1 for the first, one more for each retry.
    public let attempt: Int
    /// `KeyDemand.origin` of the demand that it began with.
    package let origin: UInt64

    private struct State {
        var status = KeyRequestStatus.requestingResponse
        var hasAnswered = false
        var taker: (any ResourceLoader)?
        /// Who was asked last, and so is the one that answers.
        weak var candidate: (any ResourceLoader)?
        var exchange: FairPlayExchange?
        var hasStoredKey = false
    }

    weak let session: KeySession?
    private let state = Mutex(State())

    init(
        id: UInt64, demand: KeyDemand, keyIDs: [KeyID], keyURI: String? = nil, isRenewal: Bool = false,
        attempt: Int = 1, session: KeySession?
    ) {
        self.id = id
        self.keySystem = demand.keySystem
        self.keyIDs = keyIDs
        self.keyURI = keyURI
        self.initializationData = demand.initializationData
        self.suggestedURL = demand.suggestedURL
        otherURLs = demand.otherURLs
        mediaURL = demand.mediaURL
        cookies = demand.cookies
        self.isRenewal = isRenewal
        self.attempt = attempt
        origin = demand.origin
        self.session = session
    }

    /// A request for the same keys, or some of them, that is new to everybody.
    private init(
        id: UInt64, like other: KeyLoadingRequest, keyIDs: [KeyID], isRenewal: Bool, attempt: Int, session: KeySession
    ) {
        self.id = id
        keySystem = other.keySystem
        self.keyIDs = keyIDs
        keyURI = other.keyURI
        initializationData = other.initializationData
        suggestedURL = other.suggestedURL
        otherURLs = other.otherURLs
        mediaURL = other.mediaURL
        cookies = other.cookies
        self.isRenewal = isRenewal
        self.attempt = attempt
        origin = other.origin
        self.session = session
    }

    convenience init(id: UInt64, renewing other: KeyLoadingRequest, keyIDs: [KeyID], session: KeySession) {
        self.init(id: id, like: other, keyIDs: keyIDs, isRenewal: true, attempt: 1, session: session)
    }

    convenience init(id: UInt64, repeating other: KeyLoadingRequest, keyIDs: [KeyID], session: KeySession) {
        self.init(
            id: id, like: other, keyIDs: keyIDs, isRenewal: other.isRenewal, attempt: other.attempt + 1,
            session: session)
    }

    /// The body to send to the license service. Empty where the key system has no exchange without a loader's help.
    ///
    /// For Clear Key the license request of W3C Encrypted Media Extensions, 9.1.3.
    public var challenge: [UInt8] {
        keySystem == .clearKey ? ClearKey.licenseRequest(for: keyIDs) : []
    }
    /// Where it stands now. Any thread may ask.
    public var status: KeyRequestStatus { state.withLock(\.status) }

    /// Whether the request needs no answer any more.
    public var isFinished: Bool { status != .requestingResponse }

    /// Whether it ended without this object's answer: withdrawn, answered by other code, or the session is gone.
    public var isCancelled: Bool { status == .cancelled }

    /// Those of `keyIDs` that have no key yet; for a key that has a URI, the KID that stands for it now. Empty also for
    /// media without a KID, and when the request is over.
    public var missingKeyIDs: [KeyID] { session?.missingKeyIDs(in: id) ?? [] }

    /// The URI by which a playlist names the key of this KID.
    public func keyURI(of keyID: KeyID) -> String? { session?.keyURI(of: keyID) }

    /// `KeySession.names(of:)`.
    func names(of keyIDs: [KeyID]) -> [KeyID] { session?.names(of: keyIDs) ?? keyIDs }

    /// Whether the key is wanted to be stored, and nothing plays (`KeyStoring`): answer with `.persistableKey`, or with an error
    /// that says why there is none.
    public var isForStorage: Bool { configuration?.isForStorage ?? false }

    /// Answers, once; a second call does nothing but write to the session's log. Keys that the answer lacks fail.
    ///
    /// Returns whether the request waited for it: false if it was finished before (`isFinished`), or is made again. Keys that
    /// come after a request was withdrawn are kept for later requests, unless the session is closed or gone.
    @discardableResult
    public func finishLoading(with answer: KeyAnswer) -> Bool { finish(.success(answer)) }

    /// Denies the keys that are missing, once, as the other `finishLoading`. Returns whether the request waited for it.
    @discardableResult
    public func finishLoading(with error: KeyError) -> Bool { finish(.failure(error)) }

    /// A loader that took the request leaves it to those behind it after all. It must not answer any more; its `didCancel`
    /// may still be called. Does nothing if the request is over.
    public func passOn() {
        state.withLock { $0.taker = nil }
        guard !isFinished else { return }
        session?.ask(for: self)
    }

    /// Sees to it that a viewing session is there, before a server is asked. Throws why there is none.
    package func establishViewing() async throws(KeyError) { try await session?.establishViewing() }

    /// Hands over some of the keys. The request stays open for a loader that has the rest.
    public func provide(_ keys: [KeyID: ContentKey]) { session?.provide(keys, for: id) }

    /// `missingKeyIDs`, for loaders that say them to the answering party: a refusal is then about these.
    func sayMissingKeyIDs() -> [KeyID] { session?.sayMissingKeyIDs(ofRequest: id) ?? [] }

    /// For loaders that ask by what the playlist has for the key, whatever the KID is that stands for it, and for those whose
    /// server refuses the key whatever its KID is.
    func noteSaysNoKeyID() { session?.noteSaysNoKeyID(ofRequest: id) }

    /// For loaders that have asked for each of the keys alone, or would ask the same again: after a refusal, no one asks for one
    /// of them alone.
    func noteAloneIsNoUse() { session?.noteAloneIsNoUse(ofRequest: id) }

    /// For loaders that keep stored keys: what the one of this request says now could not be written. Observers get
    /// `KeyEvent.notStored`, the application a message, and the session's log a line. The keys stay usable.
    public func didNotStore(_ error: KeyError) { session?.didNotStore(self, error) }

    /// Writes a line to the session's log.
    func log(_ text: String) { session?.log(text) }

    /// Hands over some of the keys with their terms; the rest is answered later.
    func provide(_ answer: KeyAnswer) throws(KeyError) { try session?.provide(answer, for: self) }

    private func finish(_ result: Result<KeyAnswer, KeyError>) -> Bool {
        let (isFirst, isAwaited) = state.withLock { state in
            defer { state.hasAnswered = true }
            let isAwaited = state.status == .requestingResponse
            if isAwaited {
                if case .success = result { state.status = .receivedResponse } else { state.status = .failed }
            }
            return (!state.hasAnswered, isAwaited)
        }
        guard let session else { return false }
        guard isFirst else {
            session.log("\(description) was finished a second time; that answer is ignored")
            return false
        }
        return session.respond(to: self, with: result) && isAwaited
    }

    // MARK: For the session

    var configuration: KeySessionConfiguration? { session?.configuration }

    /// In seconds since 1970-01-01 00:00 UTC, by the session's clock.
    var sessionDate: Int64 { session?.clock.date() ?? 0 }

    /// The same by the clock that judges stored keys. Throws `invalidConfiguration` if that cannot be trusted.
    func storedKeyTime() throws(KeyError) -> UInt64 { try session?.storedKeyTime() ?? 0 }

    /// Runs `body` when the session is over; now, where it is. One body for each owner: the latest.
    func atSessionEnd(_ owner: ObjectIdentifier, _ body: @escaping @Sendable () -> Void) {
        if let session { session.atEnd(owner, body) } else { body() }
    }

    var playbackSessionID: UInt64 { session?.playbackSessionID ?? 0 }

    /// The exchange that opens the answer.
    var exchange: FairPlayExchange? { state.withLock(\.exchange) }

    func setExchange(_ exchange: FairPlayExchange) { state.withLock { $0.exchange = exchange } }

    /// Whether the answer was a stored key that opens.
    var hasStoredKey: Bool { state.withLock(\.hasStoredKey) }

    func noteStoredKey() { state.withLock { $0.hasStoredKey = true } }

    /// The loader whose answer it is, when this object is finished.
    var answerer: (any ResourceLoader)? { state.withLock(\.candidate) }

    /// Notes whom it is offered to next.
    func willOffer(to loader: any ResourceLoader) { state.withLock { $0.candidate = loader } }

    /// Notes who will answer. False where the request was cancelled meanwhile and the loader is still to be told.
    func take(by loader: any ResourceLoader) -> Bool {
        state.withLock { state in
            // One that passed the request on may have been quicker than this.
            if state.status == .requestingResponse, state.candidate === loader { state.taker = loader }
            return state.status != .cancelled || state.hasAnswered
        }
    }

    /// Ends the request. Tells the loader that took it, on a task, unless it was the one that answered.
    func dismiss(hasFailed: Bool = false) {
        let taker = state.withLock { state in
            defer { state.taker = nil }
            if state.status == .requestingResponse { state.status = .cancelled }
            if state.status == .receivedResponse, hasFailed { state.status = .failed }
            return state.status == .cancelled ? state.taker : nil
        }
        guard let taker else { return }
        Task { taker.didCancel(self) }
    }

    /// Another request took its place, or brought its keys anew.
    func setStatus(_ status: KeyRequestStatus) { state.withLock { $0.status = status } }
}

extension KeyLoadingRequest: Redacted {
    /// Id and the first four KIDs.
    public var description: String {
        let names = keyIDs.prefix(4).map(\.description).joined(separator: ", ")
        let more = keyIDs.count > 4 ? " and \(keyIDs.count - 4) more" : ""
        return "key request \(id) for \(keyIDs.isEmpty ? "media without a KID" : "KID \(names)\(more)")"
    }
    /// Id, key system and KIDs; URLs and initialization data do not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["id": id, "keySystem": keySystem as Any, "keyIDs": keyIDs] }
}

/// Where a key request is, as AVFoundation's `AVContentKeyRequest.Status` has it.
public enum KeyRequestStatus: Sendable, Hashable, CaseIterable {
    /// It waits for an answer.
    case requestingResponse
    /// It was answered with keys that are usable.
    case receivedResponse
    /// Its keys were renewed since.
    case renewed
    /// Another request has taken its place (see `ResourceLoader.shouldRetry`).
    case retried
    /// It needs no answer any more: withdrawn, answered by other code, or the session is gone.
    case cancelled
    /// It was answered with an error, or with nothing that could be used.
    case failed
}

/// Why a request could be tried again, as AVFoundation's `AVContentKeyRequest.RetryReason` has it.
public enum KeyRetryReason: Sendable, Hashable, CaseIterable {
    /// The answer did not come in time.
    case timedOut
    /// The answer's lease, or its stored key, was over when it came.
    case receivedResponseWithExpiredLease
    /// The answer to a renewal brings no more time than the session has.
    case receivedObsoleteContentKey
}
