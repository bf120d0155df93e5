// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import ServiceLifecycle

/// Puts faults on answers: those of the query (`?fault=delay:250&fault=status:503`), then the first rule that fits.
///
/// Rules do not hold for the endpoints that control the server, so that they can always be taken back.
struct FaultMiddleware: RouterMiddleware {
    let state: ServerState
    /// Waits; ends early, with `CancellationError`, when the task is cancelled.
    let pause: @Sendable (Duration) async throws -> Void

    func handle(
        _ request: Request, context: ServerContext, next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        var faults: [Fault] = []
        do throws(FaultError) {
            for text in request.uri.queryParameters[values: "fault"] { faults.append(try Fault(text)) }
        } catch {
            return .error(.badRequest, error.description)
        }
        let path = request.uri.path
        if !ServerEndpoint.isControl(path), let fault = state.takeFault(forPath: path) { faults.append(fault) }
        guard !faults.isEmpty else { return try await next(request, context) }
        state.update(context.logEntry) { $0.faults = faults.map(\.description) }

        for case .delay(let milliseconds) in faults {
            try await cancelWhenGracefulShutdown { try await pause(.milliseconds(milliseconds)) }
        }
        if faults.contains(.never) { try await giveNoAnswer(request, context) }
        for case .status(let code) in faults {
            return .error(HTTPResponse.Status(code: code), "the fault status:\(code) is on")
        }
        var response = try await next(request, context)
        guard request.method != .head else { return response }
        for fault in faults { response.body = spoil(response.body, with: fault, context) }
        return response
    }

    private func spoil(_ body: ResponseBody, with fault: Fault, _ context: ServerContext) -> ResponseBody {
        switch fault {
        case .truncate(let bytes):
            ResponseBody(contentLength: body.contentLength) { writer in
                try await body.write(TruncatingWriter(writer: writer, remaining: bytes, channel: context.channel))
            }
        case .garbage:
            ResponseBody(contentLength: body.contentLength) { writer in
                try await body.write(GarbageWriter(writer: writer))
            }
        case .drip(let bytesPerSecond):
            ResponseBody(contentLength: body.contentLength) { writer in
                try await body.write(DrippingWriter(writer: writer, bytesPerSecond: bytesPerSecond, pause: pause))
            }
        case .delay, .status, .never:
            body
        }
    }

    /// Waits until the client goes or the server stops, then closes the connection and throws.
    private func giveNoAnswer(_ request: Request, _ context: ServerContext) async throws -> Never {
        let (ends, source) = AsyncStream<Never>.makeStream()
        _ = try? await request.body.consumeWithInboundCloseHandler { _ in
            await withGracefulShutdownHandler {
                for await _ in ends {}
            } onGracefulShutdown: {
                source.finish()
            }
        } onInboundClosed: {
            source.finish()
        }
        // Closed first, so that the answer that the error becomes goes nowhere.
        try? await context.channel.close()
        throw AbandonedResponse()
    }
}

/// A response ends where a fault says.
struct AbandonedResponse: Error {}

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
