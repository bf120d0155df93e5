// SPDX-License-Identifier: MPL-2.0

/// Bytes of a file that come in order, from a source that can be sent elsewhere, for a reader that jumps.
///
/// What came is kept in pages, of which those that nobody used for longest go first: a reader that takes turns at two
/// places finds both. The source may be ahead of the reader by `readAhead`; who is further behind it or ahead of it than
/// is worth waiting for sends it elsewhere. A value for one owner at a time; no offset or count traps.
struct ByteWindow {
    /// In bytes. A page holds one run of bytes without a gap.
    static let pageSize = 64 << 10
    /// How far the source may be ahead of the reader. What is further ahead is better kept in front of this window,
    /// where a queue's level says how much there is.
    static let readAhead: UInt64 = 512 << 10
    /// The most that is waited for instead of a jump, once the reader has gone through as much without one.
    static let largestPatience: UInt64 = 4 << 20

    /// What has to happen for a byte to come.
    enum Step: Hashable {
        /// It is on its way.
        case wait
        /// The source has to be sent to this place; `jump(for:)` comes first.
        case seek(UInt64)
        /// The source has ended in front of it.
        case ended
    }

    private struct Page {
        var bytes: [UInt8]
        var valid: Range<Int>
        var lastUse: UInt64

        /// `source` ends within the page.
        mutating func write(_ source: UnsafeRawBufferPointer, at offset: Int, use: UInt64) {
            let end = offset + source.count
            bytes.withUnsafeMutableBytes {
                UnsafeMutableRawBufferPointer(rebasing: $0[offset..<end]).copyMemory(from: source)
            }
            let touches = offset <= valid.upperBound && end >= valid.lowerBound
            valid = touches ? min(offset, valid.lowerBound)..<max(end, valid.upperBound) : offset..<end
            lastUse = use
        }
    }

    /// Of the file, in bytes. The source is not asked for more.
    private(set) var size: UInt64
    /// Of the next byte from the source; nil while it is on its way to another place.
    private(set) var position: UInt64?
    private(set) var hasEnded = false
    private let pageLimit: Int
    private var pages: [UInt64: Page] = [:]
    private var useCount: UInt64 = 0
    /// The source may be ahead of this: the furthest that was read or waited for since it came to where it is.
    private var front: UInt64 = 0
    /// Where the source was sent.
    private var target: UInt64?
    /// Until something came, nobody in front may be ready to be sent elsewhere.
    private var hasBegun = false
    /// So much was read since the reader was last sent elsewhere itself.
    private var readCount: UInt64 = 0

    /// - Parameters:
    ///   - size: of the file, in bytes.
    ///   - capacity: the most that is kept, in bytes.
    init(size: UInt64, capacity: Int = 16 << 20) {
        self.size = size
        pageLimit = max(capacity / Self.pageSize, 16)
    }

    // MARK: The source

    /// The source goes on here. False where it went past the place that it was sent to.
    mutating func begin(at start: UInt64) -> Bool {
        hasEnded = false
        position = start
        front = start
        guard let sent = target, start > sent else { return true }
        target = nil
        return false
    }

    /// The source is being sent elsewhere; what it brings until `begin` is dropped.
    mutating func interrupt() {
        position = nil
        hasEnded = false
    }

    /// The source has nothing more.
    mutating func end() { hasEnded = true }

    /// The file ends where the source did. False where that is not known.
    mutating func shrinkToEnd() -> Bool {
        guard hasEnded, let position, position < size else { return false }
        size = position
        return true
    }

    /// Everything up to the end of the file has come.
    var isAtEnd: Bool { position.map { $0 >= size } ?? false }

    /// How many bytes may come now.
    private var room: Int {
        guard let position else { return 0 }
        let (limit, overflow) = max(front, target ?? 0).addingReportingOverflow(Self.readAhead)
        let end = min(size, overflow ? .max : limit)
        return end > position ? Int(clamping: end - position) : 0
    }

