// SPDX-License-Identifier: MPL-2.0

/// Takes what recorders and broadcast equipment add out of a transport stream: 4 bytes in front of each packet (M2TS), or
/// 16 behind it (parity, ETSI EN 300 421). Packets of 188 bytes are left.
struct PacketTrimmer {
    /// From one sync byte to the next, in bytes, of the forms that exist; the plain one first.
    static let distances = [TransportPacket.size, 192, 204]

    /// So many sync bytes behind one, at the right distance, are a transport stream.
    private static let wantedFollowers = 2

    private let distance: Int
    private var isSynchronized = true
    /// What may belong to a packet whose end, or whose successor, has not come.
    private var rest: [UInt8] = []

    /// `distance` is one of `distances`. The first bytes that come are those from a sync byte on.
    init(distance: Int) { self.distance = distance }

    /// What is held here, in bytes of the packets that it will be.
    var heldSize: Int { rest.count * TransportPacket.size / distance }

    /// Forgets what is held, and where packets start.
    mutating func reset() {
        isSynchronized = false
        rest.removeAll(keepingCapacity: true)
    }

    /// The packets that are whole now. A packet counts where another one follows at the right distance, so that bytes
    /// that are lost cost what they were in.
    mutating func packets(from bytes: UnsafeRawBufferPointer) -> [UInt8] {
        rest.append(contentsOf: bytes)
        return take(isEnd: false)
    }

    /// No more bytes come: a last packet needs no other behind it.
    mutating func end() -> [UInt8] {
        defer { reset() }
        return take(isEnd: true)
    }

    private mutating func take(isEnd: Bool) -> [UInt8] {
        var packets: [UInt8] = []
        packets.reserveCapacity(rest.count)
        var offset = 0
        while true {
            if !isSynchronized { search(from: &offset, isEnd: isEnd) }
            guard isSynchronized, offset + (isEnd ? TransportPacket.size - 1 : distance) < rest.count else { break }
            if Self.areInRow(rest, at: offset, distance, followers: 1, isEnd: isEnd) {
                packets += rest[offset..<offset + TransportPacket.size]
                offset += distance
            } else {
                isSynchronized = false
                offset += 1
            }
        }
        rest.removeFirst(min(offset, rest.count))
        return packets
    }

    /// Moves `offset` to the next packet, or to where the search goes on with more bytes.
    private mutating func search(from offset: inout Int, isEnd: Bool) {
        let followers = Self.wantedFollowers
        let needed = isEnd ? TransportPacket.size : followers * distance + Self.lead + 1
        while offset + needed <= rest.count {
            if Self.areInRow(rest, at: offset, distance, followers: followers, isEnd: isEnd) {
                offset = Self.start(in: rest, near: offset, distance, followers: followers, isEnd: isEnd)
                isSynchronized = true
                return
            }
            offset += 1
        }
    }
}

// MARK: Where packets start

extension PacketTrimmer {
    /// In front of each packet in M2TS, in bytes.
    private static let lead = 4

    /// The first place where packets start, in bytes of any stream, and the distance from each to the next. Three sync
    /// bytes tell, at the end of the stream two. Nil where there are none, or too few bytes to be sure.
    static func find(in bytes: [UInt8], isEnd: Bool) -> (offset: Int, distance: Int)? {
        for followers in isEnd ? [wantedFollowers, 1] : [wantedFollowers] {
            // Before the end, only places where no distance lacks bytes: the first one counts, whichever that has.
            let longest = (distances.max() ?? TransportPacket.size) + lead
            let needed = followers * (isEnd ? TransportPacket.size : longest) + 1
            guard bytes.count >= needed else { continue }
            for offset in 0...bytes.count - needed where bytes[offset] == TransportPacket.syncByte {
                for distance in distances
                where areInRow(bytes, at: offset, distance, followers: followers, isEnd: false) {
                    return (start(in: bytes, near: offset, distance, followers: followers, isEnd: false), distance)
                }
            }
        }
        return nil
    }

    /// In M2TS, a byte of the time stamps may be as a sync byte, hundreds of packets long: of several places it is the last.
    private static func start(
        in bytes: [UInt8], near offset: Int, _ distance: Int, followers: Int, isEnd: Bool
    ) -> Int {
        guard distance == TransportPacket.size + lead else { return offset }
        let places = (offset...offset + lead).filter { !isEnd || $0 + TransportPacket.size <= bytes.count }
        return places.last { areInRow(bytes, at: $0, distance, followers: followers, isEnd: isEnd) } ?? offset
    }

    /// Whether there is a sync byte at `offset`, and so many follow; at the end, as far as there are bytes.
    private static func areInRow(
        _ bytes: [UInt8], at offset: Int, _ distance: Int, followers: Int, isEnd: Bool
    ) -> Bool {
        (0...followers).allSatisfy {
            let place = offset + $0 * distance
            return place < bytes.count ? bytes[place] == TransportPacket.syncByte : isEnd
        }
    }
}
