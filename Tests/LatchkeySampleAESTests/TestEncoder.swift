// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyTestSupport

/// Encrypts elementary streams as "HLS Sample Encryption" says, step by step, and puts them into transport streams.
/// Written apart from what is tested.
struct TestEncoder {
    var key: [UInt8]
    var vector: [UInt8]

    // MARK: Samples

    /// A NAL unit with its own emulation prevention, without start code.
    func encrypted(nalUnit unit: [UInt8]) -> [UInt8] {
        guard [1, 5].contains(unit[0] & 31), unit.count > 48 else { return unit }
        var output = Array(unit[..<32])
        var rest = Array(unit[32...])
        var chain = vector
        while !rest.isEmpty {
            if rest.count > 16 {
                chain = encrypt(block: Array(rest[..<16]), behind: chain)
                output += chain
                rest.removeFirst(16)
            }
            let clear = min(144, rest.count)
            output += rest[..<clear]
            rest.removeFirst(clear)
        }
        return Self.escaped(output)
    }

    /// A frame whose first `clear` bytes stay as they are.
    func encrypted(frame: [UInt8], clear: Int) -> [UInt8] {
        var output = Array(frame.prefix(clear))
        var rest = Array(frame.dropFirst(clear))
        var chain = vector
        while rest.count >= 16 {
            chain = encrypt(block: Array(rest[..<16]), behind: chain)
            output += chain
            rest.removeFirst(16)
        }
        return output + rest
    }

    static func escaped(_ bytes: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        var zeros = 0
        for byte in bytes {
            if zeros == 2, byte <= 3 {
                output.append(3)
                zeros = 0
            }
            output.append(byte)
            zeros = byte == 0 ? zeros + 1 : 0
        }
        return output
    }

    private func encrypt(block: [UInt8], behind chain: [UInt8]) -> [UInt8] {
        let input = zip(block, chain).map { $0 ^ $1 }
        var output = [UInt8](repeating: 0, count: 32)
        var size: Int32 = 0
        let context = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(context) }
        // SAFETY: 16 bytes in, at most 32 out.
        EVP_EncryptInit_ex2(context, EVP_aes_128_ecb(), key, nil, nil)
        EVP_EncryptUpdate(context, &output, &size, input, 16)
        return Array(output[..<16])
    }

    // MARK: Random content

    /// A NAL unit as an encoder makes it: escaped, with a last byte that is not zero. Few values, so that zeros meet.
    static func nalUnit(_ random: inout SeededGenerator) -> [UInt8] {
        let size =
            [
                Int.random(in: 2...60, using: &random), Int.random(in: 47...50, using: &random),
                // Around the places where the last block is clear or encrypted.
                32 + 160 * Int.random(in: 0...3, using: &random) + Int.random(in: 14...18, using: &random),
                Int.random(in: 61...1500, using: &random),
            ].randomElement(using: &random) ?? 60
        let type: UInt8 = [1, 1, 5, 5, 6, 7, 9].randomElement(using: &random) ?? 1
        let isDense = Bool.random(using: &random)
        var content = (1..<size).map { _ in
            isDense ? UInt8.random(in: 0...3, using: &random) : UInt8.random(in: 0...255, using: &random)
        }
        if content.last == 0 { content[content.count - 1] = 0x80 }
        var unit = escaped([0x60 | type] + content)
        // An escape at the very end would be cut off by what follows.
        if unit.last == 3 { unit.append(0x80) }
        return unit
    }

    static func adtsFrame(_ random: inout SeededGenerator) -> [UInt8] {
        let hasCRC = Bool.random(using: &random)
        let header = hasCRC ? 9 : 7
        let size = header + Int.random(in: 0...700, using: &random)
        var frame = random.bytes(size)
        frame[0] = 0xFF
        frame[1] = hasCRC ? 0xF0 : 0xF1
        frame[2] = 0x4C
        frame[3] = 0x40 | UInt8(size >> 11)
        frame[4] = UInt8(size >> 3 & 0xFF)
        frame[5] = UInt8(size & 7) << 5 | 0x1F
        frame[6] = 0xFC
        return frame
    }
}

