// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// One stream of a stream collection.
public struct StreamDescription: Hashable, Sendable {
    /// What a stream holds.
    public enum Kind: Sendable { case video, audio, text, other }

    /// What a selection names it by.
    public var id: String
    /// What it holds.
    public var kind: Kind

    init(_ stream: UnsafeMutablePointer<GstStream>) {
        id = gst_stream_get_stream_id(stream).map { String(cString: $0) } ?? ""
        let type = gst_stream_get_stream_type(stream)
        kind =
            type.rawValue & GST_STREAM_TYPE_VIDEO.rawValue != 0
            ? .video
            : type.rawValue & GST_STREAM_TYPE_AUDIO.rawValue != 0
                ? .audio : type.rawValue & GST_STREAM_TYPE_TEXT.rawValue != 0 ? .text : .other
    }
}

extension Message {
    /// The streams of a STREAM_COLLECTION message, in its order; nil for other messages.
    public borrowing func streamCollection() -> [StreamDescription]? {
        withPointer { pointer in
            guard GstMessageType(ek_message_type(pointer)) == GST_MESSAGE_STREAM_COLLECTION else { return nil }
            var collection: UnsafeMutablePointer<GstStreamCollection>?
            gst_message_parse_stream_collection(pointer, &collection)
            guard let collection else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(collection)) }
            return (0..<gst_stream_collection_get_size(collection)).compactMap { index in
                gst_stream_collection_get_stream(collection, index).map { StreamDescription($0) }
            }
        }
    }

    /// The streams that a STREAMS_SELECTED message says are active; nil for other messages.
    public borrowing func selectedStreams() -> [StreamDescription]? {
        withPointer { pointer in
            guard GstMessageType(ek_message_type(pointer)) == GST_MESSAGE_STREAMS_SELECTED else { return nil }
            return (0..<gst_message_streams_selected_get_size(pointer)).compactMap { index in
                guard let stream = gst_message_streams_selected_get_stream(pointer, index) else { return nil }
                defer { gst_object_unref(UnsafeMutableRawPointer(stream)) }
                return StreamDescription(stream)
            }
        }
    }
}

extension Event {
    /// Asks for these streams of a collection and no others.
    public static func selectStreams(_ ids: [String]) -> Event {
        GStreamer.initialize()
        var list: UnsafeMutablePointer<GList>?
        for id in ids.reversed() { list = g_list_prepend(list, g_strdup(id)) }
        // SAFETY: the event copies the texts; the list and what it holds are freed here.
        defer { g_list_free_full(list, g_free) }
        return Event(owning: gst_event_new_select_streams(list))
    }
}
