// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// Smooth Streaming with keys: a bin around GStreamer's own demuxer.
///
/// The stock demuxer gets the manifest without its protection, which it hands on only now and then, and without text,
/// which it may fail on. It takes the fragments for clear; inside it they pass the decryptor of whole ISO media, which
/// makes them so.
final class SmoothDemuxer: AdaptiveBin, @unchecked Sendable {
    static let log = DebugCategory("latchkeymssdemux", "Latchkey's Smooth Streaming demuxer")

    override class var stock: (factory: String, older: String) { ("mssdemux2", "mssdemux") }

    var run: SmoothRun? { currentRun as? SmoothRun }

    override func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        let run = try SmoothRun(
            shared: shared, choice: KeyChoice(partialLicenses(shared), shared), makeSegments: makeSegmentServer,
            makePlainSegments: makePlainSegments)
        run.watch.begin(look: look())
        return run
    }

    override func handOn(_ bytes: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] {
        guard let run else { return bytes }
        run.watch.setManifests([manifest.source, url])
        let track = audioTrack
        noteFiles(of: bytes, from: url)
        try run.start(bytes, from: url, source: manifest.source)
        if let choice = run.choice, run.hasUntoldKeys {
            wait(atMost: KeyChoice.lookPatience) { await run.findKeys() }
            waitForAnswers(to: run.decidingKeyIDs, choice)
            tellLeftOut(run.leaveOut(), of: run.origin)
        }
        let result = run.handedOn(audioTrack: track)
        run.segments?.setHome(manifest.source)
        if let read = run.manifest {
            let tracks = read.streams.filter { $0.type == .audio }.map {
                AudioChoice.Track(name: $0.label ?? "audio", language: $0.language)
            }
            withGuarded { $0.audio.setTracks(tracks, withFirst: read.isLive ? nil : track) }
        }
        return result
    }

    /// By the bit rate, which the stock demuxer keeps below of each stream: nothing else limits it.
    override func limitPictures(to pixels: Int?) {
        let rate = pixels.flatMap { run?.manifest?.qualities.bitRateLimit(pixels: $0) }
        setAllowedBitRate(rate.map { $0 < .max ? $0 + 1 : $0 })
    }

    // MARK: Inside

    override func renamed(_ caps: Caps) -> Caps? {
        run?.encryption.flatMap { ISODecryptor.plugged(caps, defaults: $0) }
    }

    override func parserDidAppear(_ sink: PadReference) {
        super.parserDidAppear(sink)
        // A manifest may say nothing of encryption that is there. What decoders would get then is noise.
        guard run?.manifest?.isProtected == false else { return }
        let (weak, watch) = (WeakElement(reference), FragmentWatch())
        sink.lookAtBuffers { buffer in
            let next = watch.look(at: buffer)
            if next == .drop { weak.withElement { ($0 as? SmoothDemuxer)?.encryptedFragmentDidCome() } }
            return next
        }
    }

    private func encryptedFragmentDidCome() {
        if let run { fail(.encryptedFragments(of: run.url)) }
    }

    override func take(_ message: consuming Message) { handleOwn(withOriginURLs(message)) }

    private func handleOwn(_ message: consuming Message) {
        guard let child, message.isFrom(child) else { return forward(message) }
        guard message.kind == .error else { return forward(message) }
        let (hasFailed, isStopping) = withGuarded { ($0.hasFailed, $0.isStopping) }
        if hasFailed { return }
        guard !isStopping else { return forward(message) }
        if let failure = run?.segments?.takeFailure() {
            fail(failure)
        } else if !tellUnreached(message) {
            forward(message)
        }
    }
}

extension SmoothDemuxer {
    /// The factory. Ranked above the stock demuxer, which urisourcebin would take otherwise.
    static let factory = ElementDescription(
        factory: "latchkeymssdemux", longName: "Smooth Streaming demuxer with keys",
        classification: "Codec/Demuxer/Adaptive",
        summary: "Plays Smooth Streaming, also with encrypted fragments, which GStreamer's own demuxer takes for clear",
        author: "The Latchkey authors", rank: Rank(Rank.primary.value + 2),
        padTemplates: [
            .sink("application/vnd.ms-sstr+xml"), .sometimesSource("video_%02u", "ANY"),
            .sometimesSource("audio_%02u", "ANY"), .sometimesSource("subtitle_%02u", "ANY"),
        ],
        properties: [
            outageLimit, partialLicenses, sourceHeaderOrigins,
        ] + audioProperties + stockProperties,
        signals: [
            KeyResponse.signal { ($0 as? SmoothDemuxer)?.run?.session },
            SessionEvent.signal { ($0 as? SmoothDemuxer)?.run?.session },
        ],
        implementation: SmoothDemuxer.self)
}

/// Looks whether the first fragment of a stream is encrypted. Belongs to the thread that brings the stream.
final class FragmentWatch {
    /// A header that is longer is not waited for.
    private static let limit = 64 * 1024

    private var start: [UInt8] = []
    private var isEncrypted = false

    /// Lets nothing pass once the stream is known to be encrypted; has seen enough where it is known to be clear.
    func look(at buffer: borrowing Buffer) -> BufferLook {
        if isEncrypted { return .drop }
        _ = buffer.withBytes { start += $0.prefix(Self.limit - start.count) }
        let found = ISORecognition.isEncryptedFragment(start)
        if found == nil, start.count < Self.limit { return .more }
        start = []
        isEncrypted = found ?? false
        return isEncrypted ? .drop : .enough
    }
}
