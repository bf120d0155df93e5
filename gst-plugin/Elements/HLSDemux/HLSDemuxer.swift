// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection

/// HLS with keys: a bin around GStreamer's own demuxer.
///
/// The stock demuxer never sees a key. It gets rewritten playlists and, where they need it, init segments from a loopback
/// server, which also decrypts segments that are encrypted as a whole. Others it fetches from the origin as always, with
/// encrypted samples. The keys that the playlists name are asked for at once. What comes out passes a gate, so that media
/// that is decrypted already stops when the right to it ends.
final class HLSDemuxer: AdaptiveBin, @unchecked Sendable {
    // SAFETY: `settings` is guarded by `monitor`.

    static let log = DebugCategory("latchkeyhlsdemux", "Latchkey's HLS demuxer")

    var settings = HLSSettings()

    override class var stock: (factory: String, older: String) {
        ("hlsdemux2", "hlsdemux, which plays no protected media")
    }

    override class var manifestLimit: Int { 16 << 20 }

    var run: HLSRun? { currentRun as? HLSRun }

    override func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        let weak = WeakElement(reference)
        let run = HLSRun(shared: shared, settings: monitor.withLock { settings }, makeRelay: makeRelay)
        do throws(HTTPError) {
            try run.presentation.open { failure in weak.withElement { ($0 as? HLSDemuxer)?.fail(failure) } }
        } catch {
            throw .loopback(error)
        }
        run.presentation.beginWatch(look())
        return run
    }

    /// The stock demuxer gets the rewritten playlist, which leads to the loopback server, and names the presentation's
    /// own URL as the referrer of what it fetches.
    override func handOn(_ manifest: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] {
        guard let run else { return manifest }
        return try run.presentation.start(manifest, from: url)
    }

    /// The stock demuxer starts with the first variant, unless it was told a speed. Cookies that came with the manifest only
    /// it knows.
    override func willHandOn() {
        guard !manifest.setsCookies, child?.pointer.property("connection-bitrate") == .uint(0) else { return }
        run?.presentation.prepareFirstVariant()
    }

    override func requestHeadersDidCome(_ headers: [HTTPHeader]) { run?.presentation.origin.setHeaders(headers) }

    override func needs(_ keyIDs: [KeyID], of session: KeySession, at position: Double) -> Bool {
        guard let run else { return true }
        let uris = keyIDs.compactMap { session.keyURI(of: $0) }
        return uris.count < keyIDs.count || run.presentation.needs(uris, at: position)
    }

    override var hasDownloaded: Bool { run?.presentation.wasReached ?? false }

    override func outputDidAppear(_ pad: PadReference) {
        run?.presentation.outputDidAppear()
        super.outputDidAppear(pad)
    }

    override func limitPictures(to pixels: Int?) {
        let qualities = run?.presentation.qualities ?? []
        setAllowedBitRate(pixels.flatMap { qualities.bitRateLimit(pixels: $0) })
    }

    override var isWaitingForKey: Bool { run?.keys.isAwaited ?? false }

    override func willStop() { run?.presentation.end() }

    override var isAskedAgain: Bool { run?.presentation.isAskedAgain ?? false }

    // MARK: Inside

    override func elementDidAppear(_ element: ElementReference) {
        super.elementDidAppear(element)
        guard element.factoryName == "parsebin", let sink = element.pad("sink") else { return }
        // Segments with notes need the element that reads them, which takes caps of its own.
        let weak = WeakElement(reference)
        let start = ClearStart()
        sink.probeEvents(.downstream) { event in
            guard let caps = event.caps, let renamed = HLSCaps.renamed(caps),
                weak.map({ ($0 as? HLSDemuxer)?.run?.presentation.hasNotes }) == true
            else { return event }
            start.willHaveDecryptor()
            return Event(caps: renamed)
        }
        // The pad keeps the probe, and not the other way round.
        let pad = sink.pointer
        sink.probeBuffers { buffer in
            let passes = start.passes(buffer, to: PadReference(sharing: pad)) { decryptor in
                weak.withElement { ($0 as? HLSDemuxer)?.run?.presentation.fail(.noDecryptor(decryptor)) }
            }
            guard passes else { return nil }
            return buffer
        }
    }

    override func causeOfStop() -> PresentationFailure? {
        guard let run else { return nil }
        if !run.watch.hasOutput, let doubt = run.presentation.doubt { return doubt }
        return run.presentation.segments.failure("GStreamer's demuxer has stopped without an error.")
    }

    /// Workaround (GStreamer >=1.26 <1.28): the stock demuxer does not see the end of a live presentation. Its parsers get
    /// the end of the stream from here.
    override func liveDidEnd() {
        // The event waits for the buffer in front of it, and that one maybe for a key.
        let weak = WeakElement(reference)
        reference.callAsync { weak.withElement { ($0 as? HLSDemuxer)?.endParsers() } }
    }

    private func endParsers() {
        guard let watch = run?.watch else { return }
        for sink in watch.parsers where !sink.hasEnded {
            guard mayFail, run?.watch === watch, watch.isStillAtEnd else { return }
            sink.take(.endOfStream())
        }
    }

    override func originURL(_ url: String) -> String {
        run?.presentation.withOriginURLs(url, isForPeople: false) ?? url
    }

    /// Whether somebody behind this bin has refused what came out of it.
    private var isStoppedDownstream: Bool { withGuarded { $0.outputs.contains { $0.inner.lastFlow == .error } } }

    override func handle(_ message: consuming Message) {
        // What the stock demuxer got from the loopback server has the origin's URL for everybody else.
        if let presentation = run?.presentation {
            let isForPeople = message.kind != .element
            handleOwn(noted(message).mapTexts { presentation.withOriginURLs($0, isForPeople: isForPeople) })
        } else {
            handleOwn(message)
        }
    }

    private func handleOwn(_ message: consuming Message) {
        guard message.kind == .error, let child else { return super.handle(message) }
        guard message.isFrom(child) else {
            run?.presentation.errorDidAppearInside()
            return super.handle(message)
        }
        let run = self.run
        let (isStopping, hasOutputs, hasFailed) = withGuarded { ($0.isStopping, !$0.outputs.isEmpty, $0.hasFailed) }
        // What follows from a failure that was told is no news.
        if hasFailed || run?.presentation.hasFailed == true { return }
        guard let run, !isStopping else { return forward(message) }
        // Which of the two errors the stock demuxer posts depends on how the bytes come.
        let isNoMedia =
            message.isStreamError(GST_STREAM_ERROR_TYPE_NOT_FOUND)
            || (message.stoppedFlow == .error && !hasOutputs && !run.presentation.hasErrorInside)
        if let failure = run.presentation.takeFailure() {
            failure.post(on: reference)
        } else if isNoMedia, let doubt = run.presentation.doubt {
            doubt.post(on: reference)
        } else if message.stoppedFlow == .error, !isStoppedDownstream,
            let failure = run.presentation.segments.failure(message.errorDetails() ?? "")
        {
            failure.post(on: reference)
        } else if run.presentation.wasNeeded, !run.presentation.wasReached {
            postUnreached("playlists")
        } else {
            forward(message)
        }
    }
}
