// SPDX-License-Identifier: MPL-2.0

/// How much a player asks an origin for at once: it gets the first byte when the last one is there, and each request costs
/// the way to the origin and back. Follows the network, between a block and what a download asks for. A value.
struct PieceSize: Sendable {
    /// In bytes.
    private(set) var bytes: Int
    private let limits: ClosedRange<Int>

    /// GStreamer's HTTP source waits 15 seconds, and a demuxer has less than that in stock.
    private static let longest = Duration.seconds(4)
    /// Twice as much stays below the longest.
    private static let shortest = Duration.seconds(2)

    init(blockSize: Int, downloadSize: Int) {
        limits = min(blockSize, downloadSize)...downloadSize
        bytes = min(max(256 << 10, limits.lowerBound), limits.upperBound)
    }

    /// So many bytes came as one piece.
    mutating func note(_ count: Int, took time: Duration) {
        if time > Self.longest, count <= bytes {
            bytes = max(bytes / 2, limits.lowerBound)
        } else if time < Self.shortest, count == bytes {
            bytes = min(bytes * 2, limits.upperBound)
        }
    }
}
