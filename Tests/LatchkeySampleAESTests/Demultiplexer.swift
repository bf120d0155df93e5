// SPDX-License-Identifier: MPL-2.0

/// A transport stream taken apart, with what a strict receiver would object to. Written apart from what is tested.
struct Demultiplexer {
    /// PID → the PES packets' payloads.
    private(set) var units: [Int: [[UInt8]]] = [:]
    private(set) var complaints: [String] = []
    /// PIDs in the order of the packets, null packets included.
    private(set) var pids: [Int] = []
    /// PCRs as they stand, with their packet's number.
    private(set) var clocks: [String] = []
    /// Stream type and descriptors, from the program map.
    private(set) var streams: [(type: UInt8, pid: Int, descriptors: [UInt8])] = []
    private var headers: [Int: [UInt8]] = [:]

    init(_ bytes: [UInt8]) {
        var open: [Int: [UInt8]] = [:]
        var counters: [Int: Int] = [:]
        if bytes.count % 188 != 0 { complaints.append("\(bytes.count) bytes") }
        for start in stride(from: 0, through: bytes.count - 188, by: 188) {
            let packet = Array(bytes[start..<start + 188])
            let number = start / 188
            if packet[0] != 0x47 { complaints.append("no sync byte at packet \(number)") }
            let pid = Int(packet[1] & 0x1F) << 8 | Int(packet[2])
            pids.append(pid)
            guard pid != 0x1FFF else { continue }
            var offset = 4
            if packet[3] & 0x20 != 0 {
                let length = Int(packet[4])
                offset += 1 + length
                if length > 183 || length == 183 && packet[3] & 0x10 != 0 {
                    complaints.append("adaptation field of \(length) bytes at packet \(number)")
                    continue
                }
                if length > 0, packet[5] & 0x10 != 0 { clocks.append("\(number): \(packet[6..<12])") }
                let used =
                    1 + (length > 0 && packet[5] & 0x10 != 0 ? 6 : 0) + (length > 0 && packet[5] & 0x08 != 0 ? 6 : 0)
                if length > used, packet[5] & 0x07 == 0, !packet[(5 + used)..<offset].allSatisfy({ $0 == 0xFF }) {
                    complaints.append("stuffing at packet \(number)")
                }
            }
            guard packet[3] & 0x10 != 0 else { continue }
            let counter = Int(packet[3] & 15)
            if let last = counters[pid], (last + 1) & 15 != counter {
                complaints.append("continuity of PID \(pid) at packet \(number)")
            }
            counters[pid] = counter
            let payload = Array(packet[offset...])
            if pid == 0 || pid == 0x20 || pid == 0x100 {
                if pid != 0, packet[1] & 0x40 != 0 { readMap(payload) }
                continue
            }
            if packet[1] & 0x40 != 0 {
                if let unit = open[pid] { finish(unit, pid) }
                open[pid] = payload
            } else {
                open[pid]?.append(contentsOf: payload)
            }
        }
        for (pid, unit) in open { finish(unit, pid) }
    }

    func elementaryStream(_ pid: Int) -> [UInt8] { (units[pid] ?? []).flatMap(\.self) }

    private mutating func finish(_ unit: [UInt8], _ pid: Int) {
        guard unit.count >= 9, unit.starts(with: [0, 0, 1]) else { return complaints.append("no PES packet on \(pid)") }
        let length = Int(unit[4]) << 8 | Int(unit[5])
        if length != 0, length + 6 != unit.count { complaints.append("PES_packet_length \(length) of \(unit.count)") }
        units[pid, default: []].append(Array(unit.dropFirst(9 + Int(unit[8]))))
    }

    private mutating func readMap(_ payload: [UInt8]) {
        let section = Array(payload.dropFirst(1 + Int(payload[0])))
        let length = Int(section[1] & 15) << 8 | Int(section[2])
        guard section.count >= 3 + length else { return complaints.append("program map is cut") }
        if !section.dropFirst(3 + length).allSatisfy({ $0 == 0xFF }) {
            complaints.append("bytes behind the program map")
        }
        var crc: UInt32 = .max
        for byte in section[..<(3 + length)] {
            for bit in (0..<8).reversed() {
                let top = crc >> 31 ^ UInt32(byte >> UInt8(bit) & 1)
                crc = crc << 1 ^ (top != 0 ? 0x04C1_1DB7 : 0)
            }
        }
        if crc != 0 { complaints.append("CRC of the program map") }
        streams.removeAll()
        var offset = 12 + (Int(section[10] & 15) << 8 | Int(section[11]))
        while offset + 5 <= 3 + length - 4 {
            let size = Int(section[offset + 3] & 15) << 8 | Int(section[offset + 4])
            streams.append(
                (
                    section[offset], Int(section[offset + 1] & 0x1F) << 8 | Int(section[offset + 2]),
                    Array(section[(offset + 5)..<(offset + 5 + size)])
                ))
            offset += 5 + size
        }
    }
}
