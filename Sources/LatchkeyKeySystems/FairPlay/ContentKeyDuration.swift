// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// How long a content key may be used.
///
/// ```
/// UInt32 lease, UInt32 rental, UInt32 type, UInt32 0x86d34a3a
/// ```
///
/// Integers are big-endian. See `TLLV` for the sources. A value; thread-safe.
public struct ContentKeyDuration: TLLVValue {
    /// Which of the two durations count, and whether the key may be stored.
    public enum Kind: UInt32, Sendable, CaseIterable {
        /// The key ends unless the lease is renewed.
        case lease = 0x1A4B_DE7E
        /// Playback may start until then.
        case rental = 0x3DFE_45A0
        /// Both durations count, whichever ends first.
        case leaseAndRental = 0x27B5_9BDE
        /// The key may be stored and does not end.
        case persistent = 0x3DF2_D9FB
        /// The key may be stored and ends after the rental duration.
        case persistentForRental = 0x18F0_6048
    }

    /// `47acf6a418cd091a`. Key servers send it only where the SPC has a `MediaPlaybackState`.
    public static let tag = TLLV.Tag.contentKeyDuration
    /// What stands in the place of a duration that does not end.
    public static let unlimited = UInt32.max
    /// What the last four bytes are.
    public static let marker: UInt32 = 0x86D3_4A3A

    /// In seconds; `unlimited` for none.
    public var lease: UInt32
    /// In seconds; `unlimited` for none.
    public var rental: UInt32
    /// Says which of `lease` and `rental` has a meaning.
    public var kind: Kind

    /// Both durations are without an end unless they are given.
    public init(lease: UInt32 = Self.unlimited, rental: UInt32 = Self.unlimited, kind: ContentKeyDuration.Kind) {
        self.lease = lease
        self.rental = rental
        self.kind = kind
    }

    /// Throws `malformed` for another length than 16 bytes, an unknown type, and a block that does not end in `marker`.
    public init(tllvValue bytes: [UInt8]) throws(FormatError) {
        var reader = try Self.reader(bytes, lengths: 16)
        lease = try reader.readUInt32()
        rental = try reader.readUInt32()
        guard let kind = Kind(rawValue: try reader.readUInt32()) else {
            throw .malformed("TLLV \(Self.tag) is of an unknown type")
        }
        self.kind = kind
        guard try reader.readUInt32() == Self.marker else {
            throw .malformed("TLLV \(Self.tag) does not end in its fixed number")
        }
    }

    /// 16 bytes, `marker` at the end.
    public var tllvValue: [UInt8] {
        bigEndian(lease) + bigEndian(rental) + bigEndian(kind.rawValue) + bigEndian(Self.marker)
    }
}