/// Puts PES packets into the packets of a transport stream, as awkwardly as is allowed.
struct TestMultiplexer {
    private(set) var bytes: [UInt8] = []
    private var counters: [Int: UInt8] = [:]
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    /// `streams`: stream type, PID and descriptors.
    mutating func tables(_ streams: [(type: UInt8, pid: Int, descriptors: [UInt8])]) {
        section(pid: 0, [0, 0xB0, 13, 0, 1, 0xC1, 0, 0, 0, 1, 0xE1, 0x00])
        var body: [UInt8] = [0, 1, 0xC1, 0, 0, 0xE1, 0x01, 0xF0, 0]
        for stream in streams {
            body += [stream.type, 0xE0 | UInt8(stream.pid >> 8), UInt8(stream.pid & 255)]
            body += [0xF0 | UInt8(stream.descriptors.count >> 8), UInt8(stream.descriptors.count & 255)]
            body += stream.descriptors
        }
        section(pid: 0x100, [2, 0xB0 | UInt8((body.count + 4) >> 8), UInt8((body.count + 4) & 255)] + body)
    }

    /// `isBounded`: PES_packet_length tells the size.
    mutating func unit(pid: Int, streamID: UInt8, isBounded: Bool, _ payload: [UInt8]) -> [[UInt8]] {
        let stuffing = Int.random(in: 0...3, using: &random)
        let length = isBounded ? payload.count + 8 + stuffing : 0
        var rest = [0, 0, 1, streamID, UInt8(length >> 8 & 255), UInt8(length & 255), 0x80, 0x80, UInt8(5 + stuffing)]
        rest += [0x21, 0, 1, 0, 1] + [UInt8](repeating: 0xFF, count: stuffing) + payload
        var packets: [[UInt8]] = []
        while !rest.isEmpty {
            var field: [UInt8]?
            if Int.random(in: 0..<6, using: &random) == 0 {
                field = [0x10, 1, 2, 3, 4, 5, 6]  // a PCR
            } else if Int.random(in: 0..<20, using: &random) == 0 {
                field = []  // a field of no bytes
            }
            var room = 184 - (field.map { $0.count + 1 } ?? 0)
            if Int.random(in: 0..<12, using: &random) == 0 { room = Int.random(in: 1...room, using: &random) }
            let size = min(room, rest.count)
            let surplus = 184 - size - (field.map { $0.count + 1 } ?? 0)
            if surplus > 0 {
                if field == nil {
                    field = surplus == 1 ? [] : [0] + [UInt8](repeating: 0xFF, count: surplus - 2)
                } else if field == [] {
                    field = [0] + [UInt8](repeating: 0xFF, count: surplus - 1)
                } else {
                    field? += [UInt8](repeating: 0xFF, count: surplus)
                }
            }
            packets.append(
                packet(pid: pid, isStart: packets.isEmpty, field: field, payload: Array(rest[..<size])))
            rest.removeFirst(size)
        }
        return packets
    }

    /// Packets of several streams, mixed; each stream's own order stays.
    mutating func append(mixing streams: [[[UInt8]]]) {
        var streams = streams.filter { !$0.isEmpty }
        while !streams.isEmpty {
            let index = Int.random(in: 0..<streams.count, using: &random)
            bytes += streams[index].removeFirst()
            if streams[index].isEmpty { streams.remove(at: index) }
            if Int.random(in: 0..<10, using: &random) == 0 {
                bytes += [0x47, 0x1F, 0xFF, 0x10] + [UInt8](repeating: 0xFF, count: 184)
            }
        }
    }

    mutating func append(_ other: [UInt8]) { bytes += other }

    private mutating func section(pid: Int, _ content: [UInt8]) {
        var crc: UInt32 = .max
        for byte in content {
            for bit in (0..<8).reversed() {
                crc = crc << 1 ^ ((crc >> 31 ^ UInt32(byte >> UInt8(bit) & 1)) != 0 ? 0x04C1_1DB7 : 0)
            }
        }
        let section = [0] + content + (0..<4).map { UInt8(crc >> UInt32(24 - $0 * 8) & 255) }
        let padding = [UInt8](repeating: 0xFF, count: 184 - section.count)
        bytes += packet(pid: pid, isStart: true, field: nil, payload: section + padding)
    }

    private mutating func packet(pid: Int, isStart: Bool, field: [UInt8]?, payload: [UInt8]) -> [UInt8] {
        let counter = counters[pid] ?? UInt8.random(in: 0..<16, using: &random)
        counters[pid] = (counter + 1) & 15
        let start: UInt8 = isStart ? 0x40 : 0
        var packet: [UInt8] = [0x47, start | UInt8(pid >> 8), UInt8(pid & 255), (field == nil ? 0x10 : 0x30) | counter]
        if let field { packet += [UInt8(field.count)] + field }
        return packet + payload
    }
}
