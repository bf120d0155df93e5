// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// DASH with keys: a bin around GStreamer's own demuxer.
///
/// The whole manifest is read here, because the stock demuxer loses most of what it says of protection; keys are asked
/// for before the first segment comes. The segments of protected ISO media take a type of their own inside the stock
/// demuxer, so that its parser puts the decryptor of whole ISO media in front of qtdemux. WebM goes as always.
final class DASHDemuxer: AdaptiveBin, @unchecked Sendable {
    // SAFETY: `guardedPath`, `frames`, `appliedFrames` and `frameLimiting` are guarded by `monitor`.

    static let log = DebugCategory("latchkeydashdemux", "Latchkey's DASH demuxer")

    private var guardedPath = ISOPath.box
    private var frames = FrameLimits()
    /// What the stock demuxer has of them.
    private var appliedFrames = FrameLimits.Size()
    private var frameLimiting = SerialWork()

    private var isoPath: ISOPath {
        get { monitor.withLock { guardedPath } }
        set { monitor.withLock { guardedPath = newValue } }
    }

    override class var stock: (factory: String, older: String) { ("dashdemux2", "dashdemux") }

    var run: DASHRun? { currentRun as? DASHRun }

    override func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        let run = try DASHRun(
            shared: shared, choice: KeyChoice(partialLicenses(shared), shared),
            playback: shared.playback(around: reference), makeSegments: makeSegmentServer,
            makePlainSegments: makePlainSegments)
        let weak = WeakElement(reference)
        run.onLeftOut { [origin = run.origin] refusals in
            weak.withElement { ($0 as? DASHDemuxer)?.tellLeftOut(refusals, of: origin) }
        }
        run.onFailure { failure in weak.withElement { ($0 as? DASHDemuxer)?.fail(failure) } }
        run.watch.begin(look: look())
        return run
    }

    override func handOn(_ bytes: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] {
        guard let run else { return bytes }
        noteFiles(of: bytes, from: url)
        try run.start(bytes, from: url, source: manifest.source)
        if let choice = run.choice {
            if run.hasUntoldKeys { wait(atMost: KeyChoice.lookPatience) { await run.findKeys(bytes, from: url) } }
            waitForAnswers(to: run.decidingKeyIDs, choice)
        }
        let track = audioTrack
        let handedOn = run.handedOn(bytes, from: url, source: manifest.source, audioTrack: track)
        let tracks = run.audioTracks.map { AudioChoice.Track(name: $0.name, language: $0.language) }
        withGuarded { $0.audio.setTracks(tracks, withFirst: handedOn.isOrdered ? track : nil) }
        if let laterURL = handedOn.laterURL { manifest.laterURL = laterURL }
        run.watch.setManifests([manifest.source, url, handedOn.laterURL])
        return handedOn.bytes
    }

    /// By the size: a limit of the bit rate would hold for the sound too.
    override func limitPictures(to pixels: Int?) {
        setAllowedFrame(pixels.flatMap { run?.qualities.frameLimit(pixels: $0) })
    }

    /// In pixels; what the user set holds too. Nil: no limit.
    func setAllowedFrame(_ frame: (width: UInt32, height: UInt32)?) {
        changeFrames { $0.allowed = .init(width: frame?.width ?? 0, height: frame?.height ?? 0) }
    }

    private func changeFrames(_ change: (inout FrameLimits) -> Void) {
        let isMine = monitor.withLock {
            change(&frames)
            return frameLimiting.begin()
        }
        guard isMine else { return }
        repeat {
            let (before, after) = monitor.withLock {
                defer { appliedFrames = frames.effective }
                return (appliedFrames, frames.effective)
            }
            guard before != after else { continue }
            child?.pointer.setProperty("max-video-width", .uint(after.width))
            child?.pointer.setProperty("max-video-height", .uint(after.height))
        } while !monitor.withLock { frameLimiting.finish() }
    }

    /// Those of the stock demuxer that outputs may lower. They keep what the user has set.
    private static let frameProperties = [
        frame("max-video-width", "Largest width of pictures; 0: no limit", { $0.width }, { $0.width = $1 }),
        frame("max-video-height", "Largest height of pictures; 0: no limit", { $0.height }, { $0.height = $1 }),
    ]

    private static func frame(
        _ name: String, _ blurb: String, _ get: @escaping @Sendable (FrameLimits.Size) -> UInt32,
        _ set: @escaping @Sendable (inout FrameLimits.Size, UInt32) -> Void
    ) -> Property {
        Property(
            name, nick: name, blurb: blurb, kind: .uint(default: 0, range: 0...UInt32.max), mutability: .playing,
            get: { element in
                (element as? DASHDemuxer).map { bin in .uint(get(bin.monitor.withLock { bin.frames.wanted })) } ?? .none
            },
            set: { element, value in
                if case .uint(let number) = value {
                    (element as? DASHDemuxer)?.changeFrames { set(&$0.wanted, number) }
                }
            })
    }

    // MARK: Inside

    override func renamed(_ caps: Caps) -> Caps? {
        guard isoPath == .box, run?.mayBeProtected == true else { return nil }
        return ISODecryptor.plugged(caps)
    }

    /// The manifest that was read last may say nothing of encryption that is there.
    override var encryptedInitSegments: EncryptedInitSegments { isoPath == .box ? .decryptedInFront : .leftToParser }

    override func encryptionDidAppear() { run?.encryptionDidAppear() }

    override func take(_ message: consuming Message) { handleOwn(withOriginURLs(message)) }

    private func handleOwn(_ message: consuming Message) {
        guard message.kind == .error, let child, message.isFrom(child) else { return forward(message) }
        let (hasFailed, isStopping) = withGuarded { ($0.hasFailed, $0.isStopping) }
        if hasFailed { return }
        guard !isStopping else { return forward(message) }
        if let failure = run?.takeFailure() {
            fail(failure)
        } else if !tellUnreached(message) {
            forward(message)
        }
    }
}

extension DASHDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeydashdemux", longName: "DASH demuxer with keys", classification: "Codec/Demuxer/Adaptive",
        summary:
            "Plays DASH, also with keys that change, and with encryption that GStreamer's own demuxers do not know",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/dash+xml"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            Property(
                "iso-path", nick: "ISO path",
                blurb: "Where encrypted ISO media is decrypted: “box”, in front of GStreamer's demuxer, or “sample”, "
                    + "behind it; set it before the demuxer starts",
                kind: .string(default: ISOPath.box.rawValue),
                get: { .string(($0 as? DASHDemuxer)?.isoPath.rawValue) },
                set: { element, value in
                    guard case .string(let text?) = value, let path = ISOPath(rawValue: text) else { return }
                    (element as? DASHDemuxer)?.isoPath = path
                }),
            outageLimit, partialLicenses, sourceHeaderOrigins,
        ] + audioProperties + stockProperties + frameProperties,
        signals: [
            KeyResponse.signal { ($0 as? DASHDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? DASHDemuxer)?.run?.session },
        ],
        implementation: DASHDemuxer.self)

    /// GStreamer's own finder takes some manifests that come over HTTP for plain XML.
    static let manifestType = TypeFinder(
        name: "latchkey-dash", rank: Rank(Rank.primary.value + 10), extensions: ["mpd"], caps: "application/dash+xml"
    ) { source in
        // What is there of the file: a server's first bytes, or all of a short manifest.
        source.start(DASHManifest.recognitionSize).map { DASHManifest.isManifest(start: $0) } ?? false
    }
}
