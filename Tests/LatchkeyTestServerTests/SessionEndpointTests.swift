// SPDX-License-Identifier: MPL-2.0

import Foundation
import HTTPTypes
import NIOCore
import Testing

@testable import LatchkeyTestServer

@Suite("Session endpoints")
struct SessionEndpointTests {
    private static func test(
        _ change: (inout SessionSettings) -> Void = { _ in },
        _ body: @escaping @Sendable (TestClient) async throws -> Void
    ) async throws {
        var settings = ServerSettings()
        change(&settings.sessions)
        let server = try #require(ServerApplication(settings: settings.patient))
        try await withTestClient(of: server, body)
    }

    private static func post(
        _ client: TestClient, _ uri: String, _ body: String = "", _ headers: HTTPFields = [:]
    ) async throws -> TestResponse {
        try await client.execute(uri: uri, method: .post, headers: headers, body: ByteBuffer(string: body))
    }

    private static func object(_ response: TestResponse) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(response.bytes)) as? [String: Any])
    }

    @Test func aSessionLives() async throws {
        try await Self.test { client in
            let granted = try await Self.post(client, "/sessions", #"{"sessionId":"s1","accountId":"anna"}"#)
            #expect(granted.status == .created)
            let grant = try Self.object(granted)
            #expect(grant["heartbeatInterval"] as? Int == 60 && grant["missedHeartbeats"] as? Int == 3)
            let token = try #require(grant["token"] as? String)
            let beat = try await Self.post(client, "/sessions/s1/heartbeat", #"{"token":"\#(token)"}"#)
            #expect(beat.status == .ok)
            #expect(try Self.object(beat)["token"] as? String != token)
            let wrong = try await Self.post(client, "/sessions/s1/heartbeat", #"{"token":"x"}"#)
            #expect(wrong.status == .forbidden)
            #expect(try Self.object(wrong)["errorCode"] as? Int == 1006)
            #expect(try await client.execute(uri: "/sessions/s1", method: .delete).status == .noContent)
            #expect(try await client.execute(uri: "/sessions/s1", method: .delete).status == .gone)
            #expect(try await client.execute(uri: "/sessions/none", method: .delete).status == .notFound)
            #expect(try await Self.post(client, "/sessions", "{").status == .badRequest)
            #expect(try await client.execute(uri: "/sessions", method: .get).status == .methodNotAllowed)
        }
    }

    @Test func theLimitIsToldWithWhatIsInTheWay() async throws {
        try await Self.test({ $0.perAccount = 1 }) { client in
            _ = try await Self.post(
                client, "/sessions", #"{"sessionId":"s1","accountId":"anna","deviceId":"TV"}"#)
            let refused = try await Self.post(client, "/sessions", #"{"sessionId":"s2","accountId":"anna"}"#)
            #expect(refused.status == .forbidden)
            let failure = try Self.object(refused)
            #expect(failure["errorCode"] as? Int == 1007)
            let conflict = try #require((failure["conflicts"] as? [[String: Any]])?.first)
            #expect(conflict["deviceId"] as? String == "TV")
            let code = try #require(conflict["terminationCode"] as? String)
            let taken = try await Self.post(
                client, "/sessions", #"{"sessionId":"s2","accountId":"anna","terminate":"\#(code)"}"#)
            #expect(taken.status == .created)
        }
    }

    @Test func theCredentialIsChecked() async throws {
        try await Self.test({ $0.credential = "geheim" }) { client in
            let setup = #"{"sessionId":"s1","accountId":"anna"}"#
            let refused = try await Self.post(client, "/sessions", setup)
            #expect(refused.status == .unauthorized)
            #expect(try Self.object(refused)["errorCode"] as? Int == 1003)
            let granted = try await Self.post(client, "/sessions", setup, [.authorization: "Bearer geheim"])
            #expect(granted.status == .created)
        }
    }

    @Test func licensesAreForThoseWithASession() async throws {
        try await Self.test({ $0.guardsLicenses = true }) { client in
            let refused = try await Self.post(client, "/clearkey", #"{"kids":[]}"#)
            #expect(refused.status == .forbidden)
            #expect(try Self.object(refused)["errorCode"] as? Int == 1006)
            let granted = try await Self.post(client, "/sessions", #"{"sessionId":"s1","accountId":"anna"}"#)
            let token = try #require(try Self.object(granted)["token"] as? String)
            let name = try #require(HTTPField.Name("X-Session-Token"))
            let json: HTTPFields = [.contentType: "application/json"]
            for response in [
                try await Self.post(client, "/clearkey", "", [name: token]),
                try await Self.post(client, "/clearkey", "", [name: "other, \(token)"]),
                try await Self.post(client, "/clearkey?sessionToken=\(token)"),
                try await Self.post(client, "/clearkey", #"{"sessionToken":"\#(token)"}"#, json),
            ] {
                // The service itself has no such key.
                #expect(response.status != .forbidden)
            }
            let wrong = try await Self.post(client, "/clearkey", "{", json)
            #expect(wrong.status == .forbidden)
            _ = try await client.execute(uri: "/sessions/s1", method: .delete)
            #expect(try await Self.post(client, "/clearkey", "", [name: token]).status == .forbidden)
        }
    }

    @Test(arguments: [-7200, 0, 7200]) func theClockMayBeWrong(skew: Int) async throws {
        try await Self.test({ $0.clockSkew = skew }) { client in
            let granted = try await Self.post(client, "/terminate/sessions/idp/anna")
            let formatter = DateFormatter()
            formatter.locale = Locale(identifier: "en_US_POSIX")
            formatter.timeZone = .gmt
            formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
            let texts = (try #require(granted.headers[.date]), try #require(granted.headers[.expires]))
            let date = try #require(formatter.date(from: texts.0))
            let expires = try #require(formatter.date(from: texts.1))
            #expect(expires.timeIntervalSince(date) == 180)
            #expect(abs(date.timeIntervalSinceNow - TimeInterval(skew)) < 600)
        }
    }

    @Test func theOtherStyle() async throws {
        try await Self.test({
            $0.perAccount = 1
            $0.interval = 20
        }) { client in
            let granted = try await Self.post(client, "/terminate/sessions/idp/anna")
            #expect(granted.status == .accepted)
            let place = try #require(granted.headers[.location])
            let (date, expires) = (try #require(granted.headers[.date]), try #require(granted.headers[.expires]))
            #expect(date.hasSuffix(" GMT") && expires.count == 29 && date != expires)
            #expect(try await Self.post(client, place).status == .accepted)
            let conflict = try await Self.post(client, "/terminate/sessions/idp/anna")
            #expect(conflict.status == .conflict)
            let codes = try #require(try Self.object(conflict)["conflicts"] as? [[String: Any]])
            let code = try #require(codes.first?["terminationCode"] as? String)
            let name = try #require(HTTPField.Name("X-Terminate"))
            let taken = try await Self.post(client, "/terminate/sessions/idp/anna", "", [name: code])
            #expect(taken.status == .accepted)
            let over = try await Self.post(client, place)
            #expect(over.status == .gone)
            #expect(over.text.contains("ended for another session"))
            let next = try #require(taken.headers[.location])
            #expect(try await client.execute(uri: next, method: .delete).status == .accepted)
        }
    }

    @Test func anAdministratorEndsSessionsAndCountersTell() async throws {
        try await Self.test { client in
            for id in ["s1", "s2"] {
                _ = try await Self.post(client, "/sessions", #"{"sessionId":"\#(id)","accountId":"anna"}"#)
            }
            let before = try await client.execute(uri: "/session-metrics", method: .get)
            #expect(before.text.contains("latchkey_sessions_active 2\n"))
            let ended = try await Self.post(client, "/session-end?account=anna")
            #expect(ended.text == #"{"ended":2}"#)
            #expect(try await Self.post(client, "/session-end").text == #"{"ended":0}"#)
            let beat = try await Self.post(client, "/sessions/s1/heartbeat", #"{"token":"x"}"#)
            #expect(beat.status == .gone)
            let text = try await client.execute(uri: "/session-metrics", method: .get).text
            #expect(text.contains("latchkey_sessions_active 0\n"))
            #expect(text.contains("latchkey_sessions_ended_total{reason=\"administrator\"} 2\n"))
            #expect(text.contains("latchkey_session_heartbeats_refused_total 1\n"))
        }
    }
}
