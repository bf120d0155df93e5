// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyOffline

/// What a player asks for at once.
struct PieceSizeTests {
    private let kibibyte = 1 << 10

    /// A network with so many bytes a second, and so long for each way to the origin and back.
    private func settled(rate: Double, latency: Double = 0, pieces: Int = 20) -> [Int] {
        var size = PieceSize(blockSize: 64 * kibibyte, downloadSize: 1024 * kibibyte)
        return (0..<pieces).map { _ in
            defer { size.note(size.bytes, took: .seconds(latency + Double(size.bytes) / rate)) }
            return size.bytes
        }
    }

    @Test func itFollowsTheNetworkAndComesToRest() {
        #expect(settled(rate: 10_000_000).prefix(4).elementsEqual([256, 512, 1024, 1024].map { $0 * kibibyte }))
        // 2 Mb/s and 300 ms.
        #expect(
            settled(rate: 250_000, latency: 0.3).prefix(4).elementsEqual([256, 512, 512, 512].map { $0 * kibibyte }))
        #expect(settled(rate: 40_000).prefix(4).elementsEqual([256, 128, 128, 128].map { $0 * kibibyte }))
        #expect(settled(rate: 5000).last == 64 * kibibyte)
        for rate in stride(from: 5000.0, through: 2_000_000, by: 1234) {
            let sizes = settled(rate: rate, latency: 0.2)
            #expect(Set(sizes.suffix(10)).count == 1, "\(rate) bytes a second")
        }
    }

    @Test func partsOfPiecesMakeItNoLarger() {
        var size = PieceSize(blockSize: 1024, downloadSize: 4096)
        #expect(size.bytes == 4096)
        size.note(4096, took: .seconds(5))
        #expect(size.bytes == 2048)
        // The end of a resource, and what a download has asked for.
        size.note(100, took: .milliseconds(1))
        size.note(4096, took: .seconds(9))
        #expect(size.bytes == 2048)
        size.note(100, took: .seconds(5))
        #expect(size.bytes == 1024)
        size.note(1024, took: .seconds(9))
        #expect(size.bytes == 1024)
        #expect(PieceSize(blockSize: 4096, downloadSize: 1024).bytes == 1024)
    }
}
