// SPDX-License-Identifier: MPL-2.0

/// One of the qualities in which a manifest offers its pictures. A value.
public struct PictureQuality: Hashable, Sendable {
    /// In bits a second, as the manifest says it.
    public var bitRate: UInt32
    /// In pixels, as the manifest says them.
    public var width: UInt32
    public var height: UInt32

    public init(bitRate: UInt32, width: UInt32, height: UInt32) {
        self.bitRate = bitRate
        self.width = width
        self.height = height
    }

    /// Of one frame.
    public var pixels: UInt64 { UInt64(width) * UInt64(height) }
}

extension Sequence<PictureQuality> {
    /// The highest bit rate up to which every quality has frames of at most so many pixels. Where none is so small: that
    /// of the lowest. Nil where all are, or there is none.
    public func bitRateLimit(pixels limit: Int) -> UInt32? {
        let ordered = sorted { ($0.bitRate, $0.pixels) < ($1.bitRate, $1.pixels) }
        guard let first = ordered.first, let large = ordered.first(where: { $0.pixels > UInt64(clamping: limit) })
        else {
            return nil
        }
        return ordered.last { $0.bitRate < large.bitRate }?.bitRate ?? first.bitRate
    }

    /// The size of the largest frames of at most so many pixels. Where there are none: of the smallest. Nil where all
    /// qualities have such frames, or there is none.
    public func frameLimit(pixels limit: Int) -> (width: UInt32, height: UInt32)? {
        let ordered = sorted { $0.pixels < $1.pixels }
        guard let first = ordered.first, let last = ordered.last, last.pixels > UInt64(clamping: limit) else {
            return nil
        }
        let found = ordered.last { $0.pixels <= UInt64(clamping: limit) } ?? first
        return (found.width, found.height)
    }
}
