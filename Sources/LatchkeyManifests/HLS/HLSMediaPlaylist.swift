// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// The media initialization section of segments (`EXT-X-MAP`; RFC 8216, 4.3.2.5).
public struct HLSMap: Hashable, Sendable {
    /// Where the section is at the origin; absolute.
    public var url: String
    /// Nil for the whole resource.
    public var byteRange: HLSByteRange?
    /// Set where the section is encrypted as a whole.
    public var decryption: HLSSegmentDecryption?
}

/// What opens a resource that is encrypted as a whole: AES-128 in CBC mode with PKCS#7 padding (RFC 8216, 4.3.2.4 and
/// 5.2).
public struct HLSSegmentDecryption: Hashable, Sendable {
    /// Its method is `aes128`; its answer may bring the IV too.
    public var key: HLSKey
    /// Nil where the answer to the key request brings it.
    public var initializationVector: InitializationVector?

    /// A nil `initializationVector` leaves the IV to the answer of the key request.
    public init(key: HLSKey, initializationVector: InitializationVector?) {
        self.key = key
        self.initializationVector = initializationVector
    }
}

/// A media playlist, read: its segments with the key and the map that hold for each.
struct HLSMediaPlaylist: Sendable {
    struct Segment: Sendable {
        /// Absolute. Nil for the parts of a segment that is not there yet.
        var url: String?
        var sequence: UInt64
        /// In seconds.
        var duration: Double
        var byteRange: HLSByteRange?
        var sharedKey: HLSShared<HLSKey>?
        var sharedMap: HLSShared<HLSMap>?
        /// Indices of `lines`; the last is the URI.
        var lines: Range<Int>

        var key: HLSKey? { sharedKey?.value }
        var map: HLSMap? { sharedMap?.value }
        /// The key, if it encrypts samples.
        var sampleKey: HLSKey? { key.flatMap { $0.method.encryptsSamples ? $0 : nil } }
        /// What opens the segment, if it is encrypted as a whole.
        var decryption: HLSSegmentDecryption? {
            guard let key, key.method == .aes128 else { return nil }
            return HLSSegmentDecryption(
                key: key, initializationVector: key.initializationVector(forSegment: sequence))
        }
    }

    /// With the variables filled in, and without their definitions.
    var lines: [HLSLine] = []
    var segments: [Segment] = []
    var targetDuration: Double?
    var mediaSequence: UInt64 = 0
    var isEnded = false
    /// Whether it leaves segments out that the player has seen.
    var isDelta = false
    /// What holds behind the last segment.
    var scope = HLSKeyScope()
    /// Where `scope` changes, with the number of the first segment.
    var scopeChanges: [(sequence: UInt64, scope: HLSKeyScope)] = []
    /// A key that is announced behind the last segment.
    var upcomingKey: HLSKey?
    var variables: [String: String] = [:]
}
