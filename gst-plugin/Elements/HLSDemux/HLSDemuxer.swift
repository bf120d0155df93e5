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
final class HLSDemuxer: Bin, @unchecked Sendable {
    // SAFETY: `guarded` is guarded by `monitor`; `manifest` belongs to the upstream thread.

    static let log = DebugCategory("latchkeyhlsdemux", "Latchkey's HLS demuxer")
    static let stockFactory = "hlsdemux2"

    let monitor = Monitor()
    private var guarded = Guarded()
    let child: ElementReference?
    /// What arrived of the first playlist.
    var manifest = ManifestInput()

    /// What several threads use. Guarded by `monitor`.
    struct Guarded {
        var settings = HLSSettings()
        var run: HLSRun?
        /// The demuxer is on its way down: what the stock one complains about then is of no interest.
        var isStopping = false
        var outputs: [Output] = []
        /// Why nothing may pass; nil: the gate is open.
        var closedBecause: KeyError?
    }

    /// A pad of the stock demuxer and ours in front of it.
    struct Output {
        let inner: PadReference
        let outer: PadReference
        /// There while the gate is closed.
        var barrier: PadProbe?
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        child = ElementReference.make(Self.stockFactory)
        super.init(reference, description)
        declareStreamsAware()
        guard let child, add(child), let sink = child.pad("sink") else {
            expose(nil, as: "sink", template: "sink")
            return
        }
        watchInput(sink)
        // Messages that nobody read yet keep the child when this bin is gone.
        let weak = WeakElement(reference)
        child.onPadAdded { pad in weak.withElement { ($0 as? HLSDemuxer)?.addOutput(pad) } }
        child.onPadRemoved { pad in weak.withElement { ($0 as? HLSDemuxer)?.removeOutput(pad) } }
        expose(sink, as: "sink", template: "sink")
    }

    func withGuarded<Result>(_ body: (inout Guarded) -> Result) -> Result { monitor.withLock { body(&guarded) } }

    var run: HLSRun? { withGuarded { $0.run } }

    // MARK: State

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        switch change {
        case .nullToReady:
            guard child != nil else {
                postMissingDemuxer()
                return .failure
            }
            // decodebin falls through to the older demuxer then.
            guard isParentStreamsAware else {
                reference.postCoreError(
                    GST_CORE_ERROR_STATE_CHANGE, "latchkeyhlsdemux needs a player that handles streams.",
                    debug: "Use playbin3, uridecodebin3 or urisourcebin. The older decodebin and playbin take "
                        + "GStreamer's own hlsdemux in its place, which plays no protected media.")
                return .failure
            }
        case .readyToPaused:
            do {
                try start()
            } catch {
                error.post(on: reference)
                return .failure
            }
        case .pausedToReady:
            // First: the stock demuxer may wait for an answer on the thread that it stops next.
            withGuarded { $0.isStopping = true }
            run?.presentation.end()
        default: break
        }
        let result = perform()
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) { stop() }
        return result
    }

    private func start() throws(HLSStartFailure) {
        let settings = withGuarded { $0.settings }
        let run: HLSRun
        do throws(KeyError) {
            let shared = try SharedSession.obtain(for: reference)
            run = try HLSRun(shared: shared, settings: settings)
        } catch {
            throw .configuration(error)
        }
        let weak = WeakElement(reference)
        do throws(HTTPError) {
            try run.presentation.open { failure in weak.withElement { failure.post(on: $0.reference) } }
        } catch {
            throw .loopback(error)
        }
        run.observe { event in weak.withElement { ($0 as? HLSDemuxer)?.keyEvent(event) } }
        manifest = ManifestInput()
        withGuarded {
            $0.run = run
            $0.isStopping = false
            $0.closedBecause = nil
        }
    }

    private func stop() {
        let run = withGuarded { guarded -> HLSRun? in
            defer { guarded.run = nil }
            return guarded.run
        }
        run?.end()
    }

    private func postMissingDemuxer() {
        reference.post(
            "missing-plugin",
            [
                ("type", .string("element")), ("detail", .string(Self.stockFactory)),
                ("name", .string("GStreamer element \(Self.stockFactory)")),
            ])
        reference.postCoreError(
            GST_CORE_ERROR_MISSING_PLUGIN, "GStreamer's element \(Self.stockFactory) is missing.",
            debug: "Install GStreamer's good plug-ins: gstreamer1.0-plugins-good (1.22 or later).")
    }

    // MARK: Inside

    override func elementDidAppear(_ element: ElementReference) {
        guard element.factoryName == "parsebin", let sink = element.pad("sink") else { return }
        // Segments with notes need the element that reads them, which takes caps of its own.
        let weak = WeakElement(reference)
        sink.probeEvents(.downstream) { event in
            guard let caps = event.caps, let renamed = HLSCaps.renamed(caps),
                weak.map({ ($0 as? HLSDemuxer)?.run?.presentation.hasNotes }) == true
            else { return event }
            return Event(caps: renamed)
        }
    }

    override func send(_ event: consuming Event) -> Bool { child?.send(event) ?? false }

    override func handle(_ message: consuming Message) {
        guard message.kind == .error, let child, message.isFrom(child) else { return forward(message) }
        let (run, isStopping) = withGuarded { ($0.run, $0.isStopping) }
        guard let run, !isStopping else { return forward(message) }
        // What follows from a failure that was told is no news.
        if run.presentation.hasFailed { return }
        if let failure = run.presentation.takeFailure() {
            failure.post(on: reference)
        } else if run.presentation.wasNeeded, !run.presentation.wasReached {
            // Nobody but a proxy stands between the stock demuxer and this process.
            reference.postResourceError(
                GST_RESOURCE_ERROR_OPEN_READ,
                "GStreamer's HLS demuxer does not reach the playlists that it is given on 127.0.0.1.",
                debug: "Its HTTP library sends even local requests to the HTTP proxy that is configured. Set the "
                    + "environment variable no_proxy=127.0.0.1,localhost (or that exception in the desktop's proxy "
                    + "settings).")
        } else {
            forward(message)
        }
    }
}

/// Why the demuxer cannot start.
enum HLSStartFailure: Error {
    case configuration(KeyError)
    case loopback(HTTPError)

    func post(on element: ElementReference) {
        switch self {
        case .configuration(let error): element.postResourceError(GST_RESOURCE_ERROR_SETTINGS, "\(error).", debug: "")
        case .loopback(let error): element.postResourceError(GST_RESOURCE_ERROR_OPEN_READ, "\(error).", debug: "")
        }
    }
}
