// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import HTTP
import LicenseControl
import MediaFormats
import ProtectionModel

/// HLS with keys: a bin around GStreamer's own demuxer.
///
/// The stock demuxer never sees a key that it would mistake. It gets rewritten playlists and, where they need it, init
/// segments from a loopback server; media segments it fetches from the origin as always, still encrypted. The keys that
/// the playlists name are asked for at once. What comes out passes a gate, so that media that is decrypted already stops
/// when the right to it ends.
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
            try run.presentation.open { failure in weak.withElement { failure.post(on: $0.reference) } }
        } catch {
            throw .loopback(error)
        }
        run.presentation.beginWatch { weak.withElement { ($0 as? HLSDemuxer)?.lookForStillness() } }
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
        guard let presentation = run?.presentation else { return }
        presentation.outputDidAppear()
        presentation.output.add(pad)
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
        let watch = run?.presentation.watch
        if Element.implementation(of: element.pointer) is Decryptor { watch?.didAdd(decryptor: element) }
        guard element.factoryName == "parsebin", let sink = element.pad("sink") else { return }
        watch?.didAdd(parser: sink)
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

    /// The run, unless it is stopping or has failed.
    private var lastingRun: HLSRun? {
        let isOver = withGuarded { $0.isStopping || $0.hasFailed || $0.closedBecause != nil }
        guard !isOver, let run, !run.presentation.hasFailed else { return nil }
        return run
    }

    /// Goes on if the stock demuxer does nothing any more. GStreamer 1.26 does not see the end of a live presentation:
    /// its parsers get the end of the stream from here. Each version stops without an error at some of what is no media.
    private func lookForStillness() {
        guard let run = lastingRun else { return }
        let outputs = withGuarded { $0.outputs }
        let watch = run.presentation.watch
        // Streams that have ended, or that are not selected, have no more output.
        let isDone = outputs.isEmpty ? watch.hasOutput : outputs.allSatisfy { $0.inner.hasEnded }
        // What is played later waits for the elements behind this bin.
        let isHeldUp = outputs.contains { $0.outer.entrance?.waitUntilIdle(milliseconds: 0) == false }
        switch watch.verdict(isBusy: isDone || isHeldUp || isWaitingForKey) {
        case .none: break
        case .isAtEnd:
            // The event waits for the buffer in front of it, and that one maybe for a key.
            let weak = WeakElement(reference)
            reference.callAsync { weak.withElement { ($0 as? HLSDemuxer)?.endParsers(watch) } }
        case .hasStopped:
            if !watch.hasOutput, let key = run.presentation.keyGivenAway {
                run.presentation.fail(.wrongKey(key))
            } else {
                let failure = run.presentation.segments.failure("GStreamer's demuxer has stopped without an error.")
                run.presentation.fail(failure ?? .stopped(at: originURL(watch.lastURL ?? manifest.source)))
            }
        }
    }

    private func endParsers(_ watch: StillnessWatch) {
        for sink in watch.parsers where !sink.hasEnded {
            guard let run = lastingRun, run.presentation.watch === watch, watch.isStillAtEnd else { return }
            sink.take(.endOfStream())
        }
    }

    private func originURL(_ url: String) -> String {
        run?.presentation.withOriginURLs(url, isForPeople: false) ?? url
    }

    /// Whether somebody behind this bin has refused what came out of it.
    private var isStoppedDownstream: Bool { withGuarded { $0.outputs.contains { $0.inner.lastFlow == .error } } }

    override func handle(_ message: consuming Message) {
        // What the stock demuxer got from the loopback server has the origin's URL for everybody else.
        if let presentation = run?.presentation {
            // The application has the reason of the end.
            if message.kind == .error { presentation.watch.endLooks() }
            let isForPeople = message.kind != .element
            handleOwn(message.mapTexts { presentation.withOriginURLs($0, isForPeople: isForPeople) })
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
        let (isStopping, hasOutputs) = withGuarded { ($0.isStopping, !$0.outputs.isEmpty) }
        guard let run, !isStopping else { return forward(message) }
        // Which of the two errors the stock demuxer posts depends on how the bytes come.
        let isNoMedia =
            message.isStreamError(GST_STREAM_ERROR_TYPE_NOT_FOUND)
            || (message.stoppedFlow == .error && !hasOutputs && !run.presentation.hasErrorInside)
        // What follows from a failure that was told is no news.
        if run.presentation.hasFailed { return }
        if let failure = run.presentation.takeFailure() {
            failure.post(on: reference)
        } else if isNoMedia, let key = run.presentation.keyGivenAway {
            HLSFailure.wrongKey(key).post(on: reference)
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
