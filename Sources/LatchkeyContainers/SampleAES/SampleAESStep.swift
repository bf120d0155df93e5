// SPDX-License-Identifier: MPL-2.0

/// What comes next in a stream with SAMPLE-AES.
public enum SampleAESStep: Sendable, Equatable {
    /// Samples behind here are encrypted with another key, or clear.
    case key(SegmentKey)
    /// A unit waits to be decrypted: `withUnit` lends it.
    case unit
    /// More bytes are needed.
    case nothing
}
