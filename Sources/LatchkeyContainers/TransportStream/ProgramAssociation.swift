// SPDX-License-Identifier: MPL-2.0

/// A program association section (ISO/IEC 13818-1, 2.4.4.3): which PIDs carry program maps.
struct ProgramAssociation: Equatable {
    static let pid = 0
    private static let tableID: UInt8 = 0x00

    /// Without the network information PID.
    var programMapPIDs: [Int] = []

    /// Reads a whole section, CRC included. Nil where the section is not in force yet.
    init?(section: [UInt8]) throws(FormatError) {
        var reader = try SectionReader(section, tableID: Self.tableID, name: "program association section")
        guard reader.isCurrent else { return nil }
        while reader.body.remaining >= 4 {
            let program = try reader.body.readUInt16()
            let pid = Int(try reader.body.readUInt16() & 0x1FFF)
            if program != 0 { programMapPIDs.append(pid) }
        }
    }
}

/// The frame that the sections of PAT and PMT share: header, body, CRC.
///
/// ```
/// UInt8 table_id, 1 0 11 section_length(12), UInt16 id, 11 version(5) current(1), UInt8 number, UInt8 last,
/// body, UInt32 CRC
/// ```
struct SectionReader {
    static let headerSize = 8
    static let crcSize = 4
    /// The most bytes behind section_length in these tables (2.4.4.4).
    static let maximumLength = 1021

    var body: ByteReader
    let isCurrent: Bool

    /// `section` is one whole section and nothing else.
    init(_ section: [UInt8], tableID: UInt8, name: String) throws(FormatError) {
        var reader = ByteReader(section, structure: name)
        guard try reader.readUInt8() == tableID else { throw .malformed("\(name): another table") }
        let length = Int(try reader.readUInt16() & 0x0FFF)
        guard length == reader.remaining, length <= Self.maximumLength else { throw .malformed("\(name): length") }
        guard length >= Self.headerSize - 3 + Self.crcSize else { throw .truncated("\(name): \(length) bytes") }
        guard CRC32.checksum(section) == 0 else { throw .malformed("\(name): CRC") }
        try reader.skip(2)
        isCurrent = try reader.readUInt8() & 1 == 1
        try reader.skip(2)
        body = try reader.readStructure(reader.remaining - Self.crcSize, name)
    }
}

/// A program map section (ISO/IEC 13818-1, 2.4.4.8): the elementary streams of a programme.
///
/// ```
/// section header, 111 PCR_PID(13), 1111 program_info_length(12), descriptors,
/// for each stream: UInt8 stream_type, 111 PID(13), 1111 ES_info_length(12), descriptors
/// UInt32 CRC
/// ```
struct ProgramMap {
    private static let tableID: UInt8 = 0x02

    struct Stream: Equatable {
        var type: UInt8
        var pid: Int
        /// What the samples are, where they are encrypted.
        var codec: SampleAESCodec?

        /// Pictures or sound of a kind that SAMPLE-AES is not defined for (ISO/IEC 13818-1, table 2-34; 0x42 is AVS, 0xD1 Dirac,
        /// 0xEA VC-1). Nil for other kinds, and for types that stand for several: those for private data tell nothing.
        var foreignContents: UnitContents? {
            switch type {
            case 0x01, 0x02, 0x10, 0x1E...0x26, 0x28...0x2B, 0x31...0x36, 0x42, 0xD1, 0xEA: .pictures
            case 0x03, 0x04, 0x11, 0x1C, 0x2D, 0x2E: .sound
            default: nil
            }
        }
    }

    var streams: [Stream] = []
    /// The section with the stream types and descriptors of clear media, and its CRC. Nil where nothing changes.
    private(set) var clearSection: [UInt8]?
    /// A descriptor, or a type that is used for nothing else, says that a stream is encrypted. Types of sound are used for
    /// data too: 0xC2 is that of ATSC A/90.
    private(set) var isCertainlyProtected = false

