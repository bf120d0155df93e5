// SPDX-License-Identifier: MPL-2.0

import Foundation
import HTTPTypes
import NIOCore
import Testing

@testable import LatchkeyTestServer

@Suite struct FaultMiddlewareTests {
    private let folder: TemporaryFolder
    private let server: TestServer
    private let content = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    init() throws {
        folder = try TemporaryFolder()
        try folder.write(content, to: "media/video.mp4")
        server = try TestServer(media: folder)
    }

    private func get(_ uri: String) async throws -> TestResponse {
        try await server.test { try await $0.execute(uri: uri, method: .get) }
    }

    /// The body of what comes back before the connection closes, and whether the whole length was promised.
    private func bodyUntilClose(_ uri: String) async throws -> (body: [UInt8], head: String) {
        let answer = try await server.test { client in
            try await exchange("GET \(uri) HTTP/1.1\r\nHost: x\r\n\r\n", port: client.port)
        }
        let end = try #require(answer.firstRange(of: Array("\r\n\r\n".utf8)))
        return (Array(answer[end.upperBound...]), String(decoding: answer[..<end.lowerBound], as: UTF8.self))
    }

    @Test func aStatusTakesThePlaceOfTheAnswer() async throws {
        let response = try await get("/health?fault=status:503")
        #expect(response.status.code == 503)
        #expect(
            server.state.log == [
                RequestLog.Entry(method: "GET", path: "/health", status: 503, kids: nil, faults: ["status:503"])
            ])
    }

    @Test func aDelayWaitsThenAnswers() async throws {
        let response = try await get("/media/video.mp4?fault=delay:2500")
        #expect(response.bytes == content)
        #expect(server.pauses == [.milliseconds(2500)])
    }

    @Test func faultsOfOneRequestAddUp() async throws {
        let response = try await get("/health?fault=delay:10&fault=status:500&fault=delay:20")
        #expect(response.status.code == 500)
        #expect(server.pauses == [.milliseconds(10), .milliseconds(20)])
    }

    @Test func garbageHasTheLengthAndTheStatusOfTheAnswer() async throws {
        let response = try await get("/media/video.mp4?fault=garbage")
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "video/mp4")
        #expect(response.bytes.count == content.count)
        #expect(response.bytes != content)
    }

    @Test(arguments: [0, 1, 4096, 131_072, 299_999])
    func aTruncatedBodyStopsAtTheByte(bytes: Int) async throws {
        let (body, head) = try await bodyUntilClose("/media/video.mp4?fault=truncate:\(bytes)")
        #expect(head.hasPrefix("HTTP/1.1 200 OK"))
        #expect(head.contains("Content-Length: 300000"))
        #expect(body == Array(content.prefix(bytes)))
    }

    @Test func aBodyThatIsShorterIsNotTruncated() async throws {
        let response = try await get("/media/video.mp4?fault=truncate:300001")
        #expect(response.bytes == content)
    }

    @Test func aDrippingBodyComesInSmallPieces() async throws {
        let response = try await get("/health?fault=drip:20")
        #expect(response.text == #"{"status":"ok"}"#)
        // 15 bytes in pieces of two, at 20 bytes a second.
        #expect(server.pauses == [Duration](repeating: .milliseconds(100), count: 7) + [.milliseconds(50)])
    }

    @Test(.timeLimit(.minutes(8))) func aRequestWithoutAnAnswerEndsWithTheServer() async throws {
        let answer = try await server.test { client in
            let port = client.port
            let answer = Task {
                try await exchange("GET /health?fault=delay:1&fault=never HTTP/1.1\r\nHost: x\r\n\r\n", port: port)
            }
            await server.waitForPause()
            #expect(server.state.log.map(\.status) == [nil])
            return answer
        }
        // The server has stopped by now; whether the connection ends with or without an error is the kernel's affair.
        let bytes = (try? await answer.value) ?? []
        #expect(bytes.isEmpty)
        #expect(server.state.log.map(\.faults) == [["delay:1", "never"]])
    }

    @Test(arguments: ["bad", "delay", "status:1", ""])
    func aFaultThatCannotBeReadIsABadRequest(text: String) async throws {
        #expect(try await get("/health?fault=\(text)").status == .badRequest)
    }

    @Test func rulesAreSetShownUsedUpAndRemoved() async throws {
        try await server.test { client in
            let rules = #"[{"prefix":"/health","fault":"status:503","times":2},{"prefix":"/media/","fault":"garbage"}]"#
            let put = try await client.execute(uri: "/faults", method: .put, body: ByteBuffer(string: rules))
            #expect(put.status == .noContent)
            let shown = try await client.execute(uri: "/faults", method: .get)
            #expect(
                try JSONDecoder().decode([FaultRule].self, from: Data(shown.bytes)) == [
                    FaultRule(prefix: "/health", fault: .status(503), times: 2),
                    FaultRule(prefix: "/media/", fault: .garbage),
                ])
            var statuses: [Int] = []
            for _ in 0..<3 { statuses.append(try await client.execute(uri: "/health", method: .get).status.code) }
            #expect(statuses == [503, 503, 200])
            #expect(server.state.faults == [FaultRule(prefix: "/media/", fault: .garbage)])
            #expect(try await client.execute(uri: "/media/video.mp4", method: .get).bytes != content)
            #expect(try await client.execute(uri: "/faults", method: .delete).status == .noContent)
            #expect(try await client.execute(uri: "/media/video.mp4", method: .get).bytes == content)
        }
    }

    @Test(arguments: [
        "", "{}", "[7]", #"[{"prefix":"health","fault":"never"}]"#, #"[{"prefix":"/","fault":"x"}]"#,
        #"[{"prefix":"/","fault":"never","times":0}]"#, #"[{"fault":"never"}]"#,
    ])
    func rulesThatCannotBeReadChangeNothing(body: String) async throws {
        let rule = FaultRule(prefix: "/x", fault: .never)
        server.state.setFaults([rule])
        let response = try await server.test {
            try await $0.execute(uri: "/faults", method: .put, body: ByteBuffer(string: body))
        }
        #expect(response.status == .badRequest)
        #expect(server.state.faults == [rule])
    }

    @Test func rulesFromTheStartSpareTheEndpointsThatTakeThemBack() async throws {
        let server = try TestServer(faults: [FaultRule(prefix: "/", fault: .status(500))])
        let statuses = try await server.test { client in
            [
                try await client.execute(uri: "/health", method: .get).status,
                try await client.execute(uri: "/log", method: .get).status,
                try await client.execute(uri: "/faults", method: .delete).status,
                try await client.execute(uri: "/health", method: .get).status,
            ]
        }
        #expect(statuses == [.internalServerError, .ok, .noContent, .ok])
    }

    @Test func theLogShowsTheRequestsAndNotItself() async throws {
        try await server.test { client in
            _ = try await client.execute(uri: "/health?token=secret", method: .get)
            _ = try await client.execute(uri: "/nothing", method: .get)
            let shown = try await client.execute(uri: "/log", method: .get)
            #expect(!shown.text.contains("secret"))
            let entries = try JSONDecoder().decode([RequestLog.Entry].self, from: Data(shown.bytes))
            #expect(entries.map(\.path) == ["/health", "/nothing"])
            #expect(entries.map(\.status) == [200, 404])
            #expect(try await client.execute(uri: "/log", method: .delete).status == .noContent)
            #expect(try await client.execute(uri: "/log", method: .get).text == "[]")
        }
    }
}
