// SPDX-License-Identifier: MPL-2.0

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
    func forEachPacket(from first: Int, _ body: (TransportPacket, UnsafeMutableRawBufferPointer) -> Void) {
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
