// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// A transport stream with SAMPLE-AES on its way to a clear one: bytes in, units to decrypt, packets out.
///
/// Every packet keeps its place, its continuity counter and its PCR. Packets are held back from the first of a PES
/// packet on until that is complete; then its decrypted payload goes back into the same packets. Where the taking out of
/// emulation prevention bytes made it shorter, stuffing in the adaptation fields of its last packets makes up for it.
/// What cannot be decrypted because packets are missing becomes null packets: no encrypted sample gets out.
///
/// No allocation a packet, and time linear in the bytes. Not thread-safe.
struct SampleAESTransportStream: ~Copyable {
    /// A PES packet may have so many bytes. The largest access unit of H.264 level 6.2 has less than 4 MiB in practice.
    private static let maximumUnitSize = 8 << 20
    /// So many packets are held back for a PES packet that does not end; then it counts as complete.
    private static let maximumHeldPackets = (16 << 20) / TransportPacket.size

    private enum Pending {
        case key(SegmentKey)
        case unit(ElementaryStream.Unit)
    }

    private enum Role {
        static let plain: UInt16 = 0
        static let note: UInt16 = 1
        /// And the index of the stream.
        static let firstStream: UInt16 = 2
    }

    private var synchronizer = PacketSynchronizer()
    var store = PacketStore()
    private var roles = [UInt16](repeating: Role.plain, count: 8192)
    var streams: [ElementaryStream] = []
    var programMapPIDs: [Int] = []
    private var pending: [Pending] = []
    private var nextPending = 0
    /// A program map was read.
    private(set) var hasProgram = false
    /// What the last note says; nil before the first.
    private var isNotedClear: Bool?
    /// A note names a key, but a programme has clear streams alone of those kinds that could be encrypted. They are taken for
    /// encrypted: packagers leave the stream types as they were.
    private(set) var contradictsNote = false
    var planner = SampleAESPlanner()
    var unitBuffer = UnitBuffer()
    /// The first of `pending` is a unit that lies, planned, in `unitBuffer` from `unitStart` to `unitEnd`.
    var isPlanned = false
    var unitStart = 0
    var unitEnd = 0

    init() {
        roles[SegmentKey.pid] = Role.note
        addStream(pid: ProgramAssociation.pid, .sections)
    }

    // MARK: In

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(FormatError) {
        // Tables are read in the buffer where a unit that waits lies: that is put together again.
        if !bytes.isEmpty { isPlanned = false }
        // Taken out of `self` for the time, which `take` changes.
        var synchronizer = PacketSynchronizer()
        swap(&synchronizer, &self.synchronizer)
        defer { swap(&synchronizer, &self.synchronizer) }
        try synchronizer.append(bytes) { packets, count throws(FormatError) in try take(packets, count) }
        closeOverdueUnits()
    }

    /// Completes what is open, as at the end of the stream or where data is missing.
    mutating func end() throws(FormatError) {
        var synchronizer = PacketSynchronizer()
        swap(&synchronizer, &self.synchronizer)
        defer { self.synchronizer.reset() }
        try synchronizer.end { packets, count throws(FormatError) in try take(packets, count) }
        closeUnits()
    }

    /// Forgets what is held; the programmes and the key stay known.
    mutating func flush() {
        synchronizer.reset()
        store.removeAll()
        pending.removeAll(keepingCapacity: true)
        nextPending = 0
        isPlanned = false
        for index in streams.indices { streams[index].reset() }
    }

    /// A programme's streams are known. Throws `unsupported` under a key's note if one may be encrypted and cannot be decrypted:
    /// pictures of another kind than H.264, and sound of another kind unless the programme says which streams are encrypted.
    mutating func check(_ table: ProgramMap) throws(FormatError) {
        hasProgram = true
        guard isNotedClear == false else { return }
        let saysWhich = table.streams.contains { $0.codec != nil }
        for stream in table.streams {
            guard let contents = stream.foreignContents, contents == .pictures || !saysWhich else { continue }
            throw .unsupported(
                "PID \(stream.pid) with the stream type 0x\(Hex.encode([stream.type])) under SAMPLE-AES, which is defined "
                    + "for H.264, AAC, AC-3 and E-AC-3 alone")
        }
        guard !saysWhich else { return }
        if table.streams.contains(where: { SampleAESCodec(clearStreamType: $0.type) != nil }) { contradictsNote = true }
    }

