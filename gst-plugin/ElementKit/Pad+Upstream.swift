// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// What is in front of a sink pad, as a file: how large it is, and whether it can be read elsewhere.
extension Pad {
    /// Whether what is in front of a sink pad can go on at another byte.
    public var canSeekBytes: Bool {
        guard let query = gst_query_new_seeking(GST_FORMAT_BYTES) else { return false }
        defer { ek_mini_object_unref(query) }
        var canSeek: gboolean = 0
        guard gst_pad_peer_query(pointer, query) != 0 else { return false }
        gst_query_parse_seeking(query, nil, &canSeek, nil, nil)
        return canSeek != 0
    }

    /// Has what is in front of a sink pad go on at a byte of the file. A flush comes, also on this thread, before the
    /// call returns, and then a segment.
    public func seekBytes(to offset: UInt64) -> Bool {
        guard let start = gint64(exactly: offset) else { return false }
        let event = gst_event_new_seek(
            1, GST_FORMAT_BYTES, GstSeekFlags(GST_SEEK_FLAG_FLUSH.rawValue), GST_SEEK_TYPE_SET, start,
            GST_SEEK_TYPE_NONE, -1)
        return gst_pad_push_event(pointer, event) != 0
    }

    /// The size of the file in front of a sink pad, in bytes; nil where that is not known, as for a live stream.
    public var peerByteSize: UInt64? {
        var size: gint64 = 0
        guard gst_pad_peer_query_duration(pointer, GST_FORMAT_BYTES, &size) != 0 else { return nil }
        return size > 0 ? UInt64(size) : nil
    }

    /// Whether what is in front of a sink pad can itself be read anywhere, in pull mode.
    public var canPullAnywhere: Bool {
        guard let query = gst_query_new_scheduling() else { return false }
        defer { ek_mini_object_unref(query) }
        return gst_pad_peer_query(pointer, query) != 0 && Query(lending: query).offersPullAnywhere
    }

    /// Whether the HTTP server in front of a sink pad says that it takes byte ranges, so far as the answer came. Nil
    /// where there is none that tells: sources call themselves seekable before they know.
    public var serverTakesRanges: Bool? {
        guard let event = ek_http_headers_in_front(pointer) else { return nil }
        return Event(owning: event).serverTakesRanges
    }
}
