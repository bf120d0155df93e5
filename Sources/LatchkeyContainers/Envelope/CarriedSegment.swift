// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A segment that is encrypted as a whole, dressed as a transport stream.
///
/// GStreamer's HLS demuxer takes segments only that start like media, and wants to find a time in them. So the
/// ciphertext travels in the payloads of packets, behind a note that says what opens it, and behind a program association
/// and the head of a PES packet that say when it starts. `SampleAESStream` takes all of it off again. The format is
/// Latchkey's own and stays within one process:
///
/// ```
/// PID 0x1FF8: SegmentKey with the flag “carried”
/// PID 0x0000: program association; PID 0x1FFA: a PES header with the time; two null packets
/// PID 0x1FF9: the bytes of the segment; the last packet has transport_priority set, and stuffing before its payload
/// ```
public struct CarriedSegment: Sendable {
    static let payloadPID = 0x1FF9
    private static let timePID = 0x1FFA
    private static let programMapPID = 0x1FFB
    private static let payloadSize = TransportPacket.size - 4

    /// Nil: the bytes are clear.
    public var keyID: KeyID?
    /// The first counter block.
    public var initialCounter: InitializationVector?
    /// When the segment starts, in ticks of 90 kHz; the lowest 33 bits count.
    public var start: UInt64

    /// Checks nothing. `initialCounter` is needed with a `keyID` unless the key brings its own.
    public init(keyID: KeyID?, initialCounter: InitializationVector? = nil, start: UInt64) {
        self.keyID = keyID
        self.initialCounter = initialCounter
        self.start = start
    }

    /// The packets with `bytes` in them: about one part in fifty more.
    public func transportStreamPackets(of bytes: some Collection<UInt8>) -> [UInt8] {
        var note = SegmentKey(keyID: keyID, initializationVector: initialCounter)
        note.isCarried = true
        var packets: [UInt8] = []
        packets.reserveCapacity((bytes.count / Self.payloadSize + 6) * TransportPacket.size)
        packets += note.transportStreamPacket
        Self.append(Self.programAssociation, pid: ProgramAssociation.pid, startsUnit: true, to: &packets)
        Self.append(time, pid: Self.timePID, startsUnit: true, to: &packets)
        for _ in 0..<2 { Self.append([], pid: TransportPacket.nullPID, startsUnit: false, to: &packets) }
        var rest = bytes[...]
        var counter: UInt8 = 0
        repeat {
            let piece = rest.prefix(Self.payloadSize)
            rest = rest.dropFirst(piece.count)
            let priority: UInt8 = rest.isEmpty ? 0x20 : 0
            let stuffing = Self.payloadSize - piece.count
            packets += [
                TransportPacket.syncByte, priority | UInt8(Self.payloadPID >> 8), UInt8(Self.payloadPID & 0xFF),
                (stuffing > 0 ? 0x30 : 0x10) | counter,
            ]
            if stuffing > 0 {
                // The length of the adaptation field, its flags, and stuffing.
                packets.append(UInt8(truncatingIfNeeded: stuffing - 1))
                if stuffing > 1 {
                    packets.append(0)
                    packets += [UInt8](repeating: 0xFF, count: stuffing - 2)
                }
            }
            packets += piece
            counter = (counter + 1) & 0x0F
        } while !rest.isEmpty
        return packets
    }

    private static func append(_ payload: [UInt8], pid: Int, startsUnit: Bool, to packets: inout [UInt8]) {
        packets += [
            TransportPacket.syncByte, (startsUnit ? 0x40 : 0) | UInt8(truncatingIfNeeded: pid >> 8),
            UInt8(truncatingIfNeeded: pid), 0x10,
        ]
        packets += payload
        packets += [UInt8](repeating: 0xFF, count: max(0, payloadSize - payload.count))
    }

    /// One programme (ISO/IEC 13818-1, 2.4.4.3), behind the pointer field.
    private static let programAssociation: [UInt8] = {
        let section: [UInt8] = [
            0x00, 0xB0, 0x0D, 0x00, 0x01, 0xC1, 0x00, 0x00, 0x00, 0x01, 0xE0 | UInt8(programMapPID >> 8),
            UInt8(programMapPID & 0xFF),
        ]
        return [0] + section + CRC32.checksum(section).bigEndianBytes
    }()

    /// The head of a PES packet of a private stream with a PTS and without data (2.4.3.6).
    private var time: [UInt8] {
        let ticks = start & 0x1_FFFF_FFFF
        return [
            0x00, 0x00, 0x01, 0xBD, 0x00, 0x08, 0x80, 0x80, 0x05, 0x21 | UInt8(ticks >> 29 & 0x0E),
            UInt8(truncatingIfNeeded: ticks >> 22), UInt8(truncatingIfNeeded: ticks >> 14) | 1,
            UInt8(truncatingIfNeeded: ticks >> 7), UInt8(truncatingIfNeeded: ticks << 1) | 1,
        ]
    }
}
