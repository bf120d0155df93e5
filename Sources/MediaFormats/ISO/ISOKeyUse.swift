// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

/// Which key a sample of ISO media needs, and what for: a licence may allow outputs for sound and not for pictures.
public struct ISOKeyUse: Hashable, Sendable {
    /// Nil for media that names no key.
    public var keyID: KeyID?
    /// What may hold pictures is video.
    public var media: OutputPolicy.Media

    public init(keyID: KeyID?, media: OutputPolicy.Media) {
        self.keyID = keyID
        self.media = media
    }
}
