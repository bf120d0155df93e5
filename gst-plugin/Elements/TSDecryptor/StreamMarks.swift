// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers

/// Where in the bytes of a stream its buffers had times or flags, so that the buffers that go on have them there too.
struct StreamMarks {
    private final class Mark {
        let buffer: Buffer
        var offset: Int

        init(_ buffer: consuming Buffer, offset: Int) {
            self.buffer = buffer
            self.offset = offset
        }
    }

    /// A stream of marks whose bytes never go on must not fill the memory.
    private static let limit = 256
    private static let packetSize = 188

    private var marks: [Mark] = []
    private var isAligned = false
    /// What came before went on without this.
    var isJoining = false

    /// A buffer comes behind `size` bytes that have not gone on yet. `isBehindGap`: something is missing in front of it, also if
    /// it does not say so.
    mutating func note(
        _ buffer: borrowing Buffer, behind size: Int, of output: SampleAESStream.Output?, isBehindGap: Bool = false
    ) {
        guard buffer.size > 0,
            isBehindGap || buffer.isDiscontinuous || buffer.presentationTime != nil || buffer.decodeTime != nil
        else { return }
        if marks.count >= Self.limit { marks.removeFirst() }
        let metadata = Buffer()
        metadata.copyMetadata(from: buffer)
        if isBehindGap { metadata.setDiscontinuous() }
        isAligned = output == .transportStream
        // Offsets count what came. At offset zero of a later segment, id3demux would take off as much as the first tag had.
        if output != nil || isJoining, !isAligned { metadata.setOffset(.max) }
        // The packet that the buffer starts within.
        let offset = isAligned ? size / Self.packetSize * Self.packetSize : size
        marks.append(Mark(metadata, offset: offset))
    }

    /// How many of `size` bytes may go on as one buffer.
    func sizeOfNext(upTo size: Int) -> Int {
        marks.first { $0.offset > 0 && $0.offset < size }?.offset ?? size
    }

    /// `buffer` goes on: it gets what belongs to its first byte.
    mutating func apply(to buffer: borrowing Buffer) {
        let due = marks.prefix { $0.offset <= 0 }
        if let last = due.last { buffer.copyMetadata(from: last.buffer) }
        marks.removeFirst(due.count)
        for mark in marks { mark.offset -= buffer.size }
    }
}
