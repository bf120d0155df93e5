// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// What a Smooth Streaming demuxer has from one start to the next stop. Thread-safe.
final class SmoothRun: AdaptiveRun {
    let session: KeySession
    let observation = SessionObservation()
    let origin: PresentationOrigin
    let printableLicenseURL: String?
    let watch = StillnessWatch()
    /// Nil: nothing is left out.
    let choice: KeyChoice?
    private let makePlainSegments: @Sendable (PresentationOrigin) -> SegmentServer?
    private let keys: ManifestKeys
    private let sleep: @Sendable (Duration) async throws -> Void
    private let state = Mutex(State())

    private struct State {
        var segments: SegmentServer?
        var manifest: SmoothManifest?
        var encryption: ISOEncryption?
        var url = ""
        /// What the choice is among, and the keys of each, as far as they are known.
        var choices: [SmoothManifest.Quality] = []
        var known: [SmoothManifest.Quality: Set<KeyID>] = [:]

        /// Of each stream, and of all sound, what is known of its qualities, where these have keys of their own.
        var alternatives: [[SmoothManifest.Quality: Set<KeyID>]] {
            Dictionary(grouping: choices, by: \.group).values.compactMap { own in
                let known = known.filter { own.contains($0.key) }
                let differ = known.count < own.count || Set(known.values).count > 1
                return differ ? known : nil
            }
        }
    }

    /// `choice` leaves out qualities whose keys may not be used; nil: none is. `makeSegments` gives what serves fragments to the
    /// stock demuxer; nil: it fetches them itself. `makePlainSegments` gives the same for protected media. `sleep` waits for a
    /// length of time, or throws when the task is cancelled.
    init(
        shared: SharedSession, choice: KeyChoice? = nil, transport: any HTTPTransport = CurlTransport.shared,
        makeSegments: (PresentationOrigin) throws(AdaptiveStartFailure) -> SegmentServer? = { _ in nil },
        makePlainSegments: @escaping @Sendable (PresentationOrigin) -> SegmentServer? = { _ in nil },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) throws(AdaptiveStartFailure) {
        session = shared.session
        self.choice = choice
        self.sleep = sleep
        self.makePlainSegments = makePlainSegments
        keys = ManifestKeys(session: shared.session, keySystem: shared.settings.keySystem)
        printableLicenseURL = shared.settings.licenseURL.map { HTTPRequest(url: $0).printableURL }
        origin = PresentationOrigin(transport: transport)
        let segments = try makeSegments(origin)
        state.withLock { $0.segments = segments }
    }

    var segments: SegmentServer? { state.withLock { $0.segments } }

    func didObserve() { if let id = observation.id { keys.setObserver(id) } }

    var manifest: SmoothManifest? { state.withLock { $0.manifest } }
    var url: String { state.withLock { $0.url } }

    /// How fragments are encrypted; nil for clear media.
    var encryption: ISOEncryption? { state.withLock { $0.encryption } }

    /// Reads the manifest that came from `url`, and starts the requests for its keys. `source` is the URL before redirects.
    func start(_ bytes: [UInt8], from url: String, source: String? = nil) throws(PresentationFailure) {
        origin.setHome(url, source: source)
        let manifest: SmoothManifest
        do throws(FormatError) {
            manifest = try SmoothManifest(bytes)
            try check(manifest)
        } catch {
            throw .manifest(error, at: url)
        }
        if manifest.lacksKeyIDs { throw .noKeyIDs(in: url) }
        let (encryption, keyIDs) = (manifest.encryption, manifest.keyIDs)
        // With one key for all, there is no choice by keys.
        let hasOwnKeys = choice != nil && (keyIDs.count > 1 || manifest.namesKeysInFragments)
        let choices = hasOwnKeys ? manifest.choices(from: url) : []
        state.withLock {
            $0.manifest = manifest
            $0.encryption = encryption
            $0.url = url
            $0.choices = choices
        }
        if manifest.isLive {
            watch.setOpenEnded()
            watch.expectStart(of: url)
        }
        if manifest.isProtected {
            keys.noteChecksums(in: manifest.keyGroups { $0.first { $0 == .playReady } })
            keys.demand(
                manifest.keyGroups(choose: keys.choose), origin: "smooth-streaming", mediaURL: url,
                cookies: origin.cookies)
        }
    }

    /// Whether only fragments tell which keys the qualities need.
    var hasUntoldKeys: Bool { state.withLock { !$0.choices.isEmpty } }

    /// How much of a fragment is looked at, in bytes. Its `moof` box is smaller.
    private static let startSize: UInt64 = 32 << 10

