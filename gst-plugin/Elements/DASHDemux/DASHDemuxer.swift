// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import HTTP
import LicenseControl
import MediaFormats
import ProtectionModel

/// DASH with keys: a bin around GStreamer's own demuxer.
///
/// The whole manifest is read here, because the stock demuxer loses most of what it says of protection; keys are asked
/// for before the first segment comes. The segments of protected ISO media take a type of their own inside the stock
/// demuxer, so that its parser puts the decryptor of whole ISO media in front of qtdemux. WebM goes as always.
final class DASHDemuxer: AdaptiveBin, @unchecked Sendable {
    // SAFETY: `guardedPath` and `guardedFrame` are guarded by `monitor`.

    static let log = DebugCategory("latchkeydashdemux", "Latchkey's DASH demuxer")

    /// Where ISO media is decrypted.
    enum ISOPath: String { case box, sample }

    private var guardedPath = ISOPath.box
    /// The largest width and height that outputs allow; 0: no limit.
    private var guardedFrame: (UInt32, UInt32) = (0, 0)

    var isoPath: ISOPath {
        get { monitor.withLock { guardedPath } }
        set { monitor.withLock { guardedPath = newValue } }
    }

    override class var stock: (factory: String, older: String) { ("dashdemux2", "dashdemux") }

    var run: DASHRun? { currentRun as? DASHRun }

    override func makeRun(_ shared: SharedSession) throws(AdaptiveStartFailure) -> any AdaptiveRun {
        let run = DASHRun(shared: shared)
        let weak = WeakElement(reference)
        run.onFailure { failure in weak.withElement { ($0 as? DASHDemuxer)?.fail(failure) } }
        return run
    }

    override func handOn(_ manifest: [UInt8], from url: String) throws(PresentationFailure) -> [UInt8] {
        try run?.start(manifest, from: url)
        return manifest
    }

    override func requestHeadersDidCome(_ headers: [HTTPHeader]) { run?.origin.setHeaders(headers) }

    /// By the size: a limit of the bit rate would hold for the sound too.
    override func limitPictures(to pixels: Int?) {
        let frame = pixels.flatMap { run?.qualities.frameLimit(pixels: $0) } ?? (0, 0)
        let isNews = monitor.withLock {
            defer { guardedFrame = frame }
            return guardedFrame != frame
        }
        // What an application has set there stays as long as outputs limit nothing.
        guard isNews else { return }
        child?.pointer.setProperty("max-video-width", .uint(frame.0))
        child?.pointer.setProperty("max-video-height", .uint(frame.1))
    }

    // MARK: Inside

    override func elementDidAppear(_ element: ElementReference) {
        guard element.factoryName == "parsebin", let sink = element.pad("sink") else { return }
        let weak = WeakElement(reference)
        sink.probeEvents(.downstream) { event in
            guard let caps = event.caps, let renamed = ISODecryptor.plugged(caps),
                weak.map({ ($0 as? DASHDemuxer)?.decryptsBoxes }) == true
            else { return event }
            return Event(caps: renamed)
        }
    }

    private var decryptsBoxes: Bool { isoPath == .box && run?.mayBeProtected == true }

    override func handle(_ message: consuming Message) {
        guard message.kind == .error, let child, message.isFrom(child) else { return forward(message) }
        let (hasFailed, isStopping) = withGuarded { ($0.hasFailed, $0.isStopping) }
        if hasFailed { return }
        guard !isStopping, let failure = run?.takeFailure() else { return forward(message) }
        fail(failure)
    }
}
