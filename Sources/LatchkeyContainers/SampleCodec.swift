// SPDX-License-Identifier: MPL-2.0

/// What samples are made of, as far as a wrong key can be told by it.
public enum SampleCodec: Hashable, Sendable {
    /// NAL units of H.264 behind lengths of so many bytes.
    case h264(lengthSize: Int)
    /// The same of H.265.
    case h265(lengthSize: Int)
    /// Raw AAC frames.
    case aac
    /// AC-3 and E-AC-3.
    case ac3
    case av1
    case vp8
    case vp9
    case vorbis
    case flac
    case mp3
    case opus

    /// By the media type of GStreamer's caps; nil for others.
    public init?(mediaType: String) {
        switch mediaType {
        case "video/x-h264": self = .h264(lengthSize: 4)
        case "video/x-h265": self = .h265(lengthSize: 4)
        case "audio/mpeg": self = .aac
        case "audio/x-ac3", "audio/x-eac3": self = .ac3
        case "video/x-av1": self = .av1
        case "video/x-vp8": self = .vp8
        case "video/x-vp9": self = .vp9
        case "audio/x-vorbis": self = .vorbis
        case "audio/x-flac": self = .flac
        case "audio/x-opus": self = .opus
        default: return nil
        }
    }

    /// By the four characters of a sample entry (ISO/IEC 14496-12 and the codecs' own documents); nil for others, and for
    /// `mp4a`, which is several.
    public init?(fourCC: String, lengthSize: Int = 4) {
        switch fourCC {
        case "avc1", "avc2", "avc3", "avc4", "H264", "AVC1": self = .h264(lengthSize: lengthSize)
        case "hvc1", "hev1", "dvh1", "dvhe": self = .h265(lengthSize: lengthSize)
        case "ac-3", "ec-3": self = .ac3
        case "av01": self = .av1
        case "vp08": self = .vp8
        case "vp09": self = .vp9
        case "fLaC": self = .flac
        case "Opus": self = .opus
        case ".mp3": self = .mp3
        default: return nil
        }
    }
}
