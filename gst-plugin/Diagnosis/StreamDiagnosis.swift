// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit

/// Which decoder one stream of a clip would get, and why no other.
public struct StreamDiagnosis: Encodable, Sendable {
    /// A factory, and why it is taken or not.
    public struct Candidate: Encodable, Sendable, Hashable {
        public let factory: DecoderFactory
        public let reason: String
    }

    /// What the stream is, as the clip names it: `avc1.64001f`, or caps.
    public let name: String
    /// Caps of the clear stream.
    public let caps: String
    public let isProtected: Bool
    /// Nil where no decoder takes it.
    public let decoder: String?
    public let candidates: [Candidate]

    /// `factories` in any order.
    public init(
        name: String, caps: String, isProtected: Bool, factories: [DecoderFactory],
        gstreamer: (major: UInt32, minor: UInt32)
    ) {
        self.name = name
        self.caps = caps
        self.isProtected = isProtected
        let ordered = DecoderFactory.ordered(factories)
        let taken = ordered.first { $0.rank >= DecoderFactory.leastRank }
        decoder = taken?.name
        candidates = ordered.map {
            Candidate(factory: $0, reason: Self.reason($0, taken: taken, gstreamer: gstreamer))
        }
    }

    private static func reason(
        _ factory: DecoderFactory, taken: DecoderFactory?, gstreamer: (major: UInt32, minor: UInt32)
    ) -> String {
        guard let taken, factory != taken else {
            return factory == taken ? "taken: the highest rank" : Self.neverPlugged(factory, gstreamer)
        }
        if factory.rank < DecoderFactory.leastRank { return neverPlugged(factory, gstreamer) }
        if factory.rank == taken.rank { return "not taken: \(taken.name) has the same rank, and its name sorts first" }
        return "not taken: \(taken.name) has a higher rank"
    }

    private static func neverPlugged(_ factory: DecoderFactory, _ version: (major: UInt32, minor: UInt32)) -> String {
        "not taken: players never plug a decoder of rank \(factory.rankText) by themselves (its rank in GStreamer "
            + "\(version.major).\(version.minor))"
    }

    /// The same in words.
    public var section: DiagnosisSection {
        let title = "\(name)\(isProtected ? " (protected)" : ""): \(caps)"
        var findings: [Finding] = []
        if let taken = candidates.first(where: { $0.factory.name == decoder })?.factory {
            findings.append(
                Finding(
                    .fact,
                    "decoder: \(taken.name), rank \(taken.rankText), \(taken.isHardware ? "hardware" : "software")"))
        } else {
            findings.append(
                Finding(
                    .problem, "no decoder would be plugged",
                    advice: candidates.isEmpty
                        ? "Install one: \(Self.packages)." : "Raise the rank of one of those below, as shown."))
        }
        for candidate in candidates where candidate.factory.name != decoder {
            let factory = candidate.factory
            let kind = factory.isHardware ? "hardware" : "software"
            let text = "\(factory.name), rank \(factory.rankText), \(kind): \(candidate.reason)"
            let isBetter = factory.isHardware && !(isDecodedByHardware) || decoder == nil
            findings.append(
                Finding(
                    isBetter ? .hint : .fact, text,
                    advice: isBetter ? "To have it: GST_PLUGIN_FEATURE_RANK=\(factory.name):MAX" : nil))
        }
        if decoder != nil, caps.hasPrefix("video/"), !candidates.contains(where: { $0.factory.isHardware }) {
            findings.append(
                Finding(.hint, "no hardware decoder for it is registered; see the devices and plug-ins above"))
        }
        return DiagnosisSection(title, findings)
    }

    private var isDecodedByHardware: Bool {
        candidates.contains { $0.factory.name == decoder && $0.factory.isHardware }
    }

    private static let packages =
        "gstreamer1.0-libav has software decoders for most of them, gstreamer1.0-plugins-good and -bad others"
}

