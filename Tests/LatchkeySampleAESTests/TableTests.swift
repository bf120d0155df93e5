// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// Sections, headers and frames, one by one.
@Suite struct TableTests {
    private func section(_ body: [UInt8]) -> [UInt8] {
        let length = body.count + 3
        let content = [body[0], 0xB0 | UInt8(length >> 8), UInt8(length & 255)] + body.dropFirst()
        return content + CRC32.checksum(content).bigEndianBytes
    }

    /// ISO/IEC 13818-1 gives no test vector; this is the CRC-32/MPEG-2 of the catalogue of parametrised CRCs.
    @Test func checksum() {
        #expect(CRC32.checksum("123456789".utf8) == 0x0376_E6E7)
    }

    @Test func aProgramMapBecomesClear() throws {
        let zavc: [UInt8] = [0x0F, 4] + Array("zavc".utf8)
        let setup: [UInt8] = [5, 17] + Array("apadzaac".utf8) + [0, 0, 1, 5, 0x11, 0x90, 0x56, 0xE5, 0]
        let language: [UInt8] = [0x0A, 4] + Array("eng".utf8) + [0]
        let other: [UInt8] = [5, 4] + Array("EAC3".utf8)
        func map(_ streams: [(UInt8, UInt8, [UInt8])]) -> [UInt8] {
            section(
                [2, 0, 1, 0xC3, 0, 0, 0xE1, 0x01, 0xF0, 6] + [5, 4] + Array("HDMV".utf8)
                    + streams.flatMap { [$0.0, 0xE1, $0.1, 0xF0, UInt8($0.2.count)] + $0.2 })
        }
        let aacd: [UInt8] = [0x0F, 4] + Array("aacd".utf8)
        let table = try #require(
            try ProgramMap(
                section: map([
                    (0xDB, 1, zavc), (0xCF, 2, aacd + setup + language), (0xC1, 3, [0x0F, 4] + Array("ac3d".utf8)),
                    (0xC2, 4, other + [0x0F, 4] + Array("ec3d".utf8)), (0x15, 5, setup), (0x1B, 6, []),
                ])))
        // Of streams that are clear, nothing is taken.
        let expected = map([
            (0x1B, 1, []), (0x0F, 2, language), (0x81, 3, []), (0x87, 4, other), (0x15, 5, setup), (0x1B, 6, []),
        ])
        #expect(table.clearSection == expected)
        #expect(table.streams.map(\.codec) == [.h264, .aac, .ac3, .eac3, nil, nil])
        #expect(table.streams.map(\.pid) == [0x101, 0x102, 0x103, 0x104, 0x105, 0x106])
        // What is clear already stays as it is.
        #expect(try ProgramMap(section: expected)?.clearSection == nil)
        // Types of sound that other standards use too need a descriptor.
        let ec3d: [UInt8] = [0x0F, 4] + Array("ec3d".utf8)
        let certain: [(type: UInt8, descriptors: [UInt8], isProtected: Bool)] = [
            (0xDB, [], true), (0xCF, [], true), (0xC2, ec3d, true), (0xC1, setup, true), (0xC2, [], false),
            (0xC1, language, false), (0x1B, zavc, false),
        ]
        for stream in certain {
            let section = map([(stream.type, 1, stream.descriptors)])
            #expect(try ProgramMap(section: section)?.isCertainlyProtected == stream.isProtected, "\(stream)")
            let packet = [0x47, 0x41, 0, 0x10, 0] + section
            let bytes = packet + [UInt8](repeating: 0xFF, count: TransportPacket.size - packet.count)
            #expect(bytes.withUnsafeBytes { SampleAESStream.isAnnounced(in: $0) } == stream.isProtected, "\(stream)")
        }
    }

    /// Stream types under a key's note, and the one that is refused. Pictures are encrypted then; sound beside streams that the
    /// table calls encrypted may be clear. Types that others use for data, subtitles or markers tell nothing.
    @Test(
        arguments: [
            ([0x24], 0x24), ([0x24, 0xCF], 0x24), ([0x0F, 0x02], 0x02), ([0xDB, 0x33], 0x33), ([0x10, 0x1B], 0x10),
            ([0x03], 0x03), ([0x1B, 0x04], 0x04), ([0x81, 0x11], 0x11), ([0xEA], 0xEA), ([0xDB, 0x03], nil),
            ([0xDB, 0xCF, 0x11], nil), ([0x1B, 0x0F, 0x15], nil), ([0x06, 0x15, 0x27, 0x2C], nil),
            ([0xDB, 0x05, 0x06, 0x0D, 0x15, 0x82, 0x86, 0x90], nil),
        ] as [([UInt8], UInt8?)])
    func kindsThatCannotBeDecrypted(types: [UInt8], refused: UInt8?) throws {
        let key = SegmentKey(keyID: KeyID(high: 1, low: 2))
        let clear = SegmentKey(keyID: nil)
        func read(_ notes: [SegmentKey]) throws {
            var multiplexer = TestMultiplexer(seed: 1)
            for note in notes {
                multiplexer.append(note.transportStreamPackets())
                multiplexer.tables(types.enumerated().map { (type: $1, pid: 0x50 + $0, descriptors: [UInt8]()) })
            }
            let stream = SampleAESStream()
            try multiplexer.bytes.withUnsafeBytes { try stream.append($0) }
            try stream.end()
        }
        #expect(throws: Never.self) { try read([clear]) }
        guard let refused, let index = types.firstIndex(of: refused) else { return try read([clear, key, key]) }
        for notes in [[key], [clear, key]] {
            let error = #expect(throws: FormatError.self) { try read(notes) }
            #expect(error?.isSameKind(as: .unsupported("")) == true)
            #expect(error?.reason.contains("PID \(0x50 + index) ") == true)
            #expect(error?.reason.contains(" 0x\(Hex.encode([refused])) ") == true)
        }
        // Without notes, it is no playlist that says so.
        var multiplexer = TestMultiplexer(seed: 1)
        multiplexer.tables(types.enumerated().map { (type: $1, pid: 0x50 + $0, descriptors: [UInt8]()) })
        for _ in 0..<4 { multiplexer.append([0x47, 0x1F, 0xFF, 0x10] + [UInt8](repeating: 0xFF, count: 184)) }
        let stream = SampleAESStream()
        try multiplexer.bytes.withUnsafeBytes { try stream.append($0) }
        try stream.end()
    }

    @Test func brokenSectionsThrow() throws {
        let whole = section([2, 0, 1, 0xC3, 0, 0, 0xE1, 0x01, 0xF0, 0, 0xDB, 0xE1, 0, 0xF0, 0])
        #expect(try ProgramMap(section: whole)?.streams.count == 1)
        for bit in 0..<whole.count * 8 {
            var changed = whole
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: FormatError.self) { _ = try ProgramMap(section: changed) }
        }
        for size in 0..<whole.count {
            #expect(throws: FormatError.self) { _ = try ProgramMap(section: Array(whole[..<size])) }
        }
        // Valid CRC, impossible lengths.
        for length in [UInt8(2), 4, 200] {
            let body: [UInt8] = [2, 0, 1, 0xC3, 0, 0, 0xE1, 0x01, 0xF0, length, 0xDB]
            #expect(throws: FormatError.self) { _ = try ProgramMap(section: section(body)) }
        }
        // Not in force yet.
        #expect(try ProgramMap(section: section([2, 0, 1, 0xC2, 0, 0, 0xE1, 0x01, 0xF0, 0])) == nil)
    }

    @Test(arguments: 0..<2000)
    func changedSectionsNeverTrap(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let body = random.mutate([
            2, 0, 1, 0xC3, 0, 0, 0xE1, 0x01, 0xF0, 0, 0xDB, 0xE1, 0, 0xF0, 6, 0x0F, 4, 1, 2, 3, 4,
        ])
        guard !body.isEmpty else { return }
        _ = try? ProgramMap(section: section(body))
        _ = try? ProgramAssociation(section: section(body))
        let payload = random.mutate([0] + section(body) + section(body) + [0xFF, 0xFF])
        for range in SampleAESTransportStream.sections(in: payload) ?? [] { #expect(range.upperBound <= payload.count) }
    }

    // MARK: Frames

    private func read(_ bytes: [UInt8]) -> AudioFrame.Reading { bytes.withUnsafeBytes { AudioFrame.read($0, at: 0) } }

    static let frames: [([UInt8], Int, Int, SampleAESCodec)] = [
        // 7 and 9 bytes of header, the largest frame.
        ([0xFF, 0xF1, 0x4C, 0x40, 0x1E, 0x7F, 0xFC], 243, 23, .aac),
        ([0xFF, 0xF0, 0x4C, 0x40, 0x1E, 0x7F, 0xFC], 243, 25, .aac),
        ([0xFF, 0xF9, 0x4C, 0x43, 0xFF, 0xFF, 0xFC], 8191, 23, .aac),
        // AC-3 at 48, 44.1 and 32 kHz; 192 kbit/s has 768, 834 or 836, and 1152 bytes.
        ([0x0B, 0x77, 0, 0, 0x14, 0x40, 0], 768, 16, .ac3), ([0x0B, 0x77, 0, 0, 0x54, 0x40, 0], 834, 16, .ac3),
        ([0x0B, 0x77, 0, 0, 0x55, 0x40, 0], 836, 16, .ac3), ([0x0B, 0x77, 0, 0, 0x94, 0x40, 0], 1152, 16, .ac3),
        ([0x0B, 0x77, 0, 0, 0x25, 0x40, 0], 2560, 16, .ac3),
        // E-AC-3, the largest.
        ([0x0B, 0x77, 0x07, 0xFF, 0x3F, 0x80, 0], 4096, 16, .eac3),
        ([0x0B, 0x77, 0x00, 0xBF, 0x3F, 0x80, 0], 384, 16, .eac3),
    ]

    @Test(arguments: frames)
    func frameHeaders(header: [UInt8], size: Int, clear: Int, codec: SampleAESCodec) {
        #expect(read(header) == .frame(AudioFrame(size: size, clearSize: clear, codec: codec)))
        for length in 0..<header.count { #expect(read(Array(header[..<length])) == .incomplete) }
    }

    static let others: [[UInt8]] = [
        [0xFF, 0xF1, 0x4C, 0x40, 0x00, 0x1F, 0xFC],  // ADTS of no bytes
        [0xFF, 0xF0, 0x4C, 0x40, 0x01, 0x1F, 0xFC],  // ADTS of 8 bytes with a header of 9
        [0xFF, 0xFB, 0x90, 0x40, 0x00, 0x00, 0x00],  // MPEG audio
        [0x0B, 0x77, 0, 0, 0xD4, 0x40, 0],  // AC-3 at a reserved rate
        [0x0B, 0x77, 0, 0, 0x26, 0x40, 0],  // AC-3 of a size that there is not
        [0x0B, 0x77, 0x07, 0xFF, 0x3F, 0xF8, 0],  // bsid 31
        [0x0B, 0x77, 0x00, 0x00, 0x3F, 0x80, 0],  // E-AC-3 of 2 bytes
        [0, 0, 0, 0, 0, 0, 0],
    ]

    @Test(arguments: others)
    func whatIsNoFrame(bytes: [UInt8]) { #expect(read(bytes) == .noFrame) }

    // MARK: NAL units

    /// The plan for one NAL unit of that many bytes: where encrypted blocks are.
    private func blocks(ofUnit size: Int, type: UInt8) -> [Int] {
        var bytes: [UInt8] = [0, 0, 1, 0x60 | type] + [UInt8](repeating: 0xAA, count: size - 1)
        var planner = SampleAESPlanner()
        let left = bytes.withUnsafeMutableBytes { planner.planVideo($0) }
        #expect(left == bytes.count)
        var blocks: [Int] = []
        var offset = 0
        for subsample in planner.plan.subsamples {
            offset += Int(subsample.clear)
            for start in stride(from: 0, to: Int(subsample.protected) / 16 * 16, by: 160) {
                blocks.append(offset + start - 3)
            }
            offset += Int(subsample.protected)
        }
        #expect(planner.plan.subsamples.isEmpty || offset == bytes.count)
        return blocks
    }

    @Test func whichBlocksAreEncrypted() {
        for type in UInt8(0)...31 {
            #expect(blocks(ofUnit: 48, type: type) == [])
            #expect(blocks(ofUnit: 49, type: type) == (type == 1 || type == 5 ? [32] : []))
        }
        // The block that fills up the unit exactly stays clear.
        #expect(blocks(ofUnit: 32 + 160 + 15, type: 1) == [32])
        #expect(blocks(ofUnit: 32 + 160 + 16, type: 1) == [32])
        #expect(blocks(ofUnit: 32 + 160 + 17, type: 1) == [32, 192])
        #expect(blocks(ofUnit: 32 + 320 + 16, type: 5) == [32, 192])
        #expect(blocks(ofUnit: 32 + 320 + 17, type: 5) == [32, 192, 352])
    }

    static let streams: [([UInt8], [UInt8])] = [
        // Nothing of a short unit, of another type, or in front of the first start code is taken out.
        ([0, 0, 1, 0x65] + [0, 0, 3, 1], [0, 0, 1, 0x65] + [0, 0, 3, 1]),
        ([0, 0, 3, 0, 0, 3], [0, 0, 3, 0, 0, 3]), ([], []), ([0, 0, 1], [0, 0, 1]),
        ([0, 0, 1, 0x65], [0, 0, 1, 0x65]),
        (
            [0, 0, 1, 0x67] + [UInt8](repeating: 9, count: 60) + [0, 0, 3, 1],
            [0, 0, 1, 0x67] + [UInt8](repeating: 9, count: 60) + [0, 0, 3, 1]
        ),
        // One of each pair goes; zeros behind the unit and the next start code stay.
        (
            [0, 0, 0, 1, 0x65] + [UInt8](repeating: 9, count: 60) + [
                0, 0, 3, 3, 0, 0, 3, 0, 7, 0, 0, 0, 0, 1, 0x41, 1,
            ],
            [0, 0, 0, 1, 0x65] + [UInt8](repeating: 9, count: 60) + [0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0x41, 1]
        ),
        // 49 bytes with it, 48 without: it was encrypted.
        (
            [0, 0, 1, 0x61] + [UInt8](repeating: 9, count: 44) + [0, 0, 3, 1],
            [0, 0, 1, 0x61] + [UInt8](repeating: 9, count: 44) + [0, 0, 1]
        ),
        (
            [0, 0, 1, 0x61] + [UInt8](repeating: 9, count: 43) + [0, 0, 3, 1],
            [0, 0, 1, 0x61] + [UInt8](repeating: 9, count: 43) + [0, 0, 3, 1]
        ),
    ]

    @Test(arguments: streams)
    func emulationPreventionIsTakenOutOnce(from: [UInt8], to: [UInt8]) {
        var bytes = from
        var planner = SampleAESPlanner()
        let size = bytes.withUnsafeMutableBytes { planner.planVideo($0) }
        #expect(Array(bytes[..<size]) == to)
    }

    /// Places of a NAL unit where two zeros, an emulation prevention byte and `next` stand.
    @Test(
        arguments: [
            (61, [1], true), (61, [2], true), (61, [3], false), (33, [1], false), (46, [1], false), (47, [1], false),
            (48, [0], true), (189, [1], true), (190, [1], false), (20, [0], true), (60, [], false),
        ] as [(Int, [UInt8], Bool)])
    func clearPicturesAreNotEscapedTwice(place: Int, next: [UInt8], areClear: Bool) {
        let front = [0x65] + [UInt8](repeating: 9, count: place - 1)
        let back = next.isEmpty ? [] : [UInt8](repeating: 9, count: 200)
        var bytes = [0, 0, 1] + front + [0, 0, 3] + next + back
        var planner = SampleAESPlanner()
        _ = bytes.withUnsafeMutableBytes { planner.planVideo($0) }
        #expect(planner.areClearPictures == areClear)
    }

    /// Zeros that are escaped once: those behind the slice (ITU-T H.264, 7.4.2.10), or behind the unit.
    @Test(arguments: [[0, 0, 3, 0, 0, 3], [0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0]] as [[UInt8]])
    func zerosAtTheEndTellNothing(end: [UInt8]) {
        for (back, areClear) in [([], false), ([9], true)] as [([UInt8], Bool)] {
            var bytes = [0, 0, 1, 0x65] + [UInt8](repeating: 9, count: 60) + end + back
            var planner = SampleAESPlanner()
            _ = bytes.withUnsafeMutableBytes { planner.planVideo($0) }
            #expect(planner.areClearPictures == areClear)
        }
    }

    /// The scanner looks at 32 bytes at a time: patterns at every place, of every length of input.
    @Test func startCodesAreFoundEverywhere() {
        for size in 0...100 {
            for place in 0...max(0, size - 3) where size >= 3 {
                var bytes = [UInt8](repeating: 0xFF, count: size)
                bytes.replaceSubrange(place..<place + 3, with: [0, 0, 1])
                let found = bytes.withUnsafeBytes { bytes in
                    bytes.baseAddress.flatMap { StartCode.find($0, from: 0, to: size, escapes: nil) }
                }
                #expect(found == place)
            }
        }
    }

    // MARK: Packets

    @Test func payloadsShrinkByStuffing() throws {
        for field in [nil, [], [0], [0x10, 1, 2, 3, 4, 5, 6], [0x10, 1, 2, 3, 4, 5, 6, 0xFF, 0xFF]] as [[UInt8]?] {
            let header: [UInt8] =
                [0x47, 0x01, 0x00, field == nil ? 0x17 : 0x37] + (field.map { [UInt8($0.count)] + $0 } ?? [])
            let payload = 188 - header.count
            for size in 1...payload {
                var bytes = header + [UInt8](repeating: 0x55, count: payload)
                bytes.withUnsafeMutableBytes { bytes in
                    guard let address = bytes.baseAddress else { return }
                    let packet = TransportPacket(address)
                    packet.shrinkPayload(to: size)
                    #expect(packet.payloadSize == size)
                    #expect(packet.continuityCounter == 7)
                }
                #expect(bytes.count == 188)
                // The field is what it was, then stuffing.
                if let field, field.count > 1 { #expect(Array(bytes[5..<5 + field.count]) == field) }
                let start = 188 - size
                let used = field.map { max($0.count, 1) } ?? 1
                if start > 5 + used { #expect(bytes[(5 + used)..<start].allSatisfy { $0 == 0xFF }) }
            }
        }
    }

    @Test func packetsAreFoundAgain() throws {
        func packet(_ number: UInt8) -> [UInt8] { [0x47, 0, number, 0x10] + [UInt8](repeating: number, count: 184) }
        let numbers = (1...30).map(UInt8.init)
        var bytes = Array(packet(99)[50...])
        for number in numbers {
            if number == 12 { bytes += [1, 2, 3, 0x47, 5] }
            if number == 20 { bytes += [UInt8](repeating: 0x47, count: 300) }
            bytes += packet(number)
        }
        bytes += packet(98)[..<100]
        for size in [1, 5, 188, 191, 400, bytes.count] {
            var synchronizer = PacketSynchronizer()
            var found: [UInt8] = []
            func take(_ packets: UnsafeRawPointer, _ count: Int) {
                for number in 0..<count { found.append(packets.load(fromByteOffset: number * 188 + 2, as: UInt8.self)) }
            }
            for start in stride(from: 0, to: bytes.count, by: size) {
                try Array(bytes[start..<min(bytes.count, start + size)]).withUnsafeBytes {
                    try synchronizer.append($0) { take($0, $1) }
                }
            }
            try synchronizer.end { take($0, $1) }
            // A run of sync bytes is taken for packets, the start of the next one with it.
            #expect(found.filter { $0 != 0x47 } == numbers.filter { $0 != 20 }, "pieces of \(size)")
        }
    }

    @Test(arguments: 0..<1000)
    func changedTagsNeverTrap(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let frames = [
            ID3Tag.Frame.privateFrame(owner: ID3Tag.audioDescription, data: random.bytes(9)),
            ID3Tag.Frame.privateFrame(owner: "com.apple.streaming.transportStreamTimestamp", data: random.bytes(8)),
        ]
        let bytes = random.mutate(ID3Tag(frames: frames).bytes)
        if let tag = try? ID3Tag(bytes) { #expect(tag.bytes.count <= bytes.count) }
    }
}
