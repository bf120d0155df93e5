// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Testing

@testable import LatchkeyElements

/// The window over bytes that are pushed, without any element.
@Suite struct ByteWindowTests {
    private static let readAhead = Int(ByteWindow.readAhead)

    private static func file(_ size: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        let block = generator.bytes(4099)
        return (0..<size).map { block[$0 % block.count] ^ UInt8(truncatingIfNeeded: $0 / block.count) }
    }

    /// A source that does what the window says, a bit at a time.
    private final class Source {
        let file: [UInt8]
        var window: ByteWindow
        var seeks: [UInt64] = []

        init(_ file: [UInt8], capacity: Int = 1 << 20, isReadInOneGo: Bool = false) {
            self.file = file
            window = ByteWindow(size: UInt64(file.count), capacity: capacity, isReadInOneGo: isReadInOneGo)
            _ = window.begin(at: 0)
        }

        /// A file of which nothing is looked at.
        init(size: UInt64) {
            file = []
            window = ByteWindow(size: size)
        }

        func begin(at place: UInt64) -> Bool { window.begin(at: place) }
        func step(towards place: UInt64) -> ByteWindow.Step { window.step(towards: place) }
        func take(_ bytes: [UInt8]) -> Int { bytes.withUnsafeBytes { window.take($0) } }
        func shrinkToEnd() -> Bool { window.shrinkToEnd() }

        /// False where there is no room or nothing left.
        func push(_ count: Int) -> Bool {
            guard let position = window.position, position < UInt64(file.count) else { return false }
            let part = file[Int(position)...].prefix(count)
            return part.withUnsafeBytes { window.take($0) } > 0
        }

        func read(_ offset: Int, _ count: Int, step: Int = 50_000) -> [UInt8]? {
            var result = [UInt8](repeating: 0, count: count)
            var done = 0
            for _ in 0..<10_000 {
                done += result.withUnsafeMutableBytes {
                    window.read(at: UInt64(offset + done), into: UnsafeMutableRawBufferPointer(rebasing: $0[done...]))
                }
                if done == count { return result }
                switch window.step(towards: UInt64(offset + done)) {
                case .wait: guard push(step) else { return nil }
                case .seek(let place):
                    seeks.append(place)
                    window.jump(for: UInt64(offset + done))
                    guard window.begin(at: place) else { return nil }
                case .ended: return nil
                }
            }
            return nil
        }
    }

    /// The demuxer of a file whose index is at its end looks there, and comes back.
    @Test(arguments: [false, true])
    func aFileThatIsReadInOneGoNeedsNoSeek(isReadInOneGo: Bool) {
        let file = Self.file(3 << 20)
        let source = Source(file, capacity: 4 << 20, isReadInOneGo: isReadInOneGo)
        for start in [0, file.count - 5000, 40, 1_000_000] {
            #expect(source.read(start, 5000) == Array(file[start..<start + 5000]))
        }
        #expect(source.seeks.isEmpty == isReadInOneGo)
    }

    @Test func whatComesInOrderIsReadInOrder() {
        let file = Self.file(3 << 20)
        let source = Source(file)
        for start in stride(from: 0, to: file.count, by: 70_001) {
            let count = min(70_001, file.count - start)
            #expect(source.read(start, count) == Array(file[start..<start + count]))
        }
        #expect(source.seeks.isEmpty && source.window.isAtEnd)
    }

    @Test func theSourceWaitsForTheReader() {
        let file = Self.file(3 << 20)
        let source = Source(file)
        while source.push(100_000) {}
        #expect(source.window.position == ByteWindow.readAhead)
        #expect(source.read(0, 1000) != nil)
        while source.push(100_000) {}
        #expect(source.window.position == ByteWindow.readAhead + 1000)
        // One buffer of any size is taken in parts.
        #expect(source.take(file) == 0)
    }

    /// As a demuxer that takes turns at two tracks does.
    @Test func twoPlacesAreReadInTurn() {
        let file = Self.file(12 << 20)
        let source = Source(file, capacity: 2 << 20)
        let second = 8 << 20
        for offset in stride(from: 0, to: 2 << 20, by: 20_000) {
            #expect(source.read(offset, 20_000) == Array(file[offset..<offset + 20_000]))
            let place = second + offset / 20
            #expect(source.read(place, 1000) == Array(file[place..<place + 1000]))
        }
        // Each time, what had come ahead of one place lasts for a while: there and back for half a megabyte.
        #expect(source.seeks.count <= 12, "\(source.seeks)")
    }

