// SPDX-License-Identifier: MPL-2.0

extension OutputPolicy {
    /// What an output is given: each kind has rules of its own.
    public enum Media: Hashable, Sendable {
        /// Pictures; the rules of video outputs count.
        case video
        /// Sound; the rules of audio outputs count.
        case audio
    }

    /// The rule for a digital link that carries this medium uncompressed, as players' sinks have it.
    public func digitalRule(for media: Media) -> OutputRule {
        switch media {
        case .video: digitalVideo
        case .audio: digitalAudio
        }
    }

    /// The rule for a link that carries the stream still compressed.
    public func compressedRule(for media: Media) -> OutputRule {
        switch media {
        case .video: compressedVideo
        case .audio: compressedAudio
        }
    }

    /// Why no digital output may have this medium, in words; nil where one may. What is compressed has links of its own,
    /// and what is analog too: whoever watches the outputs asks for those.
    public func refusal(of media: Media) -> String? {
        guard digitalRule(for: media) == .block else { return nil }
        return switch media {
        case .video: "the licence allows no output for digital video"
        case .audio: "the licence allows no output for digital audio"
        }
    }
}
