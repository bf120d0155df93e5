// SPDX-License-Identifier: MPL-2.0

/// Takes what recorders and broadcast equipment add out of a transport stream: 4 bytes in front of each packet (M2TS), or
/// 16 behind it (parity, ETSI EN 300 421). Packets of 188 bytes are left.
struct PacketTrimmer {
    /// From one sync byte to the next, in bytes, of the forms that exist; the plain one first.
    static let distances = [TransportPacket.size, 192, 204]

    private let distance: Int
    /// What may belong to a packet whose end, or whose successor, has not come.
    private var rest: [UInt8] = []

    /// `distance` is one of `distances`.
    init(distance: Int) { self.distance = distance }

    /// What is held here, in bytes of the packets that it will be.
    var heldSize: Int { rest.count * TransportPacket.size / distance }

    mutating func reset() { rest.removeAll(keepingCapacity: true) }

    /// The packets that are whole now. A packet counts where another one follows at the right distance, so that bytes
    /// that are lost cost what they were in.
    mutating func packets(from bytes: UnsafeRawBufferPointer) -> [UInt8] {
        rest.append(contentsOf: bytes)
        return take { [distance] rest, offset in
            offset + distance < rest.count
                ? rest[offset] == TransportPacket.syncByte && rest[offset + distance] == TransportPacket.syncByte : nil
        }
    }

    /// No more bytes come: a last packet needs no other behind it.
    mutating func end() -> [UInt8] {
        defer { reset() }
        return take { [distance] rest, offset in
            guard offset + TransportPacket.size <= rest.count else { return nil }
            let next = offset + distance
            return rest[offset] == TransportPacket.syncByte
                && (next >= rest.count || rest[next] == TransportPacket.syncByte)
        }
    }

    /// `isPacket` says whether one starts at an offset; nil where more bytes are needed to tell.
    private mutating func take(_ isPacket: ([UInt8], Int) -> Bool?) -> [UInt8] {
        var packets: [UInt8] = []
        packets.reserveCapacity(rest.count)
        var offset = 0
        while let isOne = isPacket(rest, offset) {
            if isOne { packets += rest[offset..<offset + TransportPacket.size] }
            offset += isOne ? distance : 1
        }
        rest.removeFirst(min(offset, rest.count))
        return packets
    }
}
