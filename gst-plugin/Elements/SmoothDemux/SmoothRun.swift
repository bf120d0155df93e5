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
    private let makePlainSegments: @Sendable (PresentationOrigin) -> SegmentServer?
    private let keys: ManifestKeys
    private let state = Mutex(State())

    private struct State {
        var segments: SegmentServer?
        var manifest: SmoothManifest?
        var encryption: ISOEncryption?
        var url = ""
    }

    /// `makeSegments` gives what serves fragments to the stock demuxer; nil: it fetches them itself. `makePlainSegments` gives
    /// the same for protected media.
    init(
        shared: SharedSession, transport: any HTTPTransport = CurlTransport.shared,
        makeSegments: (PresentationOrigin) throws(AdaptiveStartFailure) -> SegmentServer? = { _ in nil },
        makePlainSegments: @escaping @Sendable (PresentationOrigin) -> SegmentServer? = { _ in nil }
    ) throws(AdaptiveStartFailure) {
        session = shared.session
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

    /// Reads the manifest that came from `url`, starts the requests for its keys, and gives what the stock demuxer is to
    /// read. `track` names the audio that is to play first.
    func start(
        _ bytes: [UInt8], from url: String, audioTrack track: String?
    ) throws(PresentationFailure) -> [UInt8] {
        origin.setHome(url)
        var manifest: SmoothManifest
        do throws(FormatError) {
            manifest = try SmoothManifest(bytes)
            try check(manifest)
        } catch {
            throw .manifest(error, at: url)
        }
        if manifest.lacksKeyIDs { throw .noKeyIDs(in: url) }
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
        let encryption = manifest.encryption
        state.withLock { [manifest] in
            $0.manifest = manifest
            $0.encryption = encryption
            $0.url = url
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
        let usable = protectionHeaders.filter { $0.data != nil }
        guard let system = choose(usable.map { $0.system ?? .playReady }) else { return [] }
        let own = usable.filter { ($0.system ?? .playReady) == system }
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
