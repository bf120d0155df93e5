// SPDX-License-Identifier: MPL-2.0

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