    // MARK: Steps

    mutating func next() -> SampleAESStep {
        while nextPending < pending.count {
            switch pending[nextPending] {
            case .key(let key):
                nextPending += 1
                return .key(key)
            case .unit(let unit):
                if !isPlanned { plan(unit) }
                if isPlanned { return .unit }
                nextPending += 1
            }
        }
        pending.removeAll(keepingCapacity: true)
        nextPending = 0
        return .nothing
    }

    /// What that unit is.
    var unitContents: UnitContents {
        guard nextPending < pending.count, case .unit(let unit) = pending[nextPending] else { return .pictures }
        return unit.codec == .h264 ? .pictures : .sound
    }

    /// The program map calls that unit clear.
    var isUnitCalledClear: Bool {
        guard nextPending < pending.count, case .unit(let unit) = pending[nextPending] else { return false }
        return unit.isCalledClear
    }

    /// A note has that unit for encrypted, against the program map, and it is not.
    var isUnitNotedWrongly: Bool { contradictsNote && unitContents == .pictures && planner.areClearPictures }

    /// Lends the unit that `next` announced, with the plan for it, and puts it back into its packets.
    mutating func withUnit<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard isPlanned, nextPending < pending.count, case .unit(let unit) = pending[nextPending] else { return }
        try unitBuffer.withBytes(from: unitStart, to: unitEnd) { bytes throws(Failure) in
            try body(planner.plan, bytes)
        }
        write(unit)
        isPlanned = false
        nextPending += 1
    }

    // MARK: Out

    /// Bytes that are ready to go on.
    var outputSize: Int { max(0, firstHeld - store.first) * TransportPacket.size }

    /// Everything that was appended and not taken yet.
    var heldSize: Int { store.count * TransportPacket.size + synchronizer.heldSize }

    /// Moves what is ready, as much as `target` holds in whole packets.
    mutating func takeOutput(into target: UnsafeMutableRawBufferPointer) {
        let held = min(firstHeld, store.first + target.count / TransportPacket.size)
        store.withPackets(before: held) { target.copyMemory(from: $0) }
        store.remove(before: held)
    }

    /// The same without moving, in whole packets of at most `size` bytes. Nil where nothing is ready.
    mutating func shareOutput(upTo size: Int) -> SharedBytes? {
        store.lend(before: min(firstHeld, store.first + size / TransportPacket.size))
    }

    private var firstHeld: Int {
        var held = store.end
        for stream in streams where stream.isOpen { held = min(held, stream.first) }
        for item in pending[nextPending...] {
            if case .unit(let unit) = item { held = min(held, unit.first) }
        }
        return held
    }

    // MARK: Packets

    @inline(__always)
    private mutating func take(_ bytes: UnsafeRawPointer, _ count: Int) throws(FormatError) {
        let first = store.append(bytes, count: count)
        for number in first..<first + count { try takePacket(number) }
    }

    @inline(__always)
    private mutating func takePacket(_ number: Int) throws(FormatError) {
        let packet = store.packet(number)
        let role = roles[packet.pid]
        guard role != Role.plain else { return }
        if role == Role.note {
            takeNote(packet)
        } else {
            let index = Int(role - Role.firstStream)
            let last = streams[index].last
            if streams[index].goOn(packet, number) {
                store.setLink(of: last, to: number)
                store.setLink(of: number, to: -1)
            } else {
                try takePacket(packet, number, of: index)
            }
        }
    }

    private mutating func takeNote(_ packet: TransportPacket) {
        guard let key = SegmentKey(packet) else { return }
        closeUnits()
        isNotedClear = key.keyID == nil
        contradictsNote = false
        pending.append(.key(key))
        packet.makeNull()
        for index in streams.indices { streams[index].lastCounter = -1 }
    }

    private mutating func takePacket(_ packet: TransportPacket, _ number: Int, of index: Int) throws(FormatError) {
        let isSamples = streams[index].isSamples
        if isSamples, isNotedClear == true || packet.isScrambled {
            close(index)
            streams[index].lastCounter = -1
            return
        }
        if packet.isDamaged {
            close(index)
            packet.makeNull()
            return
        }
        let size = packet.payloadSize
        guard size > 0 else { return }
        let counter = Int(packet.continuityCounter)
        let last = streams[index].lastCounter
        if last >= 0, counter != (last + 1) & 0x0F, !packet.isDiscontinuous {
            if counter == last, isRepeated(packet, of: streams[index]) { return packet.makeNull() }
            // Packets are missing: what is left of the unit cannot be decrypted.
            close(index)
        }
        streams[index].lastCounter = counter
        if packet.startsUnit {
            close(index)
            streams[index].first = number
            streams[index].size = size
            let expected = isSamples ? expectedSize(packet, size, streams[index].content) : 0
            streams[index].expectedSize = expected
            streams[index].wantedSize = expected > 0 ? expected : Self.maximumUnitSize
        } else if streams[index].isOpen {
            store.setLink(of: streams[index].last, to: number)
            streams[index].size += size
        } else {
            if isSamples { packet.makeNull() }
            return
        }
        streams[index].last = number
        store.setLink(of: number, to: -1)
        if !isSamples { return try readSections(index) }
        if streams[index].size > Self.maximumUnitSize {
            throw .tooLarge("PES packet of PID \(streams[index].pid): more than \(Self.maximumUnitSize) bytes")
        }
        if streams[index].size == streams[index].expectedSize { close(index) }
    }

    /// A packet may be sent twice (ISO/IEC 13818-1, 2.4.3.3).
    private func isRepeated(_ packet: TransportPacket, of stream: ElementaryStream) -> Bool {
        guard stream.isOpen else { return false }
        let other = store.packet(stream.last)
        guard other.payloadSize == packet.payloadSize, other.startsUnit == packet.startsUnit else { return false }
        // SAFETY: both payloads are inside their packets.
        return UnsafeBufferPointer(start: other.bytes + other.payloadOffset, count: other.payloadSize).elementsEqual(
            UnsafeBufferPointer(start: packet.bytes + packet.payloadOffset, count: packet.payloadSize))
    }

    /// Audio tells the size of a PES packet; of video it is too often wrong to rely on.
    private func expectedSize(_ packet: TransportPacket, _ size: Int, _ content: ElementaryStream.Content) -> Int {
        guard content != .samples(.h264) else { return 0 }
        let payload = UnsafeRawBufferPointer(start: packet.bytes + packet.payloadOffset, count: size)
        return PESHeader(payload)?.packetSize ?? 0
    }

    private mutating func addStream(pid: Int, _ content: ElementaryStream.Content) {
        guard roles.indices.contains(pid), pid != TransportPacket.nullPID, pid != SegmentKey.pid else { return }
        if roles[pid] >= Role.firstStream {
            let index = Int(roles[pid] - Role.firstStream)
            // Tables stay tables, whatever a table says.
            guard streams[index].content != content, streams[index].content != .sections else { return }
            close(index)
            streams[index].content = content
        } else {
            roles[pid] = Role.firstStream + UInt16(truncatingIfNeeded: streams.count)
            streams.append(ElementaryStream(pid: pid, content: content))
        }
    }

    private mutating func removeStream(pid: Int, unless content: ElementaryStream.Content) {
        guard roles.indices.contains(pid), roles[pid] >= Role.firstStream else { return }
        let index = Int(roles[pid] - Role.firstStream)
        guard streams[index].content != content else { return }
        close(index)
        // The last stream takes the place of the one that goes.
        roles[pid] = Role.plain
        let last = streams.removeLast()
        guard index < streams.count else { return }
        streams[index] = last
        roles[last.pid] = Role.firstStream + UInt16(truncatingIfNeeded: index)
    }

    // MARK: Units

    /// Completes the unit that is being put together.
    mutating func close(_ index: Int) {
        guard streams[index].isOpen else { return }
        let (first, size) = (streams[index].first, streams[index].size)
        switch streams[index].content {
        case .samples(let codec):
            pending.append(.unit(ElementaryStream.Unit(codec: codec, first: first, size: size)))
        case .calledClear(let codec):
            pending.append(.unit(ElementaryStream.Unit(codec: codec, first: first, size: size, isCalledClear: true)))
        case .sections: break
        }
        streams[index].first = -1
    }

    private mutating func closeUnits() {
        for index in streams.indices { close(index) }
    }

    private mutating func closeOverdueUnits() {
        guard store.count > Self.maximumHeldPackets else { return }
        for index in streams.indices where store.end - streams[index].first > Self.maximumHeldPackets { close(index) }
    }
}

