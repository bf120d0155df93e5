// SPDX-License-Identifier: MPL-2.0

package import LatchkeyHTTP
package import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// What the elements of one pipeline share from the start of the first one to the stop of the last one: a refusal is
/// asked for once and reported once, however many elements need the key. Thread-safe.
public final class KeyPlayback: Sendable {
    /// What an application needs to get once, however many elements meet it.
    public enum Notice: Hashable, Sendable {
        /// The key is refused for this reason.
        case refusal(KeyID?, KeyError)
        /// The request with this number failed. Zero: no request was made, and each failure is a notice of its own.
        case failedRequest(UInt64)
        /// What this key decrypts is not media.
        case wrongKey(KeyID?)
    }

    private struct State {
        var told: Set<Notice> = []
        /// What an element tells now, with what is to run after that.
        var inProgress: [Notice: [@Sendable () -> Void]] = [:]
        var askedAlone: Set<KeyID> = []
        var manifestURLs: [String] = []
        var cookies: [CookieStore] = []
        var licensePlaces: [LicensePlace] = []
        var manifestFailure: String?
        var playsFiles: Bool?
    }

    /// Media names its KIDs: the most of them, and of notices, that are remembered.
    private static let limit = 65_536
    /// With so many manifests, their origins count as several.
    private static let manifestLimit = 16
    private static let licensePlaceLimit = 64

    /// Failures up to here are of an earlier playback.
    public let startGeneration: UInt64
    private let state = Mutex(State())

    init(startGeneration: UInt64) { self.startGeneration = startGeneration }

    /// The pipeline plays a manifest that came from there, and its decryptors what that names.
    public func note(manifestURL url: String) { note(manifestURL: url, cookies: nil) }

    /// The same, with the cookies of the presentation.
    package func note(manifestURL url: String, cookies: CookieStore?) {
        state.withLock { state in
            if let cookies, !state.cookies.contains(where: { $0 === cookies }) { state.cookies.append(cookies) }
            if state.manifestURLs.count < Self.manifestLimit, !state.manifestURLs.contains(url) {
                state.manifestURLs.append(url)
            }
            if URIReference(url).filePath == nil { state.playsFiles = false }
        }
    }

    /// Whether a manifest or playlist that plays is a file of this device, and names media in files alone.
    package func note(playsFiles: Bool) { state.withLock { $0.playsFiles = playsFiles && $0.playsFiles != false } }

    /// Whether all that were noted are such. Nil: none was.
    package var playsFiles: Bool? { state.withLock(\.playsFiles) }

    /// A manifest that plays could not be read here: what it says of keys is not known. With the words for people, which show no
    /// secret.
    package func note(manifestFailure text: String) { state.withLock { $0.manifestFailure = text } }

    /// Why nothing is known of what the manifest says of keys; nil where that is known, or there is no manifest.
    package var manifestFailure: String? { state.withLock(\.manifestFailure) }

    /// A manifest names a license service. The one that it names last counts.
    package func note(_ place: LicensePlace) {
        state.withLock { state in
            state.licensePlaces.removeAll { $0 == place }
            if state.licensePlaces.count >= Self.licensePlaceLimit { state.licensePlaces.removeFirst() }
            state.licensePlaces.append(place)
        }
    }

    /// Where a key is asked for of which the manifest has no KID. `keySystem` and `media`: of the key; nil: not known.
    package func licensePlace(for keySystem: KeySystem?, _ media: OutputPolicy.Media?) -> LicensePlace? {
        state.withLock { state in
            let fitting = state.licensePlaces.filter { keySystem == nil || $0.keySystem == keySystem }
            return fitting.last { $0.media != nil && $0.media == media } ?? fitting.last { $0.media == nil }
                ?? (media == nil ? fitting.last : nil)
        }
    }

    /// Where the manifests of the pipeline came from, if all are of one origin. Empty: of several, or of none that is known.
    /// Nil: there is no manifest.
    public var manifestURL: String? {
        let urls = state.withLock(\.manifestURLs)
        guard urls.count > 1 else { return urls.first }
        // To know an origin takes libcurl, which clear media does not need.
        let isOfOneOrigin = urls.count < Self.manifestLimit && Set(urls.map { HTTPRequest(url: $0).origin }).count == 1
        return isOfOneOrigin ? urls.first : ""
    }