/// The streams of a clip as GStreamer finds them, for containers whose bytes are not read here. No key is asked for: what
/// is encrypted stays so.
public enum StreamDiscovery {
    /// Looks for at most `seconds`. `uri` is absolute.
    public static func streams(of uri: String, seconds: UInt64 = 10) throws(DiagnosisError) -> [ClipStream] {
        guard let pipeline = gst_pipeline_new(nil), let source = gst_element_factory_make("urisourcebin", nil),
            let parser = gst_element_factory_make("parsebin", nil)
        else { throw DiagnosisError("urisourcebin or parsebin is missing: install gstreamer1.0-plugins-base") }
        gst_object_ref_sink(pipeline)
        defer {
            gst_element_set_state(pipeline, GST_STATE_NULL)
            gst_object_unref(pipeline)
        }
        let bin = ek_as_bin(pipeline)
        gst_bin_add(bin, source)
        gst_bin_add(bin, parser)
        source.setProperty("uri", .string(uri))
        ek_connect(source, "pad-added", unsafeBitCast(linkToParser, to: GCallback.self), parser)
        ek_connect(parser, "autoplug-continue", unsafeBitCast(goesOn, to: GCallback.self), nil)
        ek_connect(parser, "pad-added", unsafeBitCast(addSink, to: GCallback.self), pipeline)
        gst_element_set_state(pipeline, GST_STATE_PAUSED)
        guard let bus = gst_element_get_bus(pipeline) else { throw DiagnosisError("GStreamer gives no bus") }
        defer { gst_object_unref(bus) }
        let kinds = GstMessageType(
            GST_MESSAGE_ERROR.rawValue | GST_MESSAGE_STREAM_COLLECTION.rawValue | GST_MESSAGE_EOS.rawValue)
        guard let message = gst_bus_timed_pop_filtered(bus, GstClockTime(seconds) * 1_000_000_000, kinds) else {
            throw DiagnosisError("GStreamer found no streams within \(seconds) seconds")
        }
        defer { ek_mini_object_unref(message) }
        guard ek_message_type(message) == Int32(GST_MESSAGE_STREAM_COLLECTION.rawValue) else {
            throw DiagnosisError(Self.error(of: message))
        }
        var collection: UnsafeMutablePointer<GstStreamCollection>?
        gst_message_parse_stream_collection(message, &collection)
        guard let collection else { throw DiagnosisError("GStreamer found no streams") }
        defer { gst_object_unref(collection) }
        return (0..<gst_stream_collection_get_size(collection)).compactMap { index in
            gst_stream_collection_get_stream(collection, index).flatMap { gst_stream_get_caps($0) }
                .flatMap { stream(Caps(owning: $0)) }
        }
    }

    private static func error(of message: UnsafeMutablePointer<GstMessage>) -> String {
        guard ek_message_type(message) == Int32(GST_MESSAGE_ERROR.rawValue) else { return "GStreamer found no streams" }
        var error: UnsafeMutablePointer<GError>?
        gst_message_parse_error(message, &error, nil)
        defer { if let error { g_error_free(error) } }
        return error.map { String(cString: $0.pointee.message) } ?? "GStreamer found no streams"
    }

    /// The caps of the only codec of this type; nil where there are several.
    private static func known(_ type: String) -> String? {
        let codecs = ClipCodec.all.filter { $0.caps.prefix { $0 != "," } == type }
        return codecs.count == 1 ? codecs.first?.caps : nil
    }

    private static func stream(_ caps: Caps) -> ClipStream? {
        guard let type = caps.mediaType() else { return nil }
        guard let original = caps.string("original-media-type") else {
            let isMedia = type.hasPrefix("video/") || type.hasPrefix("audio/")
            return isMedia ? ClipStream(name: type, isProtected: false, caps: known(type) ?? caps.description) : nil
        }
        return ClipStream(name: original, isProtected: true, caps: known(original) ?? original)
    }
}

private let linkToParser:
    @convention(c) (UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstPad>?, gpointer?) -> Void = {
        _, pad, parser in
        guard let pad, let parser,
            let sink = gst_element_get_static_pad(parser.assumingMemoryBound(to: GstElement.self), "sink")
        else { return }
        if gst_pad_is_linked(sink) == 0 { gst_pad_link(pad, sink) }
        gst_object_unref(sink)
    }

/// Stops in front of whatever decrypts.
private let goesOn:
    @convention(c) (
        UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstPad>?, UnsafeMutablePointer<GstCaps>?, gpointer?
    ) -> gboolean = { _, _, caps, _ in
        guard let type = caps.flatMap({ Caps(sharing: $0).mediaType() }) else { return 1 }
        return ["application/x-cenc", "application/x-cbcs", "application/x-webm-enc"].contains(type) ? 0 : 1
    }

private let addSink:
    @convention(c) (UnsafeMutablePointer<GstElement>?, UnsafeMutablePointer<GstPad>?, gpointer?) -> Void = {
        _, pad, pipeline in
        guard let pad, let pipeline, let sink = gst_element_factory_make("fakesink", nil) else { return }
        gst_bin_add(ek_as_bin(pipeline), sink)
        gst_element_sync_state_with_parent(sink)
        guard let target = gst_element_get_static_pad(sink, "sink") else { return }
        gst_pad_link(pad, target)
        gst_object_unref(target)
    }