// Program association and program maps.
extension SampleAESTransportStream {
    /// Tables that need more packets are passed on unread: with SAMPLE-AES a program map has to fit in one.
    private static let maximumTablePackets = 8

    /// Reads the sections of the packets that are put together, once they are complete.
    private mutating func readSections(_ index: Int) throws(FormatError) {
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
            // A table that cannot be read is ignored: receivers make the same check.
            if pid == ProgramAssociation.pid {
                if let table = try? ProgramAssociation(section: section) { adopt(table) }
            } else if let table = try? ProgramMap(section: section) {
                try adopt(table)
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

    private mutating func adopt(_ table: ProgramMap) throws(FormatError) {
        try check(table)
        for stream in table.streams where stream.pid != ProgramAssociation.pid && !programMapPIDs.contains(stream.pid) {
            if let content = content(of: stream) {
                addStream(pid: stream.pid, content)
            } else {
                removeStream(pid: stream.pid, unless: .sections)
            }
        }
    }

    /// Nil for what is passed on unread. Under a key's note, a stream with the type of clear media is encrypted if all have such
    /// types, or if it has the pictures, since sound is not encrypted alone. Sound beside encrypted pictures may be clear; its
    /// frames tell.
    private func content(of stream: ProgramMap.Stream) -> ElementaryStream.Content? {
        if let codec = stream.codec { return .samples(codec) }
        guard isNotedClear == false, let codec = SampleAESCodec(clearStreamType: stream.type) else { return nil }
        return contradictsNote || codec == .h264 ? .samples(codec) : .calledClear(codec)
    }
}

// Units between their packets and the buffer where they lie in one piece.
extension SampleAESTransportStream {
    /// Puts the unit into the buffer and finds out what is encrypted. `isPlanned` says whether anything is.
    mutating func plan(_ unit: ElementaryStream.Unit) {
        collect(first: unit.first, size: unit.size)
        let header = unitBuffer.withBytes(from: 0, to: unit.size) { PESHeader(UnsafeRawBufferPointer($0)) }
        guard let header else {
            // No PES packet, so it cannot be decrypted.
            forEachPacket(from: unit.first) { packet, _ in packet.makeNull() }
            return
        }
        unitStart = min(header.payloadOffset, unit.size)
        unitEnd = unitBuffer.withBytes(from: unitStart, to: unit.size) { bytes in
            if unit.codec == .h264 { return planner.planVideo(bytes) }
            planner.planAudio(UnsafeRawBufferPointer(bytes))
            return bytes.count
        }
        unitEnd += unitStart
        isPlanned = planner.isProtected
        // All its NAL units were too short, but had emulation prevention bytes to take out.
        if !isPlanned, unitEnd < unit.size { write(unit) }
    }

    /// Puts the unit back into its packets.
    mutating func write(_ unit: ElementaryStream.Unit) {
        var size = unitEnd
        if size < unit.size {
            var packets = 0
            forEachPacket(from: unit.first) { _, _ in packets += 1 }
            // Each packet keeps a byte of payload, so that the continuity counters stay right. Zeros may follow a NAL
            // unit.
            if size < packets {
                unitBuffer.clear(from: size, to: packets)
                size = packets
            }
            unitBuffer.withBytes(from: 0, to: size) { PESHeader.setPacketSize(size, in: $0) }
            spread(size, over: packets, from: unit.first)
        }
        unitBuffer.withBytes(from: 0, to: size) { bytes in
            var offset = 0
            forEachPacket(from: unit.first) { packet, payload in
                let count = min(payload.count, bytes.count - offset)
                payload.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]))
                offset += count
            }
        }
    }

    /// Makes room for `size` bytes, no more, in the packets of a unit: the last ones shrink.
    private func spread(_ size: Int, over packets: Int, from first: Int) {
        var (left, behind) = (size, packets)
        forEachPacket(from: first) { packet, payload in
            behind -= 1
            let kept = min(payload.count, left - behind)
            packet.shrinkPayload(to: kept)
            left -= kept
        }
    }

    /// Copies the payloads of linked packets into the buffer.
    func collect(first: Int, size: Int) {
        unitBuffer.reserve(size)
        unitBuffer.withBytes(from: 0, to: size) { bytes in
            var offset = 0
            forEachPacket(from: first) { _, payload in
                let count = min(payload.count, bytes.count - offset)
                UnsafeMutableRawBufferPointer(rebasing: bytes[offset..<offset + count]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: payload[..<count]))
                offset += count
            }
        }
    }

    @inline(__always)
    private func forEachPacket(from first: Int, _ body: (TransportPacket, UnsafeMutableRawBufferPointer) -> Void) {
        var number = first
        while number >= 0 {
            let packet = store.packet(number)
            // SAFETY: the payload is inside the packet; links lead to packets that are held.
            let payload = UnsafeMutableRawBufferPointer(
                start: packet.bytes + packet.payloadOffset, count: packet.payloadSize)
            number = store.link(of: number)
            body(packet, payload)
        }
    }
}

