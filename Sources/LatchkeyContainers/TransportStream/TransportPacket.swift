// SPDX-License-Identifier: MPL-2.0

/// One packet of an MPEG transport stream (ISO/IEC 13818-1, 2.4.3) where it lies.
///
/// ```
/// 0x47, error(1) start(1) priority(1) PID(13), scrambling(2) adaptation(1) payload(1) continuity(4)
/// with adaptation: UInt8 length, UInt8 flags, …
/// ```
struct TransportPacket {
    /// In bytes.
    static let size = 188
    static let syncByte: UInt8 = 0x47
    static let nullPID = 0x1FFF

    // SAFETY: 188 bytes that outlive the value; the offsets below are constants or checked against 188.
    let bytes: UnsafeMutablePointer<UInt8>

    @inline(__always)
    init(_ address: UnsafeMutableRawPointer) { bytes = address.assumingMemoryBound(to: UInt8.self) }

    @inline(__always) var isDamaged: Bool { bytes[1] & 0x80 != 0 }
    /// Neither damaged nor the start of anything, and not scrambled.
    @inline(__always) var isPlain: Bool { bytes[1] & 0xC0 | bytes[3] & 0xC0 == 0 }
    @inline(__always) var hasPriority: Bool { bytes[1] & 0x20 != 0 }
    @inline(__always) var startsUnit: Bool { bytes[1] & 0x40 != 0 }
    @inline(__always) var pid: Int { Int(bytes[1] & 0x1F) << 8 | Int(bytes[2]) }
    @inline(__always) var isScrambled: Bool { bytes[3] & 0xC0 != 0 }
    @inline(__always) var hasPayload: Bool { bytes[3] & 0x10 != 0 }
    @inline(__always) var continuityCounter: UInt8 { bytes[3] & 0x0F }

    private var hasAdaptationField: Bool { bytes[3] & 0x20 != 0 }

    /// Whether the counter may jump here without a loss.
    var isDiscontinuous: Bool { hasAdaptationField && bytes[4] > 0 && bytes[5] & 0x80 != 0 }

    /// Where the payload starts; 188 or more where there is none.
    @inline(__always) var payloadOffset: Int {
        guard hasPayload else { return Self.size }
        return hasAdaptationField ? 5 + Int(bytes[4]) : 4
    }

    @inline(__always) var payloadSize: Int { max(0, Self.size - payloadOffset) }

    /// Makes it a packet that every receiver ignores, without what was in it.
    func makeNull() {
        bytes[1] = UInt8(Self.nullPID >> 8)
        bytes[2] = UInt8(Self.nullPID & 0xFF)
        bytes[3] = 0x10 | continuityCounter
        (bytes + 4).update(repeating: 0xFF, count: Self.size - 4)
    }

    /// Moves the start of the payload, by stuffing in the adaptation field, so that `size` bytes are left. `size` is
    /// from 1 to the present size; what the payload was is lost.
    func shrinkPayload(to size: Int) {
        let offset = payloadOffset
        let surplus = payloadSize - size
        guard surplus > 0, size > 0 else { return }
        var firstStuffed = offset
        if !hasAdaptationField {
            bytes[3] |= 0x20
            bytes[4] = UInt8(truncatingIfNeeded: surplus - 1)
            firstStuffed = 5
        } else {
            bytes[4] = UInt8(truncatingIfNeeded: Int(bytes[4]) + surplus)
        }
        let end = offset + surplus
        if firstStuffed == 5, end > 5 {
            // The field had no flags before.
            bytes[5] = 0
            firstStuffed = 6
        }
        while firstStuffed < end {
            bytes[firstStuffed] = 0xFF
            firstStuffed += 1
        }
    }
}

/// The start of a PES packet (ISO/IEC 13818-1, 2.4.3.6).
///
/// ```
/// 00 00 01, UInt8 stream_id, UInt16 PES_packet_length (0: not told),
/// 10 flags(6), flags(8), UInt8 PES_header_data_length, that many bytes, payload
/// ```
struct PESHeader: Equatable {
    static let minimumSize = 9
    /// Bytes that PES_packet_length does not count.
    private static let uncountedSize = 6

    /// Of the whole packet; nil where the header does not tell.
    var packetSize: Int?
    /// Where the payload starts. May lie behind the end of a packet that was cut.
    var payloadOffset: Int

    /// Nil for bytes that are no PES packet with the header of a stream.
    init?(_ bytes: UnsafeRawBufferPointer) {
        // SAFETY: nothing behind the 9 bytes that are counted here is read.
        guard bytes.count >= Self.minimumSize, bytes[0] == 0, bytes[1] == 0, bytes[2] == 1, bytes[6] & 0xC0 == 0x80
        else { return nil }
        let length = Int(bytes[4]) << 8 | Int(bytes[5])
        packetSize = length == 0 ? nil : length + Self.uncountedSize
        payloadOffset = Self.minimumSize + Int(bytes[8])
    }

    /// Writes PES_packet_length anew after the size of the packet changed. Zero stays, and stands for what is too
    /// large.
    static func setPacketSize(_ size: Int, in bytes: UnsafeMutableRawBufferPointer) {
        // SAFETY: bytes 4 and 5 are within those that are counted here.
        guard bytes.count >= minimumSize, bytes[4] != 0 || bytes[5] != 0 else { return }
        let length = UInt16(exactly: size - uncountedSize) ?? 0
        bytes[4] = UInt8(truncatingIfNeeded: length >> 8)
        bytes[5] = UInt8(truncatingIfNeeded: length)
    }
}
