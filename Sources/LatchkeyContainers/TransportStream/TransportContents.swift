// SPDX-License-Identifier: MPL-2.0

/// Whether a clear transport stream holds pictures, sound or both, by its program maps.
///
/// What was found once stays: rules for sound hold to the end, though a programme without sound comes between. Before the
/// first program map, and from where one cannot be read or names a stream type that may be either, it counts as both:
/// other readers may see more. Memory is bounded by one section for each of 64 programmes; time linear in the bytes. Not
/// thread-safe.
struct TransportContents {
    /// Elementary streams of a programme, by ISO/IEC 13818-1, table 2-34, and ATSC A/53, part 3.
    private static func contents(ofStreamType type: UInt8) -> UnitContents {
        switch type {
        case 0x01, 0x02, 0x10, 0x1B, 0x1E...0x21, 0x24, 0x25, 0x27...0x2B, 0x31...0x33, 0x42, 0xD1, 0xDB, 0xEA:
            .pictures
        case 0x03, 0x04, 0x0F, 0x11, 0x1C, 0x2D, 0x2E, 0x81...0x85, 0x87, 0x8A, 0xC1, 0xC2, 0xCF: .sound
        // Sections, metadata and announcements of splices.
        case 0x05, 0x0A...0x0D, 0x14...0x17, 0x86: []
        // Private data (0x06) has descriptors for its kind, and 0x80 is video or PCM.
        default: [.pictures, .sound]
        }
    }

    private static let programLimit = 64

    private struct Section {
        var bytes: [UInt8] = []
        var isOpen = false
    }

    private var found: UnitContents = []
    private var hasProgram = false
    private var sections = [ProgramAssociation.pid: Section()]
    /// Of a packet that is not complete.
    private var rest: [UInt8] = []

    var contents: UnitContents { hasProgram ? found : [.pictures, .sound] }

    /// The next bytes start a packet.
    mutating func align() {
        if !rest.isEmpty || sections.values.contains(where: \.isOpen) { doubt() }
        rest.removeAll(keepingCapacity: true)
        for pid in sections.keys { sections[pid] = Section() }
    }

    private mutating func doubt() { (found, hasProgram) = ([.pictures, .sound], true) }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        var bytes = bytes
        if !rest.isEmpty {
            let missing = min(TransportPacket.size - rest.count, bytes.count)
            rest.append(contentsOf: bytes.prefix(missing))
            bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(missing))
            guard rest.count == TransportPacket.size else { return }
            var packet: [UInt8] = []
            swap(&packet, &rest)
            packet.withUnsafeBytes { take($0) }
        }
        while bytes.count >= TransportPacket.size {
            take(UnsafeRawBufferPointer(rebasing: bytes.prefix(TransportPacket.size)))
            bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(TransportPacket.size))
        }
        rest.append(contentsOf: bytes)
    }

    private mutating func take(_ bytes: UnsafeRawBufferPointer) {
        guard bytes[0] == TransportPacket.syncByte, let address = bytes.baseAddress else { return doubt() }
        // SAFETY: a whole packet, which is only read.
        let packet = TransportPacket(UnsafeMutableRawPointer(mutating: address))
        let pid = packet.pid
        guard var section = sections[pid], packet.payloadSize > 0 else { return }
        if packet.startsUnit {
            // Its end may stand in front of the next one.
            if section.isOpen { doubt() }
            section = Section(isOpen: true)
        }
        guard section.isOpen else { return }
        section.bytes.append(
            contentsOf: UnsafeRawBufferPointer(rebasing: bytes[packet.payloadOffset..<TransportPacket.size]))
        if let ranges = SampleAESTransportStream.sections(in: section.bytes) {
            section.isOpen = false
            for range in ranges { read(Array(section.bytes[range]), of: pid) }
            section.bytes = []
        } else if section.bytes.count > SectionReader.maximumLength + 2 * TransportPacket.size {
            doubt()
            section = Section()
        }
        sections[pid] = section
    }

    private mutating func read(_ section: [UInt8], of pid: Int) {
        do throws(FormatError) {
            if pid == ProgramAssociation.pid {
                let maps = try ProgramAssociation(section: section)?.programMapPIDs ?? []
                for map in maps where sections[map] == nil {
                    guard sections.count <= Self.programLimit else { return doubt() }
                    sections[map] = Section()
                }
            } else if let table = try ProgramMap(section: section) {
                hasProgram = true
                for stream in table.streams { found.formUnion(Self.contents(ofStreamType: stream.type)) }
            }
        } catch {
            doubt()
        }
    }
}
