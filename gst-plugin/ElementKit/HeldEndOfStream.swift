// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

extension Pad {
    /// Keeps the newer adaptive demuxer around the element from ending a stream that waits inside. Call it on the
    /// upstream thread while that delivers the end of the stream, and `HeldEnd.deliver` when the end has passed this
    /// pad, a source pad. Nil where that is not possible.
    ///
    /// adaptivedemux2 takes the elements inside for synchronous: it sends the end through them and then, on the same
    /// thread, once more to the places where it takes the stream over (`gst_adaptive_demux2_stream_push_event`). What
    /// comes there later is lost. So the second one is dropped there, and the first one ends the stream. Where no such
    /// place is linked yet, as behind a parser that has seen no sample, that goes for each place that waits for a link.
    public func holdAdaptiveDemuxersOwnEnd() -> HeldEnd? {
        guard let element = gst_pad_get_parent_element(pointer) else { return nil }
        defer { gst_object_unref(element) }
        guard let demuxer = ek_adaptive_demuxer_around(element) else { return nil }
        defer { gst_object_unref(UnsafeMutableRawPointer(demuxer)) }
        let places = Self.placesOfEnd(behind: pointer, in: demuxer)
        if !places.linked.isEmpty { return HeldEnd(places.linked, until: nil) }
        // Places of other streams are among these: the probes go before the demuxer's thread does anything else.
        guard !places.unlinked.isEmpty, let context = g_main_context_get_thread_default() else { return nil }
        return HeldEnd(places.unlinked, until: context)
    }

    /// The sink pads on children of the demuxer that wait for a link, and those to which the source pad leads.
    ///
    /// In this order: the thread that plays may link a place between the two looks, when the key has come. The other way round,
    /// that one would be in neither. `between` is for tests.
    static func placesOfEnd(
        behind source: UnsafeMutablePointer<GstPad>, in demuxer: UnsafeMutablePointer<GstElement>,
        between: () -> Void = {}
    ) -> (unlinked: [PadReference], linked: [PadReference]) {
        let unlinked = pads(in: ek_unlinked_sinks_in_bin(demuxer))
        between()
        return (unlinked, pads(in: ek_pads_in_bin_behind(source, demuxer)))
    }

    // SAFETY: the array holds pads, with references of its own.
    private static func pads(in list: UnsafeMutablePointer<GPtrArray>?) -> [PadReference] {
        guard let list else { return [] }
        defer { g_ptr_array_unref(list) }
        return (0..<Int(list.pointee.len)).compactMap { list.pointee.pdata[$0] }
            .map { PadReference(sharing: $0.assumingMemoryBound(to: GstPad.self)) }
    }
}

/// The end that an adaptive demuxer sent too early. Thread-safe.
public final class HeldEnd: @unchecked Sendable {
    // SAFETY: what changes is guarded by `monitor`; `thread` is only compared, never used: it may be gone by then.
    private let monitor = Monitor()
    private let thread = g_thread_self()
    private var dropped: [PadReference] = []
    private var isDelivered = false
    /// Pads whose probe has removed itself, or is about to.
    private var ended: [PadReference] = []

    /// Drops the next end that this thread sends to each of the pads; with a context, only until the thread is back in
    /// its loop.
    init(_ pads: [PadReference], until context: OpaquePointer?) {
        let probes = pads.map { pad in
            // SAFETY: the probe owns its reference to this object and gives it up when it ends.
            gst_pad_add_probe(
                pad.pointer,
                GstPadProbeType(GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue | GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue),
                dropEnd, Unmanaged.passRetained(self).toOpaque(),
                { if let data = $0 { Unmanaged<HeldEnd>.fromOpaque(data).release() } })
        }
        guard let context else { return }
        let source = g_idle_source_new()
        g_source_set_priority(source, G_PRIORITY_HIGH)
        let cleanup = Unmanaged.passRetained(ProbeCleanup(self, pads, probes)).toOpaque()
        // SAFETY: the source owns the box and gives it up when it ends.
        g_source_set_callback(
            source,
            { data in
                if let data { Unmanaged<ProbeCleanup>.fromOpaque(data).takeUnretainedValue().run() }
                return 0
            }, cleanup, { if let data = $0 { Unmanaged<ProbeCleanup>.fromOpaque(data).release() } })
        g_source_attach(source, context)
        g_source_unref(source)
    }

    /// Sends the end to the places that it was kept from and to which nothing has led since.
    public func deliver() {
        let pads = monitor.withLock { () -> [PadReference] in
            defer { dropped = [] }
            isDelivered = true
            return dropped
        }
        for pad in pads where gst_pad_is_linked(pad.pointer) == 0 {
            gst_pad_send_event(pad.pointer, gst_event_new_eos())
        }
    }

    fileprivate func probed(_ pad: PadReference, _ type: GstEventType) -> Verdict {
        let verdict = verdict(pad, type)
        if verdict != .wait { monitor.withLock { ended.append(pad) } }
        return verdict
    }

    fileprivate func isProbed(_ pad: PadReference) -> Bool {
        monitor.withLock { !ended.contains { $0.isSame(as: pad) } }
    }

    private func verdict(_ pad: PadReference, _ type: GstEventType) -> Verdict {
        switch type {
        case GST_EVENT_FLUSH_START, GST_EVENT_FLUSH_STOP:
            return .ignore
        case GST_EVENT_EOS:
            guard g_thread_self() == thread else { return .ignore }
            return monitor.withLock {
                // The stream inside has ended before the demuxer says so.
                if isDelivered, gst_pad_is_linked(pad.pointer) == 0 { return .ignore }
                dropped.append(pad)
                return .drop
            }
        default:
            return .wait
        }
    }

    fileprivate enum Verdict { case wait, drop, ignore }
}

/// Probes to remove, but for those that have ended by themselves.
private final class ProbeCleanup {
    private let held: HeldEnd
    private let pads: [PadReference]
    private let probes: [gulong]

    init(_ held: HeldEnd, _ pads: [PadReference], _ probes: [gulong]) {
        self.held = held
        self.pads = pads
        self.probes = probes
    }

    func run() {
        for (pad, probe) in zip(pads, probes) where probe != 0 && held.isProbed(pad) {
            gst_pad_remove_probe(pad.pointer, probe)
        }
    }
}

private func dropEnd(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ data: gpointer?
) -> GstPadProbeReturn {
    guard let pad, let info, let data else { return GST_PAD_PROBE_OK }
    let held = Unmanaged<HeldEnd>.fromOpaque(data).takeUnretainedValue()
    switch held.probed(PadReference(sharing: pad), ek_probed_event_type(info)) {
    case .wait:
        return GST_PAD_PROBE_OK
    case .ignore:
        return GST_PAD_PROBE_REMOVE
    case .drop:
        gst_pad_remove_probe(pad, info.pointee.id)
        return GST_PAD_PROBE_DROP
    }
}
