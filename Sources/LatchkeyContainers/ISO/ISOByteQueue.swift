// SPDX-License-Identifier: MPL-2.0

/// Bytes of a file in order, from a place that moves forward: those in front of it have gone on.
struct ISOByteQueue: Sendable {
    private var bytes: [UInt8] = []
    private var head = 0
    /// Where the first byte stands in the file.
    private(set) var start: UInt64 = 0

    var count: Int { bytes.count - head }
    /// Behind the last byte.
    var end: UInt64 { start &+ UInt64(count) }

    /// Forgets everything; the next byte is that at `position`.
    mutating func restart(at position: UInt64) {
        bytes.removeAll(keepingCapacity: true)
        head = 0
        start = position
    }

    mutating func append(_ added: UnsafeRawBufferPointer) {
        // Moved where that frees at least half, so that the moves together stay linear.
        if head > 0, head * 2 >= bytes.count {
            bytes.removeFirst(head)
            head = 0
        }
        bytes.append(contentsOf: added)
    }

    /// The bytes from `position` on, which is not in front of `start`.
    func bytes(from position: UInt64) -> ArraySlice<UInt8> {
        guard position >= start, position < end else { return [] }
        return bytes[(head + Int(position - start))...]
    }

    /// The bytes of a range; nil where not all are there.
    func bytes(in range: Range<UInt64>) -> ArraySlice<UInt8>? {
        guard range.lowerBound >= start, range.upperBound <= end else { return nil }
        let first = head + Int(range.lowerBound - start)
        return bytes[first..<first + Int(range.upperBound - range.lowerBound)]
    }

    /// Lends bytes that are all there.
    mutating func withBytes<Failure: Error>(
        in range: Range<UInt64>, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard range.lowerBound >= start, range.upperBound <= end else { return }
        let first = head + Int(range.lowerBound - start)
        let last = first + Int(range.upperBound - range.lowerBound)
        // SAFETY: the range was compared with what is held; the queue cannot change while it is lent.
        try bytes.withUnsafeMutableBufferPointer { bytes throws(Failure) in
            try body(UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: bytes[first..<last])))
        }
    }

    /// Moves the first bytes into `target`, which is not larger than `count`.
    mutating func take(into target: UnsafeMutableRawBufferPointer) {
        let size = min(target.count, count)
        // SAFETY: `size` is at most what either side has, and the two do not overlap.
        bytes.withUnsafeBytes { bytes in
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[head..<head + size]))
        }
        head += size
        start &+= UInt64(size)
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.count <= 1 << 20)
            head = 0
        }
    }
}
