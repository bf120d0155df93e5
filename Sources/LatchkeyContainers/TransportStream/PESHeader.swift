// SPDX-License-Identifier: MPL-2.0

/// The start of a PES packet (ISO/IEC 13818-1, 2.4.3.6).
///
/// ```
/// 00 00 01, UInt8 stream_id, UInt16 PES_packet_length (0: not told),
/// 10 flags(6), flags(8), UInt8 PES_header_data_length, that many bytes, payload
/// ```
struct PESHeader: Equatable {
    static let minimumSize = 9
    /// Bytes that PES_packet_length does not count.
    static let uncountedSize = 6

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
