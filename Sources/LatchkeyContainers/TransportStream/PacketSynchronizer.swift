// SPDX-License-Identifier: MPL-2.0

/// Finds the packets in bytes that come in pieces of any size, and finds them again after a loss.
struct PacketSynchronizer {
    /// So many sync bytes in a row, at the right distance, are a transport stream.
    private static let wantedPackets = 3

    /// In packets: small enough for the first-level cache, where they are looked at next.
    private static let longestRun = 64

    private var isSynchronized = false
    /// The start of a packet; or, where the packets are not found yet, all bytes that may belong to one.
    private var rest: [UInt8] = []

    var heldSize: Int { rest.count }

    mutating func reset() {
        isSynchronized = false
        rest.removeAll(keepingCapacity: true)
    }

    /// Gives `take` the whole packets, several in a row where they are.
    @inline(__always)
    mutating func append(
        _ bytes: UnsafeRawBufferPointer, _ take: (UnsafeRawPointer, Int) throws(FormatError) -> Void
    ) throws(FormatError) {
        var offset = 0
        if isSynchronized {
            if !rest.isEmpty {
                let missing = min(TransportPacket.size - rest.count, bytes.count)
                rest.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[..<missing]))
                offset = missing
                guard rest.count == TransportPacket.size else { return }
                try takeRest(take)
            }
            if isSynchronized { offset = try takePackets(bytes, from: offset, take) }
        }
        guard offset < bytes.count else { return }
        rest.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[offset...]))
        if !isSynchronized { try search(isEnd: false, take) }
    }

    /// No more bytes come: fewer packets are enough to be sure.
    mutating func end(_ take: (UnsafeRawPointer, Int) throws(FormatError) -> Void) throws(FormatError) {
        if !isSynchronized { try search(isEnd: true, take) }
        reset()
    }

    /// The one packet in `rest`.
    private mutating func takeRest(_ take: (UnsafeRawPointer, Int) throws(FormatError) -> Void) throws(FormatError) {
        try rest.withUnsafeBufferPointer { packet throws(FormatError) in
            // SAFETY: called only when `rest` is exactly one packet; `take` keeps no pointer.
            if let address = packet.baseAddress { try take(address, 1) }
        }
        rest.removeAll(keepingCapacity: true)
    }

    /// Takes packets until bytes are no packet, or fewer than one are left. Returns where.
    @inline(__always)
    private mutating func takePackets(
        _ bytes: UnsafeRawBufferPointer, from start: Int,
        _ take: (UnsafeRawPointer, Int) throws(FormatError) -> Void
    ) throws(FormatError) -> Int {
        guard let base = bytes.baseAddress else { return 0 }
        var offset = start
        while offset < bytes.count {
            guard bytes[offset] == TransportPacket.syncByte else {
                isSynchronized = false
                return offset
            }
            let most = min((bytes.count - offset) / TransportPacket.size, Self.longestRun)
            guard most > 0 else { return offset }
            var count = 1
            while count < most, bytes[offset + count * TransportPacket.size] == TransportPacket.syncByte { count += 1 }
            // SAFETY: `count` whole packets lie between `offset` and the end, and `take` keeps no pointer.
            try take(base + offset, count)
            offset += count * TransportPacket.size
        }
        return offset
    }

    /// Looks for packets in `rest`.
    private mutating func search(
        isEnd: Bool, _ take: (UnsafeRawPointer, Int) throws(FormatError) -> Void
    ) throws(FormatError) {
        var bytes: [UInt8] = []
        swap(&bytes, &rest)
        var offset = 0
        // Each round takes a packet or is the last: linear but for the few bytes that are looked at again.
        while true {
            while offset < bytes.count, !Self.mayStart(bytes, at: offset) { offset += 1 }
            let needed = isEnd ? TransportPacket.size : (Self.wantedPackets - 1) * TransportPacket.size + 1
            guard bytes.count - offset >= needed else { break }
            isSynchronized = true
            offset = try bytes.withUnsafeBufferPointer { bytes throws(FormatError) in
                try takePackets(UnsafeRawBufferPointer(bytes), from: offset, take)
            }
            if isSynchronized { break }
        }
        bytes.removeFirst(offset)
        rest = bytes
    }

    /// Whether packets may start at `offset`, as far as there are bytes.
    private static func mayStart(_ bytes: [UInt8], at offset: Int) -> Bool {
        var position = offset
        for _ in 0..<wantedPackets where position < bytes.count {
            if bytes[position] != TransportPacket.syncByte { return false }
            position += TransportPacket.size
        }
        return true
    }
}