    @Test func aLittleAheadIsWaitedForAndFarAheadIsNot() {
        let file = Self.file(12 << 20)
        let source = Source(file, capacity: 8 << 20)
        #expect(source.read(Self.readAhead - 10, 10) != nil && source.seeks.isEmpty)
        #expect(source.read(Self.readAhead * 4, 10) != nil)
        #expect(source.seeks == [UInt64(Self.readAhead * 4)])
        // The reader that went through a lot in order is likely to need what lies between.
        #expect(source.read(Self.readAhead * 4, 3 << 20) != nil)
        let position = Int(source.window.position ?? 0)
        #expect(source.read(position + (2 << 20), 10) != nil && source.seeks.count == 1)
        source.window.forgetPace()
        let next = Int(source.window.position ?? 0) + (2 << 20)
        #expect(source.read(next, 10) != nil && source.seeks.count == 2)
    }

    @Test func whatWasReadStaysForAWhile() {
        let file = Self.file(6 << 20)
        let source = Source(file, capacity: 2 << 20)
        #expect(source.read(0, 3 << 20) != nil)
        #expect(source.read((3 << 20) - (1 << 20), 1000) == Array(file[(2 << 20)..<(2 << 20) + 1000]))
        #expect(source.seeks.isEmpty)
        #expect(source.read(0, 1000) == Array(file[..<1000]))
        #expect(source.seeks == [0])
    }

    /// Its own end is read before its start.
    @Test func theIndexAtTheEndComesWithOneJump() {
        let file = Self.file(6 << 20)
        let source = Source(file)
        #expect(source.read(0, 1000) != nil)
        #expect(source.read(file.count - 16, 16) == Array(file.suffix(16)))
        #expect(source.read(file.count - 5000, 5000) == Array(file.suffix(5000)))
        #expect(source.seeks == [UInt64(file.count - ByteWindow.pageSize)])
    }

    @Test func anEndTooEarlyIsTold() {
        let source = Source(Self.file(2 << 20))
        #expect(source.read(0, 100) != nil)
        source.window.end()
        let position = source.window.position ?? 0
        #expect(source.step(towards: position) == .ended)
        #expect(source.shrinkToEnd() && source.window.size == position && source.window.isAtEnd)
        #expect(!source.shrinkToEnd())
        // On its way elsewhere, nothing came at all.
        source.window.jump(for: 10)
        source.window.end()
        #expect(source.step(towards: 10) == .ended && !source.shrinkToEnd())
    }

    @Test func aSourceThatGoesPastItsPlaceIsTold() {
        let source = Source(size: 10 << 20)
        #expect(source.begin(at: 0))
        #expect(source.take([1, 2]) == 2)
        #expect(source.step(towards: 5 << 20) == .seek(5 << 20))
        source.window.jump(for: 5 << 20)
        // What still comes from the old place is dropped.
        #expect(source.take([1]) == 1)
        #expect(source.step(towards: 5 << 20) == .wait)
        #expect(!source.begin(at: (5 << 20) + 1))
        // In front of it: waited for, however far.
        source.window.jump(for: 9 << 20)
        #expect(source.begin(at: 0) && source.step(towards: 9 << 20) == .wait)
    }

    @Test func nobodyIsSentElsewhereBeforeAnythingCame() {
        let source = Source(size: 10 << 20)
        #expect(source.step(towards: 5 << 20) == .wait)
        #expect(source.begin(at: 0) && source.step(towards: 5 << 20) == .wait)
        #expect(source.take([1]) == 1)
        #expect(source.step(towards: 5 << 20) == .seek(5 << 20))
    }

    @Test func numbersAtTheLimitDoNotTrap() {
        for size in [0, 1, UInt64.max] {
            var window = ByteWindow(size: size, capacity: 0)
            for start in [0, 1, size, UInt64.max - 1, UInt64.max] {
                _ = window.begin(at: start)
                _ = [UInt64.max].withUnsafeBytes { window.take($0) }
                var target = [UInt8](repeating: 0, count: 9)
                for offset in [0, 1, UInt64.max - 8, UInt64.max] {
                    _ = target.withUnsafeMutableBytes { window.read(at: offset, into: $0) }
                    _ = window.step(towards: offset)
                    window.jump(for: offset)
                    _ = window.begin(at: start)
                }
            }
        }
    }

    /// Whatever is read, and however much comes at a time: the bytes are those of the file.
    @Test(arguments: 0..<20)
    func anyReadsGiveTheBytesOfTheFile(seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        let file = Self.file(Int.random(in: 1...4_000_000, using: &generator), seed: UInt64(seed))
        let source = Source(file)
        for _ in 0..<100 {
            let offset = Int.random(in: 0..<file.count, using: &generator)
            let count = Int.random(in: 0...min(file.count - offset, 200_000), using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: _ = source.push(Int.random(in: 1...300_000, using: &generator))
            case 1: source.window.forgetPace()
            case 2:
                source.window.interrupt()
                _ = source.window.begin(at: UInt64(offset))
            default: break
            }
            let step = Int.random(in: 1000...300_000, using: &generator)
            #expect(source.read(offset, count, step: step) == Array(file[offset..<offset + count]))
        }
    }
}
