// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// The streams that a Smooth Streaming manifest needs to have, by the Downloadable Agent manual, 5.3.2: a video of H.264
/// with a quality, and an audio of AAC with one quality.
struct SmoothTracks {
    let streams: [XMLElement]

    init(_ manifest: XMLElement) { streams = manifest.children.filter { $0.localName == "StreamIndex" } }

    /// Throws `invalidContent` with what is missing, `unsupportedContent` with the codec that there is in its place.
    func check(at url: String) throws(AgentError) {
        try check("video", at: url, codecs: "H.264", count: { $0 >= 1 }) { ["H264", "AVC1", "X264"].contains($0) }
        // Manifests without a FourCC have the WAVE format tag of AAC.
        try check("audio", at: url, codecs: "AAC, with one quality", count: { $0 == 1 }) {
            ["AACL", "AACH", "AACP", "255"].contains($0)
        }
    }

    private func check(
        _ type: String, at url: String, codecs: String, count isEnough: (Int) -> Bool, _ isKnown: (String) -> Bool
    ) throws(AgentError) {
        let ofType = streams.filter { $0[attribute: "Type"]?.lowercased() == type }
        guard !ofType.isEmpty else { throw .invalidContent("it has no StreamIndex of the type \(type)", at: url) }
        var others: Set<String> = []
        for stream in ofType {
            let levels = stream.children.filter { $0.localName == "QualityLevel" }
            let codes = levels.map { Self.codec(of: $0, in: stream) }
            if codes.allSatisfy(isKnown), isEnough(levels.count) { return }
            others.formUnion(codes.map { String($0.prefix(16)) })
            if levels.isEmpty { others.insert("no QualityLevel") }
        }
        throw .unsupportedContent(
            "it has no StreamIndex of the type \(type) that is played (\(codecs)); there is "
                + others.sorted().joined(separator: ", "), at: url)
    }

    static func codec(of level: XMLElement, in stream: XMLElement) -> String {
        let code = [level, stream].compactMap { $0[attribute: "FourCC"] }.first { !$0.isEmpty }
        return code?.uppercased() ?? level[attribute: "AudioTag"] ?? "no FourCC"
    }
}