    /// Reads a whole section, CRC included. Nil where the section is not in force yet.
    init?(section: [UInt8]) throws(FormatError) {
        var reader = try SectionReader(section, tableID: Self.tableID, name: "program map section")
        guard reader.isCurrent else { return nil }
        var clear = Array(section.prefix(SectionReader.headerSize))
        clear += try reader.body.readBytes(2)
        let programInfo = try Descriptors(&reader.body)
        clear += programInfo.serialized
        var isProtected = false
        while !reader.body.isAtEnd {
            let type = try reader.body.readUInt8()
            let pid = try reader.body.readBytes(2)
            var descriptors = try Descriptors(&reader.body)
            let codec = SampleAESCodec(streamType: type)
            streams.append(
                Stream(type: type, pid: pid.reduce(0) { $0 << 8 | Int($1) } & 0x1FFF, codec: codec))
            if codec != nil {
                isProtected = true
                let isDescribed = descriptors.removeSampleAES()
                if isDescribed || codec == .h264 || codec == .aac { isCertainlyProtected = true }
            }
            clear += [codec?.clearStreamType ?? type] + pid + descriptors.serialized
        }
        guard isProtected else { return }
        let length = clear.count - 3 + SectionReader.crcSize
        clear[1] = clear[1] & 0xF0 | UInt8(truncatingIfNeeded: length >> 8)
        clear[2] = UInt8(truncatingIfNeeded: length)
        clearSection = clear + CRC32.checksum(clear).bigEndianBytes
    }
}

/// A list of descriptors with its length in front (ISO/IEC 13818-1, 2.6).
struct Descriptors {
    private static let registration: UInt8 = 0x05
    private static let privateDataIndicator: UInt8 = 0x0F
    private static let sampleAESIndicators = ["zavc", "aacd", "ac3d", "ec3d"].map { Array($0.utf8) }
    private static let audioSetup = Array("apad".utf8)

    private var items: [(tag: UInt8, content: ArraySlice<UInt8>)] = []
    /// Bytes behind the last whole descriptor, which some producers leave.
    private var rest: ArraySlice<UInt8>

    init(_ reader: inout ByteReader) throws(FormatError) {
        let length = Int(try reader.readUInt16() & 0x0FFF)
        var list = try reader.readStructure(length, "descriptors")
        while list.remaining >= 2 {
            var ahead = list
            let tag = try ahead.readUInt8()
            let size = Int(try ahead.readUInt8())
            guard size <= ahead.remaining else { break }
            items.append((tag, try ahead.readBytes(size)))
            list = ahead
        }
        rest = list.rest
    }

    /// Takes out what says that the samples are encrypted ("HLS Sample Encryption", transport stream signalling). Whether
    /// anything does.
    mutating func removeSampleAES() -> Bool {
        let count = items.count
        items.removeAll { tag, content in
            switch tag {
            case Self.privateDataIndicator: Self.sampleAESIndicators.contains { content.starts(with: $0) }
            case Self.registration: content.starts(with: Self.audioSetup)
            default: false
            }
        }
        return items.count < count
    }

    var serialized: [UInt8] {
        let content = items.flatMap { [$0.tag, UInt8(truncatingIfNeeded: $0.content.count)] + $0.content } + rest
        return [0xF0 | UInt8(truncatingIfNeeded: content.count >> 8), UInt8(truncatingIfNeeded: content.count)]
            + content
    }
}

/// The CRC-32 of MPEG sections (ISO/IEC 13818-1, annex A): polynomial 0x04C11DB7, most significant bit first, started
/// with ones, not inverted at the end.
enum CRC32 {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { value, _ in
            value & 0x8000_0000 != 0 ? value << 1 ^ 0x04C1_1DB7 : value << 1
        }
    }

    /// Zero where the last four bytes are the right CRC of those before.
    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.reduce(UInt32.max) { $0 << 8 ^ table[Int(UInt8(truncatingIfNeeded: $0 >> 24) ^ $1)] }
    }
}

extension UInt32 {
    var bigEndianBytes: [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: self >> UInt32(24 - $0 * 8)) } }
}
