// SPDX-License-Identifier: MPL-2.0

/// What the user wants of the stock demuxer's choice of qualities, and what outputs allow. In bits a second; a value.
struct RateLimits: Hashable {
    /// The highest rate of a variant; 0: no limit.
    var maximum: UInt32 = 0
    /// What the network is taken for; 0: it is measured. The stock demuxer looks at nothing else where it is set.
    var connection: UInt32 = 0
    /// By the outputs; nil: no limit.
    var allowed: UInt32?

    /// For the stock demuxer, to which 0 is no limit.
    var effectiveMaximum: UInt32 {
        guard let allowed else { return maximum }
        return maximum == 0 ? max(allowed, 1) : min(maximum, max(allowed, 1))
    }

    var effectiveConnection: UInt32 {
        guard let allowed, connection > 0 else { return connection }
        return min(connection, max(allowed, 1))
    }
}

/// The same of the size of pictures, in pixels; 0: no limit.
struct FrameLimits: Hashable {
    struct Size: Hashable {
        var width: UInt32 = 0
        var height: UInt32 = 0
    }

    var wanted = Size()
    var allowed = Size()

    var effective: Size {
        Size(width: Self.lower(wanted.width, allowed.width), height: Self.lower(wanted.height, allowed.height))
    }

    private static func lower(_ one: UInt32, _ other: UInt32) -> UInt32 {
        one == 0 || other == 0 ? max(one, other) : min(one, other)
    }
}
