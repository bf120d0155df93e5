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
    private var state: UInt32 = 0x2545_F491

    init(writer: any ResponseBodyWriter) { self.writer = writer }

    mutating func write(_ buffer: ByteBuffer) async throws {
        var garbage = ByteBuffer()
        garbage.reserveCapacity(buffer.readableBytes)
        for _ in 0..<buffer.readableBytes {
            state ^= state << 13
            state ^= state >> 17
            state ^= state << 5
            garbage.writeInteger(UInt8(truncatingIfNeeded: state >> 8))
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
