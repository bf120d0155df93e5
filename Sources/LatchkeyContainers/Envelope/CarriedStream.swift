// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Segments that come as `CarriedSegment`, on their way to what is inside: a transport stream or packed audio.
///
/// Counter mode decrypts any number of whole blocks, so nothing is held back but a part of one, and, of a transport
/// stream, a part of a packet. Time linear in the bytes. Not thread-safe.
struct CarriedStream: ~Copyable {
    private static let blockSize = 16
    /// So many clear bytes are looked at before they count as none of the formats.
    private static let searchLimit = 64 << 10
    private static let notRecognized = FormatError.unsupported(
        "what is in the envelope is neither a transport stream nor packed audio; the key may be a wrong one")

    private struct Segment {
        let key: SegmentKey
        var isAnnounced = false
        /// Not decrypted yet.
        var bytes: [UInt8] = []
        /// Blocks that were.
        var blocks: UInt64 = 0
        /// How much of an ID3 tag is still to be left out.
        var tagSize = 0
        var isEnded = false

        /// How much can be decrypted now.
        var readySize: Int { isEnded ? bytes.count : bytes.count - bytes.count % CarriedStream.blockSize }
    }

    private var synchronizer = PacketSynchronizer()
    private var segments: [Segment] = []
    private var output: [UInt8] = []
    /// Behind here a segment has ended, so that the bytes in front are complete.
    private var completeSize = 0
    private(set) var kind: SampleAESStream.Output?
    private var transportContents = TransportContents()

    // MARK: In

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(FormatError) {
        // Taken out of `self` for the time, which `take` changes.
        var synchronizer = PacketSynchronizer()
        swap(&synchronizer, &self.synchronizer)
        defer { swap(&synchronizer, &self.synchronizer) }
        try synchronizer.append(bytes) { packets, count throws(FormatError) in try take(packets, count) }
    }

    mutating func end() throws(FormatError) {
        var synchronizer = PacketSynchronizer()
        swap(&synchronizer, &self.synchronizer)
        defer { self.synchronizer.reset() }
        try synchronizer.end { packets, count throws(FormatError) in try take(packets, count) }
        if let last = segments.indices.last { segments[last].isEnded = true }
        completeSize = output.count
        if kind == nil, !output.isEmpty { try recognize(isEnd: true) }
    }

    mutating func flush() {
        synchronizer.reset()
        segments.removeAll()
        output.removeAll(keepingCapacity: true)
        completeSize = 0
    }

    private mutating func take(_ packets: UnsafeRawPointer, _ count: Int) throws(FormatError) {
        for index in 0..<count {
            // SAFETY: `count` whole packets, which are only read.
            let packet = TransportPacket(UnsafeMutableRawPointer(mutating: packets + index * TransportPacket.size))
            switch packet.pid {
            case SegmentKey.pid:
                guard let key = SegmentKey(packet), key.isCarried else { continue }
                guard key.keyID == nil || key.initializationVector != nil else {
                    throw .malformed("a carried segment without a counter")
                }
                if let last = segments.indices.last { segments[last].isEnded = true }
                segments.append(Segment(key: key))
            case CarriedSegment.payloadPID:
                // In front of the first note, after a seek, bytes say nothing.
                guard let last = segments.indices.last, !segments[last].isEnded else { continue }
                // SAFETY: the payload is inside the packet.
                segments[last].bytes.append(
                    contentsOf: UnsafeRawBufferPointer(
                        start: packet.bytes + packet.payloadOffset, count: packet.payloadSize))
                if packet.hasPriority { segments[last].isEnded = true }
            default: continue
            }
        }
    }

    // MARK: Steps

    mutating func next() -> SampleAESStep {
        while let first = segments.first {
            if !first.isAnnounced {
                segments[0].isAnnounced = true
                return .key(first.key)
            }
            let size = first.readySize
            if size > 0 {
                if first.key.keyID != nil { return .unit }
                finish(size)
                continue
            }
            guard first.isEnded else { break }
            completeSize = output.count
            segments.removeFirst()
        }
        return .nothing
    }

    mutating func withUnit<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard let first = segments.first, first.readySize > 0, let vector = first.key.initializationVector else {
            return
        }
        let size = first.readySize
        // The counter is the last eight bytes, and wraps round within them.
        let counter = InitializationVector(high: vector.high, low: vector.low &+ first.blocks)
        var bytes: [UInt8] = []
        swap(&bytes, &segments[0].bytes)
        defer { swap(&bytes, &segments[0].bytes) }
        try bytes.withUnsafeMutableBufferPointer { bytes throws(Failure) in
            try body(
                SamplePlan(scheme: .cenc, initializationVector: counter),
                UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(bytes)[..<size]))
        }
        put(bytes[..<size])
        bytes.removeFirst(size)
        segments[0].blocks &+= UInt64((size + Self.blockSize - 1) / Self.blockSize)
    }

    private mutating func finish(_ size: Int) {
        put(segments[0].bytes[..<size])
        segments[0].bytes.removeFirst(size)
        segments[0].blocks &+= UInt64((size + Self.blockSize - 1) / Self.blockSize)
    }

    /// Takes clear bytes of the first segment.
    ///
    /// Behind the stock demuxer, tags of packed audio are taken off in front of the whole stream alone. One between
    /// frames would cost the decoder its state, so those of later segments stay here.
    private mutating func put(_ bytes: ArraySlice<UInt8>) {
        let isStart = segments[0].blocks == 0
        if kind == .id3, isStart { segments[0].tagSize = Self.tagSize(bytes) }
        if kind == nil || kind == .transportStream {
            if isStart { transportContents.align() }
            bytes.withUnsafeBytes { transportContents.append($0) }
        }
        let left = min(segments[0].tagSize, bytes.count)
        segments[0].tagSize -= left
        output += bytes.dropFirst(left)
        if kind == nil { kind = SampleAESStream.output(of: output, isEnd: false) }
    }

    /// In bytes, of the ID3v2 tag that the bytes start with (ID3v2.4, 3.1); zero where there is none.
    private static func tagSize(_ bytes: ArraySlice<UInt8>) -> Int {
        guard bytes.count >= 10, bytes.starts(with: "ID3".utf8) else { return 0 }
        let head = Array(bytes.prefix(10))
        let size = head[6...].reduce(0) { $0 << 7 | Int($1 & 0x7F) }
        return size + (head[5] & 0x10 != 0 ? 20 : 10)
    }

    // MARK: Out

    /// Nil as long as nothing tells what is inside.
    var contents: UnitContents? {
        switch kind {
        case .id3, .audio: .sound
        case .transportStream: transportContents.contents
        case nil: nil
        }
    }

    /// Finds out what is inside, once there are bytes of it.
    mutating func recognize(isEnd: Bool = false) throws(FormatError) {
        guard kind == nil, !output.isEmpty else { return }
        if let found = SampleAESStream.output(of: output, isEnd: isEnd || completeSize > 0) {
            kind = found
        } else if isEnd || completeSize > 0 || output.count > Self.searchLimit {
            throw Self.notRecognized
        }
    }

    var outputSize: Int {
        guard let kind else { return 0 }
        guard kind == .transportStream, output.count > completeSize else { return output.count }
        return output.count - (output.count - completeSize) % TransportPacket.size
    }

    var heldSize: Int { segments.reduce(output.count) { $0 + $1.bytes.count } + synchronizer.heldSize }

    mutating func takeOutput(into target: UnsafeMutableRawBufferPointer) {
        let size = min(target.count, outputSize)
        output.withUnsafeBytes { target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<size])) }
        output.removeFirst(size)
        completeSize = max(0, completeSize - size)
    }
}
