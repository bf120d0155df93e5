// SPDX-License-Identifier: MPL-2.0

import CGStreamer

extension Pad {
    /// Keeps the newer adaptive demuxer around the element from ending a stream that waits inside. Call it on the
    /// upstream thread while that delivers the end of the stream. False where that is not possible.
    ///
    /// adaptivedemux2 takes the elements inside for synchronous: it sends the end through them and then, on the same
    /// thread, once more to the place where it takes the stream over (`gst_adaptive_demux2_stream_push_event`). What
    /// comes there later is lost. So the second one is dropped there, and the first one ends the stream.
    public func skipAdaptiveDemuxersOwnEnd() -> Bool {
        guard let element = gst_pad_get_parent_element(pointer) else { return false }
        defer { gst_object_unref(element) }
        guard let demuxer = ek_adaptive_demuxer_around(element) else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(demuxer)) }
        guard let place = ek_pad_in_bin_behind(pointer, demuxer) else { return false }
        defer { gst_object_unref(UnsafeMutableRawPointer(place)) }
        let types = GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue | GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue
        // The thread is only compared, never used: it may be gone by then.
        gst_pad_add_probe(place, GstPadProbeType(types), dropEndOfThread, UnsafeMutableRawPointer(g_thread_self()), nil)
        return true
    }
}

private func dropEndOfThread(
    _ pad: UnsafeMutablePointer<GstPad>?, _ info: UnsafeMutablePointer<GstPadProbeInfo>?, _ thread: gpointer?
) -> GstPadProbeReturn {
    switch ek_probed_event_type(info) {
    case GST_EVENT_FLUSH_START, GST_EVENT_FLUSH_STOP:
        return GST_PAD_PROBE_REMOVE
    case GST_EVENT_EOS:
        guard let info, UnsafeMutableRawPointer(g_thread_self()) == thread else { return GST_PAD_PROBE_REMOVE }
        gst_pad_remove_probe(pad, info.pointee.id)
        return GST_PAD_PROBE_DROP
    default:
        return GST_PAD_PROBE_OK
    }
}
