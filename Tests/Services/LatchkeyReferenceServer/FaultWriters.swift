// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import ServiceLifecycle

/// Passes a number of bytes on, then closes the connection. A body that is not longer goes through whole.
struct TruncatingWriter: ResponseBodyWriter {
    var writer: any ResponseBodyWriter
    var remaining: Int
    let channel: any Channel

    mutating func write(_ buffer: ByteBuffer) async throws {
        guard buffer.readableBytes > remaining else {
            remaining -= buffer.readableBytes
            return try await writer.write(buffer)
        }
        if let start = buffer.getSlice(at: buffer.readerIndex, length: remaining) { try await writer.write(start) }
        // Closing the output alone first lets what is already written reach the client.
        try? await channel.close(mode: .output)
        throw AbandonedResponse()
    }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await writer.finish(trailingHeaders) }
}

/// Writes as many other bytes as it gets. They are the same each time.
struct GarbageWriter: ResponseBodyWriter {
    var writer: any ResponseBodyWriter

    /// 4 KiB of pseudo-random bytes (xorshift32), made once.
    private static let block: ByteBuffer = {
        var state: UInt32 = 0x2545_F491
        return ByteBuffer(
            bytes: (0..<4096).map { _ in
                state ^= state << 13
                state ^= state >> 17
                state ^= state << 5
                return UInt8(truncatingIfNeeded: state >> 8)
            })
    }()

    mutating func write(_ buffer: ByteBuffer) async throws {
        var garbage = ByteBuffer()
        garbage.reserveCapacity(buffer.readableBytes)
        while garbage.readableBytes < buffer.readableBytes {
            let length = min(Self.block.readableBytes, buffer.readableBytes - garbage.readableBytes)
            var piece = Self.block.getSlice(at: 0, length: length) ?? ByteBuffer()
            garbage.writeBuffer(&piece)
        }
        try await writer.write(garbage)
    }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await writer.finish(trailingHeaders) }
}

/// Passes bytes on in small pieces with a pause before each, ten a second or fewer.
struct DrippingWriter: ResponseBodyWriter {
    var writer: any ResponseBodyWriter
    let bytesPerSecond: Int
    let pause: @Sendable (Duration) async throws -> Void

    mutating func write(_ buffer: ByteBuffer) async throws {
        var rest = buffer
        while let piece = rest.readSlice(length: min(rest.readableBytes, max(1, bytesPerSecond / 10))),
            piece.readableBytes > 0
        {
            let time = Duration.seconds(piece.readableBytes) / bytesPerSecond
            let pause = pause
            try await cancelWhenGracefulShutdown { try await pause(time) }
            try await writer.write(piece)
        }
    }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await writer.finish(trailingHeaders) }
}