    /// Looks for the keys of the qualities in their first fragments, and starts the requests for them.
    func findKeys() async {
        let (choices, usual, url) = state.withLock { ($0.choices, $0.encryption?.keyID, $0.url) }
        let known = await KeyChoice.looks(at: choices, sleep: sleep) { [origin] quality in
            let range = HLSByteRange(offset: 0, length: Self.startSize)
            // What a server says names no files.
            guard URIReference(quality.fragmentURL).isHTTP || origin.isLocal,
                let answer = try? await origin.response(.initSegment, quality.fragmentURL, range: range),
                answer.status == 200 || answer.status == 206
            else { return nil as Set<KeyID>? }
            return ISORecognition.keyIDs(ofFragment: answer.body, else: usual)
        }
        guard !Task.isCancelled else { return }
        state.withLock { $0.known = known }
        keys.demand(choices.flatMap { known[$0] ?? [] }, mediaURL: url, cookies: origin.cookies)
    }

    /// The keys that the choice among qualities depends on.
    var decidingKeyIDs: Set<KeyID> {
        state.withLock {
            $0.alternatives.reduce(into: []) { all, known in for one in known.values { all.formUnion(one) } }
        }
    }

    /// Leaves out the qualities whose keys may not be used, where others may stand in for them. Returns these keys.
    func leaveOut() -> [KeyID: KeyError] {
        guard let choice else { return [:] }
        let (choices, alternatives) = state.withLock { ($0.choices, $0.alternatives) }
        var (leftOut, all): ([SmoothManifest.Quality], [KeyID: KeyError]) = ([], [:])
        for known in alternatives {
            var (own, refusals): ([SmoothManifest.Quality], [KeyID: KeyError]) = ([], [:])
            for (quality, keyIDs) in known {
                let refused = choice.refusals(of: keyIDs, for: quality.media)
                guard !refused.isEmpty else { continue }
                own.append(quality)
                refusals.merge(refused) { first, _ in first }
            }
            guard let group = own.first?.group, own.count < choices.count(where: { $0.group == group }) else {
                continue
            }
            leftOut += own
            all.merge(refusals) { first, _ in first }
        }
        state.withLock { $0.manifest?.leaveOut(leftOut) }
        return all
    }

    /// What the stock demuxer is to read of the manifest that `start` has read. `track` names the audio that is to play first.
    func handedOn(audioTrack track: String?) -> [UInt8] {
        // Nothing else may hold its document, which would be copied when it is changed.
        let taken = state.withLock { state in
            defer { state.manifest = nil }
            return state.manifest
        }
        guard var manifest = taken else { return [] }
        // The stock demuxer would keep cookies of its own: before GStreamer 1.28 none of those that fragments set, and the
        // manifest's for every host. Before 1.26, it fetches no files either.
        let segments = segments ?? (manifest.isProtected ? makePlainSegments(origin) : nil)
        state.withLock { $0.segments = segments }
        // Later versions of a live manifest bring times alone.
        if let segments {
            if manifest.route(from: url, { segments.route($0) }) {
                segments.didHandOut()
            } else {
                SmoothDemuxer.log.log(.info, nil, "The fragments are where GStreamer's demuxer has to fetch them.")
            }
        }
        let result = manifest.serialized(audioFirst: track.flatMap { manifest.audio(labelled: $0) })
        // The stock demuxer is about to make a document of its own.
        manifest.dropDocument()
        state.withLock { [manifest] in $0.manifest = manifest }
        return result
    }

    func end() {
        segments?.close()
        observation.end()
    }

    private func check(_ manifest: SmoothManifest) throws(FormatError) {
        do throws(FormatError) {
            _ = try manifest.playReadyHeader()
        } catch {
            // Another header may do.
            if manifest.keyIDs.isEmpty { throw error.within("Protection") }
        }
    }
}

extension SmoothManifest {
    /// What to ask for early.
    package func keyGroups(choose: ([ProtectionSystem]) -> ProtectionSystem?) -> [ManifestKeyGroup] {
        let usable = headersBySystem.filter { $0.data != nil }
        guard let system = choose(usable.map(\.system)) else { return [] }
        let own = usable.filter { $0.system == system }
        let boxes = own.flatMap { header -> [PSSHBox] in
            let data = header.data ?? []
            let boxes = PSSHBox.readableBoxes(in: data)
            return boxes.isEmpty ? [PSSHBox(system: system, data: data)] : boxes
        }
        return [ManifestKeyGroup(system: system, keyIDs: keyIDs, boxes: boxes, licenseURL: nil)]
    }
}

extension PresentationFailure {
    static func noKeyIDs(in url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .key,
            text: "The manifest \(HTTPRequest(url: url).printableURL) is protected, but none of its "
                + "ProtectionHeaders names a key.",
            advice: "Ask who makes the presentation for a manifest with a PlayReady header that has a KID.")
    }

    static func encryptedFragments(of url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "The fragments are encrypted, but the manifest \(HTTPRequest(url: url).printableURL) has no "
                + "Protection and so names no key.",
            advice: "Ask who makes the presentation for a manifest with a Protection element.")
    }
}
