// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Which key a sample of ISO media needs, and what for: a licence may allow outputs for sound and not for pictures.
public struct ISOKeyUse: Hashable, Sendable {
    /// Nil for media that names no key.
    public var keyID: KeyID?
    /// What may hold pictures is video.
    public var media: OutputPolicy.Media
    /// What the sample is made of. Two uses are the same without it.
    public var codec: SampleCodec?

    public init(keyID: KeyID?, media: OutputPolicy.Media, codec: SampleCodec? = nil) {
        self.keyID = keyID
        self.media = media
        self.codec = codec
    }

    public static func == (left: ISOKeyUse, right: ISOKeyUse) -> Bool {
        left.keyID == right.keyID && left.media == right.media
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(keyID)
        hasher.combine(media)
    }
}
