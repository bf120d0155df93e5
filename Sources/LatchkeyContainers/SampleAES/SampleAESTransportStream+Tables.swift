// SPDX-License-Identifier: MPL-2.0

// Program association and program maps.
extension SampleAESTransportStream {
    /// Tables that need more packets are passed on unread: with SAMPLE-AES a program map has to fit in one.
    private static let maximumTablePackets = 8

    /// Reads the sections of the packets that are put together, once they are complete.
    mutating func readSections(_ index: Int) {
        let first = streams[index].first
        let size = streams[index].size
        collect(first: first, size: size)
        var bytes = unitBuffer.withBytes(from: 0, to: size) { Array($0) }
        guard let sections = Self.sections(in: bytes) else {
            if size > Self.maximumTablePackets * TransportPacket.size { close(index) }
            return
        }
        let pid = streams[index].pid
        close(index)
        var isChanged = false
        // From the last, so that a shorter section does not move those that are still to come.
        for range in sections.reversed() {
            let section = Array(bytes[range])
            // A table that cannot be read is not for anybody: receivers check the same.
            if pid == ProgramAssociation.pid {
                if let table = try? ProgramAssociation(section: section) { adopt(table) }
            } else if let table = try? ProgramMap(section: section) {
                adopt(table)
                guard let clear = table.clearSection, clear.count <= section.count else { continue }
                bytes.replaceSubrange(range, with: clear)
                isChanged = true
            }
        }
        guard isChanged else { return }
        bytes += [UInt8](repeating: 0xFF, count: max(0, size - bytes.count))
        var offset = 0
        bytes.withUnsafeBytes { bytes in
            forEachPacket(from: first) { _, payload in
                // SAFETY: `count` is at most what is left of either.
                let count = min(payload.count, bytes.count - offset)
                payload.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]))
                offset += count
            }
        }
    }

    /// Where the sections lie behind the pointer field. Nil where the last one is not complete.
    static func sections(in bytes: [UInt8]) -> [Range<Int>]? {
        guard let pointer = bytes.first else { return nil }
        var sections: [Range<Int>] = []
        var offset = 1 + Int(pointer)
        while offset < bytes.count, bytes[offset] != 0xFF {
            guard offset + 3 <= bytes.count else { return nil }
            let end = offset + 3 + (Int(bytes[offset + 1] & 0x0F) << 8 | Int(bytes[offset + 2]))
            guard end <= bytes.count else { return nil }
            sections.append(offset..<end)
            offset = end
        }
        return offset > bytes.count ? nil : sections
    }

    private mutating func adopt(_ table: ProgramAssociation) {
        for pid in programMapPIDs where !table.programMapPIDs.contains(pid) {
            removeStream(pid: pid, unless: .samples(.h264))
        }
        programMapPIDs = table.programMapPIDs.filter { $0 != ProgramAssociation.pid }
        for pid in programMapPIDs { addStream(pid: pid, .sections) }
    }

    private mutating func adopt(_ table: ProgramMap) {
        check(table)
        for stream in table.streams where stream.pid != ProgramAssociation.pid && !programMapPIDs.contains(stream.pid) {
            if let codec = stream.codec {
                addStream(pid: stream.pid, .samples(codec))
            } else {
                removeStream(pid: stream.pid, unless: .sections)
            }
        }
    }
}
