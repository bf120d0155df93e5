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
    static let maximumUnitSize = 8 << 20
    /// So many packets are held back for a PES packet that does not end; then it counts as complete.
    static let maximumHeldPackets = (16 << 20) / TransportPacket.size

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

    private var synchroniser = PacketSynchroniser()
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
    /// A note names a key, but a programme has clear streams alone of those kinds that could be encrypted.
    var contradictsNote = false
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
        var synchroniser = PacketSynchroniser()
        swap(&synchroniser, &self.synchroniser)
        defer { swap(&synchroniser, &self.synchroniser) }
        try synchroniser.append(bytes) { packets, count throws(FormatError) in try take(packets, count) }
        closeOverdueUnits()
    }

    /// Completes what is open, as at the end of the stream or where data is missing.
    mutating func end() throws(FormatError) {
        var synchroniser = PacketSynchroniser()
        swap(&synchroniser, &self.synchroniser)
        defer { self.synchroniser.reset() }
        try synchroniser.end { packets, count throws(FormatError) in try take(packets, count) }
        closeUnits()
    }

    /// Forgets what is held; the programmes and the key stay known.
    mutating func flush() {
        synchroniser.reset()
        store.removeAll()
        pending.removeAll(keepingCapacity: true)
        nextPending = 0
        isPlanned = false
        for index in streams.indices { streams[index].reset() }
    }

    /// A programme's streams are known.
    mutating func check(_ table: ProgramMap) {
        hasProgram = true
        let clearTypes = SampleAESCodec.allCases.map(\.clearStreamType)
        guard isNotedClear == false, table.streams.allSatisfy({ $0.codec == nil }) else { return }
        if table.streams.contains(where: { clearTypes.contains($0.type) }) { contradictsNote = true }
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
    var heldSize: Int { store.count * TransportPacket.size + synchroniser.heldSize }

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
        if !isSamples { return readSections(index) }
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

    mutating func addStream(pid: Int, _ content: ElementaryStream.Content) {
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

    mutating func removeStream(pid: Int, unless content: ElementaryStream.Content) {
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
        if case .samples(let codec) = streams[index].content {
            let unit = ElementaryStream.Unit(codec: codec, first: streams[index].first, size: streams[index].size)
            pending.append(.unit(unit))
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
