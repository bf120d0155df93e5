// SPDX-License-Identifier: MPL-2.0

/// The kinds of elementary streams that SAMPLE-AES encrypts in transport streams and packed audio.
///
/// Public source: "MPEG-2 Stream Encryption Format for HTTP Live Streaming" (developer.apple.com/library/archive,
/// HLS_Sample_Encryption).
public enum SampleAESCodec: Sendable, Hashable, CaseIterable {
    /// H.264: NAL units of types 1 and 5 above 48 bytes. 32 bytes stay clear, then one block of ten is encrypted.
    case h264
    /// AAC in ADTS frames.
    case aac
    /// AC-3 sync frames; the first 16 bytes stay clear.
    case ac3
    /// E-AC-3. Its frames and those of AC-3 tell themselves apart.
    case eac3

    /// The stream type of the encrypted form in a program map.
    init?(streamType: UInt8) {
        switch streamType {
        case 0xDB: self = .h264
        case 0xCF: self = .aac
        case 0xC1: self = .ac3
        case 0xC2: self = .eac3
        default: return nil
        }
    }

    /// The stream type of the clear form: ISO/IEC 13818-1, table 2-34, and ATSC A/52, annex A and G.
    var clearStreamType: UInt8 {
        switch self {
        case .h264: 0x1B
        case .aac: 0x0F
        case .ac3: 0x81
        case .eac3: 0x87
        }
    }
}