/// Memory for one unit at a time, which grows and stays.
final class UnitBuffer {
    // SAFETY: `memory` has `capacity` bytes; the offsets below are cut to that.
    private var memory = UnsafeMutableRawPointer.allocate(byteCount: 1 << 16, alignment: 64)
    private var capacity = 1 << 16

    deinit { memory.deallocate() }

    /// Room for `size` bytes; what was there is lost.
    func reserve(_ size: Int) {
        guard size > capacity else { return }
        memory.deallocate()
        capacity = max(size, capacity * 2)
        memory = .allocate(byteCount: capacity, alignment: 64)
    }

    @inline(__always)
    func withBytes<Result, Failure: Error>(
        from start: Int, to end: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let end = min(max(end, 0), capacity)
        let start = min(max(start, 0), end)
        return try body(UnsafeMutableRawBufferPointer(start: memory + start, count: end - start))
    }

    func clear(from start: Int, to end: Int) {
        withBytes(from: start, to: end) { bytes in
            for offset in bytes.indices { bytes[offset] = 0 }
        }
    }
}

/// One PID whose packets are put together: a protected elementary stream, or sections.
struct ElementaryStream {
    enum Content: Equatable {
        case samples(SampleAESCodec)
        /// Sound that is clear as the program map has it, though the pictures beside it are encrypted.
        case calledClear(SampleAESCodec)
        case sections
    }