    /// Those of the presentation that the pipeline plays. Nil where there are several.
    package var cookies: CookieStore? {
        state.withLock { $0.cookies.count == 1 ? $0.cookies.first : nil }
    }

    /// Sends a notice with `tell`, unless another element has sent it or sends it now. `completion` runs when it is sent:
    /// before this returns, or later on the thread of that other element. So an error that follows from the notice, and is
    /// raised in `completion`, never overtakes it.
    public func tellOnce(_ notice: Notice, with tell: () -> Void, completion: @escaping @Sendable () -> Void = {}) {
        enum Part { case tell, wait, nothing }
        let part = state.withLock { state -> Part in
            if state.inProgress[notice]?.append(completion) != nil { return .wait }
            guard notice != .failedRequest(0), state.told.count < Self.limit else { return .tell }
            guard state.told.insert(notice).inserted else { return .nothing }
            state.inProgress[notice] = []
            return .tell
        }
        if part == .wait { return }
        if part == .tell { tell() }
        completion()
        guard part == .tell else { return }
        for completion in state.withLock({ $0.inProgress.removeValue(forKey: notice) }) ?? [] { completion() }
    }

    /// Whether the key may be asked for alone, after a request for it and others brought the others only. Once.
    public func mayAskAlone(_ keyID: KeyID) -> Bool {
        state.withLock { $0.askedAlone.count < Self.limit && $0.askedAlone.insert(keyID).inserted }
    }
}

/// A license service that a manifest names.
package struct LicensePlace: Hashable, Sendable {
    package var keySystem: KeySystem
    /// Absolute. Not trusted.
    package var url: String
    /// `KeyDemand.otherURLs`
    package var others: [String]
    /// What its keys are for; nil where that is not told.
    package var media: OutputPolicy.Media?

    package init(keySystem: KeySystem, url: String, others: [String] = [], media: OutputPolicy.Media? = nil) {
        self.keySystem = keySystem
        self.url = url
        self.others = others
        self.media = media
    }
}

extension KeySession {
    private static let usedLimit = 65_536

    /// The content uses these keys. Initialization data may name others.
    package func noteUse(of keyIDs: [KeyID]) {
        core.withLock { core in
            if core.used.count < Self.usedLimit { core.used.formUnion(keyIDs) }
        }
    }

    /// Whether the request that failed for this key was for others too that the content does not use, as far as is known: the
    /// refusal may be for those.
    package func failedWithUnused(_ keyID: KeyID) -> Bool {
        core.withLock { $0.state.failed(with: keyID).contains { [used = $0.used] in !used.contains($0) } }
    }

    /// Whether an answer had none of the keys of the request that failed for this one. An answer with others of them may have
    /// left this one out because it was one of several.
    package func failedWithoutAny(_ keyID: KeyID) -> Bool { core.withLock { $0.state.failedWithoutAny(keyID) } }

    /// Whether the key's license counts from a first play that is not written down.
    package func awaitsFirstPlay(_ keyID: KeyID?) -> Bool { core.withLock { !$0.state.playNotes(of: keyID).isEmpty } }

    /// The answering party gets these KIDs, the ones that have no key yet under the names that count now.
    func sayMissingKeyIDs(ofRequest id: UInt64) -> [KeyID] {
        core.withLock { core in
            let keyIDs = core.state.missing(in: id).compactMap(\.self)
            for keyID in keyIDs { core.state.note(id, says: keyID) }
            return keyIDs
        }
    }

    /// The answering party gets no KID of the request.
    func noteSaysNoKeyID(ofRequest id: UInt64) { core.withLock { $0.state.noteSaysNoKeyID(id) } }

    /// After a refusal, the keys of the request are not asked for one by one.
    func noteAloneIsNoUse(ofRequest id: UInt64) { core.withLock { $0.state.noteAloneIsNoUse(id) } }

    struct WeakPlayback {
        weak var playback: KeyPlayback?
    }

    /// The playback of the pipeline `pipeline`, any number that stands for it. All callers get the same one while one of them
    /// keeps it; after that a new one begins.
    public func playback(of pipeline: UInt) -> KeyPlayback {
        core.withLock { core in
            if let present = core.playbacks[pipeline]?.playback { return present }
            core.playbacks = core.playbacks.filter { $0.value.playback != nil }
            let new = KeyPlayback(startGeneration: core.state.generation)
            core.playbacks[pipeline] = WeakPlayback(playback: new)
            return new
        }
    }
}
