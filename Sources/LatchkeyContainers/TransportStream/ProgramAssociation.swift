// SPDX-License-Identifier: MPL-2.0

/// A program association section (ISO/IEC 13818-1, 2.4.4.3): which PIDs carry program maps.
struct ProgramAssociation: Equatable {
    static let pid = 0
    static let tableID: UInt8 = 0x00

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
