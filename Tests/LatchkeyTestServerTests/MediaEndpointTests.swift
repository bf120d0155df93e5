// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import NIOCore
import Testing

@testable import LatchkeyTestServer

@Suite struct MediaEndpointTests {
    private let folder: TemporaryFolder
    private let server: TestServer
    /// More than one piece of a streamed file.
    private let content = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    init() throws {
        folder = try TemporaryFolder()
        try folder.write(content, to: "media/video.mp4")
        try folder.write([], to: "media/empty.ts")
        try folder.write("#EXTM3U", to: "media/sub/master.m3u8")
        try folder.link("media/link.txt", to: "../outside.txt")
        server = try TestServer(media: folder)
    }

    private func get(_ path: String, range: String? = nil) async throws -> TestResponse {
        var headers: HTTPFields = [:]
        headers[.range] = range
        return try await server.test { [headers] in try await $0.execute(uri: path, method: .get, headers: headers) }
    }

    @Test func sendsAWholeFile() async throws {
        let response = try await get("/media/video.mp4")
        #expect(response.status == .ok)
        #expect(response.bytes == content)
        #expect(response.headers[.contentType] == "video/mp4")
        #expect(response.headers[.contentLength] == "300000")
        #expect(response.headers[.acceptRanges] == "bytes")
        #expect(response.headers[.contentRange] == nil)
    }

    @Test(arguments: [
        ("bytes=0-9", 0..<10), ("bytes=131070-140000", 131_070..<140_001), ("bytes=299999-", 299_999..<300_000),
        ("bytes=-5", 299_995..<300_000), ("bytes=5-9999999", 5..<300_000),
    ])
    func sendsARange(header: String, range: Range<Int>) async throws {
        let response = try await get("/media/video.mp4", range: header)
        #expect(response.status == .partialContent)
        #expect(response.bytes == Array(content[range]))
        #expect(response.headers[.contentLength] == String(range.count))
        #expect(response.headers[.contentRange] == "bytes \(range.lowerBound)-\(range.upperBound - 1)/300000")
    }

    @Test func refusesARangeBeyondTheEnd() async throws {
        let response = try await get("/media/video.mp4", range: "bytes=300000-")
        #expect(response.status == .rangeNotSatisfiable)
        #expect(response.headers[.contentRange] == "bytes */300000")
    }

    @Test func sendsTheWholeFileWhereARangeDependsOnAValidator() async throws {
        let response = try await server.test { client in
            try await client.execute(
                uri: "/media/video.mp4", method: .get, headers: [.range: "bytes=0-9", .ifRange: "\"x\""])
        }
        #expect(response.status == .ok)
        #expect(response.bytes.count == content.count)
    }

    @Test func sendsAnEmptyFileAndOneInAFolder() async throws {
        let empty = try await get("/media/empty.ts")
        #expect(empty.status == .ok)
        #expect(empty.headers[.contentLength] == "0")
        #expect(empty.bytes.isEmpty)
        let playlist = try await get("/media/sub/master.m3u8?start=1")
        #expect(playlist.text == "#EXTM3U")
        #expect(playlist.headers[.contentType] == "application/vnd.apple.mpegurl")
    }

    @Test func aHeadHasTheHeadersAndNoBody() async throws {
        let answer = try await server.test { client in
            try await exchange(
                "HEAD /media/video.mp4 HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n",
                port: client.port)
        }
        let text = String(decoding: answer, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(text.contains("\r\nContent-Length: 300000\r\n"))
        #expect(text.contains("\r\nContent-Type: video/mp4\r\n"))
        #expect(text.hasSuffix("\r\n\r\n"))
    }

    @Test(arguments: [
        "/media/../outside.txt", "/media/%2e%2e/outside.txt", "/media/..%2Foutside.txt",
        "/media/sub/../../outside.txt", "/media//etc/passwd", "/media/link.txt", "/media/sub", "/media/sub/",
        "/media/", "/media", "/media/nothing.mp4", "/", "/nothing", "/mediavideo.mp4",
    ])
    func sendsNothingFromElsewhere(path: String) async throws {
        let answer = try await server.test { client in
            try await exchange(
                "GET \(path) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", port: client.port)
        }
        let text = String(decoding: answer, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 404 "))
        #expect(!text.contains("outside"))
        #expect(!text.contains("root:"))
    }

    @Test func takesNoOtherMethodAndHasNoFilesWithoutAFolder() async throws {
        let response = try await server.test { try await $0.execute(uri: "/media/video.mp4", method: .post) }
        #expect(response.status == .methodNotAllowed)
        #expect(response.headers[.allow] == "GET, HEAD")
        let bare = try TestServer()
        let answer = try await bare.test { try await $0.execute(uri: "/media/video.mp4", method: .get) }
        #expect(answer.status == .notFound)
    }
}