    /// Packets whose payloads belong together, linked in the store.
    struct Unit {
        var codec: SampleAESCodec
        /// The number of the first packet.
        var first: Int
        /// Of all payloads, in bytes.
        var size: Int
        var isCalledClear = false
    }

    let pid: Int
    var content: Content {
        didSet { isSamples = content != .sections }
    }
    private(set) var isSamples: Bool
    /// The first packet of the unit that is being put together, or -1.
    var first = -1
    var last = -1
    /// In bytes, up to now.
    var size = 0
    /// In bytes; zero where only the next unit's start tells the end.
    var expectedSize = 0
    /// From this size on, there is something to do.
    var wantedSize = 0
    /// -1: any is right.
    var lastCounter = -1

    init(pid: Int, content: Content) {
        self.pid = pid
        self.content = content
        isSamples = content != .sections
    }

    var isOpen: Bool { first >= 0 }

    /// Takes a packet in the middle of a PES packet, as most are. False: it needs a closer look.
    @inline(__always)
    mutating func goOn(_ packet: TransportPacket, _ number: Int) -> Bool {
        let counter = Int(packet.continuityCounter)
        let size = packet.payloadSize
        guard packet.isPlain, isOpen, isSamples, counter == (lastCounter + 1) & 0x0F, size > 0,
            self.size + size < wantedSize
        else { return false }
        last = number
        self.size += size
        lastCounter = counter
        return true
    }

    mutating func reset() {
        first = -1
        lastCounter = -1
    }
}
