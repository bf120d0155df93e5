// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyOffline

struct LinearProgressTests {
    private func piece(_ track: Int64, _ number: Int) -> CachedPiece {
        CachedPiece(
            track: track, resource: track * 100 + Int64(number), offset: 0, length: nil, begin: .seconds(number),
            duration: .seconds(1))
    }

    @Test func theLeastTrackCounts() {
        var progress = LinearProgress()
        let pieces = (0..<4).flatMap { [piece(1, $0), piece(2, $0)] }
        var there: Set<Int64> = []
        func duration() -> Duration { progress.advance(through: pieces) { there.contains($0.resource) } }
        #expect(duration() == .zero)
        there = [100, 101, 102]
        #expect(duration() == .zero)
        there.insert(200)
        #expect(duration() == .seconds(1))
        // A gap does not count, however much is behind it.
        there.formUnion([202, 203, 103])
        #expect(duration() == .seconds(1))
        there.insert(201)
        #expect(duration() == .seconds(4))
    }

    /// Each piece that comes asks for it.
    @Test func aLongPresentationCostsNoMoreThanAShortOne() {
        var progress = LinearProgress()
        let count = 1000
        let pieces = (0..<count).flatMap { [piece(1, $0), piece(20, $0)] }
        var there: Set<Int64> = []
        for (number, piece) in pieces.enumerated() {
            let duration = progress.advance(through: pieces) { there.contains($0.resource) }
            #expect(duration == .seconds(number / 2))
            there.insert(piece.resource)
        }
        let duration = progress.advance(through: pieces) { there.contains($0.resource) }
        #expect(duration == .seconds(count))
        #expect(progress.looks <= 4 * pieces.count)
    }

    @Test func changesThatComeTogetherAreToldTogether() {
        var changes = PendingChanges()
        for _ in 0..<2 {
            var tells: [Bool] = []
            // The first one tells. Many come while it does, and one round more tells them all.
            tells.append(changes.note())
            tells.append(changes.next())
            for _ in 0..<100 where changes.note() { Issue.record("two tell at once") }
            tells.append(changes.next())
            tells.append(changes.next())
            #expect(tells == [true, true, true, false])
        }
    }

    @Test func fewerPiecesBeginAnew() {
        var progress = LinearProgress()
        var duration = progress.advance(through: [piece(1, 0), piece(1, 1)]) { _ in true }
        #expect(duration == .seconds(2))
        duration = progress.advance(through: [piece(1, 0)]) { _ in true }
        #expect(duration == .seconds(1))
        duration = progress.advance(through: []) { _ in true }
        #expect(duration == .zero)
    }

    @Test func piecesMayComeLater() {
        var progress = LinearProgress()
        #expect(progress.advance(through: []) { _ in true } == .zero)
        #expect(progress.advance(through: [piece(1, 0)]) { _ in true } == .seconds(1))
        #expect(progress.advance(through: [piece(1, 0), piece(1, 1)]) { _ in true } == .seconds(2))
    }
}