    /// Takes as many of the next bytes as there is room for, and tells how many. All, where they are dropped.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        hasBegun = true
        guard let start = position else { return bytes.count }
        let count = min(bytes.count, room)
        var done = 0
        while done < count {
            let place = start + UInt64(done)
            let offset = Int(place % UInt64(Self.pageSize))
            let part = min(count - done, Self.pageSize - offset)
            // SAFETY: `done + part` is at most `count`, which is within `bytes`.
            write(UnsafeRawBufferPointer(rebasing: bytes[done..<done + part]), place / UInt64(Self.pageSize), offset)
            done += part
        }
        let end = start + UInt64(count)
        position = end
        if let sent = target, end > sent { target = nil }
        return count
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer, _ index: UInt64, _ offset: Int) {
        useCount += 1
        if pages[index] == nil { pages[index] = Page(bytes: storage(), valid: offset..<offset, lastUse: 0) }
        pages[index]?.write(bytes, at: offset, use: useCount)
    }

    /// A page's bytes, those of the page that is given up where there are enough.
    private mutating func storage() -> [UInt8] {
        guard pages.count >= pageLimit, let oldest = pages.min(by: { $0.value.lastUse < $1.value.lastUse }) else {
            return [UInt8](repeating: 0, count: Self.pageSize)
        }
        return pages.removeValue(forKey: oldest.key)?.bytes ?? [UInt8](repeating: 0, count: Self.pageSize)
    }

    // MARK: The reader

    /// Copies what is there of the bytes from `offset` on, without a gap, and tells how many.
    mutating func read(at offset: UInt64, into target: UnsafeMutableRawBufferPointer) -> Int {
        var done = 0
        while done < target.count {
            let (place, overflow) = offset.addingReportingOverflow(UInt64(done))
            let index = place / UInt64(Self.pageSize)
            let start = Int(place % UInt64(Self.pageSize))
            guard !overflow, let valid = pages[index]?.valid, valid.contains(start) else { break }
            let part = min(target.count - done, valid.upperBound - start)
            useCount += 1
            pages[index]?.lastUse = useCount
            pages[index]?.bytes.withUnsafeBytes {
                // SAFETY: `part` is within what is left of the target, and within the valid bytes of the page.
                UnsafeMutableRawBufferPointer(rebasing: target[done..<done + part])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + part]))
            }
            done += part
        }
        readCount &+= UInt64(done)
        // What is read from pages that the source has not come to yet says nothing of how far it may go.
        let (end, overflow) = offset.addingReportingOverflow(UInt64(done))
        if !overflow, let position, end <= position { front = max(front, end) }
        return done
    }

    /// The reader waits for the byte at `offset`, which is not there and in front of `size`: what has to happen.
    mutating func step(towards offset: UInt64) -> Step {
        guard let position else { return hasEnded ? .ended : .wait }
        guard hasBegun || hasEnded else { return .wait }
        guard offset >= position else { return .seek(start(for: offset)) }
        if hasEnded { return .ended }
        // Where the source starts in front of the place that it was sent to, sending it again is no use.
        let patience = min(max(readCount, Self.readAhead), Self.largestPatience)
        guard offset - position <= patience || target.map({ offset <= $0 }) ?? false else {
            return .seek(start(for: offset))
        }
        front = max(front, offset)
        return .wait
    }

    /// Indices stand at the end of a file, and are read from their own end on.
    private func start(for offset: UInt64) -> UInt64 {
        let tail = size - min(size, UInt64(Self.pageSize))
        return offset > tail && !(position.map { (tail...offset).contains($0) } ?? false) ? tail : offset
    }

    /// The source is about to be sent to the place that a step named, for the byte at `offset`.
    mutating func jump(for offset: UInt64) {
        target = offset
        interrupt()
    }

    /// The reader was sent elsewhere: what lies between is not worth waiting for.
    mutating func forgetPace() { readCount = 0 }
}
