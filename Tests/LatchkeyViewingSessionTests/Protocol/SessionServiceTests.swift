// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyViewingSession

@Suite("Session services")
struct SessionServiceTests {
    private static let url = "https://sessions.example/api"

    private static func service(_ adapter: SessionAdapter = .latchkey) -> SessionService {
        SessionService(
            adapter, url: url, credential: "geheim",
            parameters: ["account": "a/1", "device": "d\"1", "provider": "p", "content": "film"])
    }

    private static func request(
        _ kind: SessionState.Request.Kind, token: String? = nil, reference: String? = nil
    ) -> SessionState.Request {
        SessionState.Request(
            kind: kind, generation: 1, number: 1, sentAt: 0, timeout: 4_000, token: token.map { SessionToken($0) },
            reference: reference)
    }

    private static func response(
        _ status: Int, _ body: String = "", _ headers: [String: String] = [:]
    ) -> HTTPResponse {
        HTTPResponse(
            status: status, headers: headers.map { HTTPHeader(name: $0.key, value: $0.value) }, body: Array(body.utf8),
            url: url)
    }

    private static func failure(_ reply: SessionState.Reply) throws -> SessionFailure {
        guard case .failed(let failure) = reply else { throw KeyError.denied("granted") }
        return failure
    }

    private static func grant(_ reply: SessionState.Reply) throws -> SessionGrant {
        guard case .granted(let grant) = reply else { throw KeyError.denied("\(reply)") }
        return grant
    }

    // MARK: Requests

    @Test func ownShape() throws {
        let service = Self.service()
        let setup = try service.request(Self.request(.setup), session: "s1")
        #expect(setup.method == "POST" && setup.url == "\(Self.url)/sessions" && setup.staysWithinOrigin)
        #expect(
            String(decoding: setup.body, as: UTF8.self)
                == #"{"accountId":"a/1","contentId":"film","deviceId":"d\"1","sessionId":"s1"}"#)
        #expect(setup.headers.contains(HTTPHeader(name: "Authorization", value: "Bearer geheim")))
        #expect(setup.timeout == .seconds(4) && setup.maximumResponseSize == 65_536)
        let beat = try service.request(Self.request(.beat, token: "t1"), session: "s1")
        #expect(beat.url == "\(Self.url)/sessions/s1/heartbeat")
        #expect(String(decoding: beat.body, as: UTF8.self) == #"{"token":"t1"}"#)
        let teardown = try service.request(Self.request(.teardown), session: "s1")
        #expect(teardown.method == "DELETE" && teardown.url == "\(Self.url)/sessions/s1" && teardown.body.isEmpty)
        let terminating = try service.request(Self.request(.setup), session: "s1", termination: "x")
        #expect(String(decoding: terminating.body, as: UTF8.self).contains(#""terminate":"x""#))
    }

    @Test func conflictAndTerminateStyle() throws {
        let service = Self.service(.terminate)
        let setup = try service.request(Self.request(.setup), session: "s1", termination: "code")
        #expect(setup.url == "\(Self.url)/sessions/p/a%2F1")
        #expect(setup.headers.contains(HTTPHeader(name: "X-Terminate", value: "code")))
        let plain = try service.request(Self.request(.setup), session: "s1")
        #expect(!plain.headers.contains { $0.name == "X-Terminate" })
        for reference in ["/sessions/9", "https://sessions.example/sessions/9"] {
            let beat = try service.request(Self.request(.beat, reference: reference), session: "s1")
            #expect(beat.url == "https://sessions.example/sessions/9")
        }
    }

    @Test(arguments: [
        "https://elsewhere.example/x", "//elsewhere.example/x", "http://sessions.example/x", "x", "",
        "https://sessions.example@elsewhere.example/", "https://sessions.example:444/", "https://u@sessions.example/",
        #"https://sessions.example\@elsewhere.example/"#, #"https://sessions.example\/x"#,
    ])
    func aPlaceAtAnotherServerIsRefused(reference: String) {
        #expect(throws: KeyError.self) {
            try Self.service(.terminate).request(Self.request(.beat, reference: reference), session: "s1")
        }
    }

    @Test func aMissingParameterIsNamed() {
        let service = SessionService(.terminate, url: Self.url)
        #expect(
            throws: KeyError.invalidConfiguration("the session server wants “account”; set it in the configuration")
        ) {
            var service = service
            service.parameters["provider"] = "p"
            return try service.request(Self.request(.setup), session: "s1")
        }
    }

    // MARK: Answers

    @Test func grants() throws {
        let service = Self.service()
        let answer = Self.response(201, #"{"token":"t","heartbeatInterval":30,"missedHeartbeats":4,"more":[{}]}"#)
        #expect(
            try Self.grant(service.reply(to: .setup, answer))
                == SessionGrant(token: SessionToken("t"), interval: 30_000, missedBeats: 4))
        #expect(try Self.grant(service.reply(to: .beat, Self.response(200, #"{"token":"u"}"#))).interval == nil)
        #expect(try Self.grant(service.reply(to: .teardown, Self.response(204))) == SessionGrant())
        // The interval that makes no sense is handed on; the session state refuses it.
        for text in ["0", "-3", "1e300", #""x""#, "null", "[]"] {
            let answer = Self.response(200, #"{"token":"t","heartbeatInterval":\#(text)}"#)
            let interval = try Self.grant(service.reply(to: .setup, answer)).interval
            #expect(interval.map { !SessionPolicy.intervals.contains($0) } ?? false, "\(text)")
        }
    }

    @Test func timesOfTheServerAreUsedAsDifferencesOnly() throws {
        let answer = Self.response(
            202, "",
            [
                "Location": "/sessions/9", "Date": "Thu, 01 Jan 2099 00:00:00 GMT",
                "Expires": "Thu, 01 Jan 2099 00:03:00 GMT",
            ])
        let grant = try Self.grant(Self.service(.terminate).reply(to: .setup, answer))
        #expect(grant == SessionGrant(reference: "/sessions/9", interval: 60_000, missedBeats: 3))
    }

    @Test(arguments: [
        (SessionState.Request.Kind.setup, 403, #"{"errorCode":1007}"#, SessionFailure.Kind.limit),
        (.beat, 403, #"{"errorCode":"1007"}"#, .ended),
        (.beat, 200, "<html>", .unknown), (.beat, 200, #"{"token":"#, .unknown), (.beat, 200, "{}", .unknown),
        (.beat, 502, "<html>Bad gateway</html>", .unknown), (.beat, 404, "<html>", .unknown),
        (.beat, 404, #"{"errorCode":1}"#, .ended), (.setup, 404, "{}", .refused), (.beat, 410, "{}", .ended),
        (.beat, 401, "{}", .credential), (.beat, 400, #"{"errorCode":1006}"#, .credential),
        (.setup, 403, #"{"errorCode":1009}"#, .refused), (.beat, 500, #"{"errorCode":4001}"#, .unknown),
        (.beat, 429, "{}", .unknown), (.beat, 408, "{}", .unknown), (.beat, 418, "{}", .refused),
        (.teardown, 404, "{}", .ended), (.setup, 200, #"{"token":7e-1}"#, .unknown), (.setup, 200, "", .unknown),
    ])
    func whatAnswersMean(
        kind: SessionState.Request.Kind, status: Int, body: String, expected: SessionFailure.Kind
    ) throws {
        #expect(try Self.failure(Self.service().reply(to: kind, Self.response(status, body))).kind == expected)
    }

    @Test func conflictsAreListed() throws {
        let body = #"""
            {"errorCode":1007,"message":"two\u0007screens","conflicts":[{"sessionId":"s1","deviceId":"TV",
            "terminationCode":"geheim"},{"deviceId":"no name"},{"sessionId":"s2"}]}
            """#
        let failure = try Self.failure(Self.service().reply(to: .setup, Self.response(403, body)))
        #expect(failure.message == "two screens" && failure.code == "1007" && failure.status == 403)
        #expect(
            failure.conflicts == [
                .init(reference: "s1", label: "TV", terminationCode: "geheim"), .init(reference: "s2"),
            ])
        #expect(!"\(failure)".contains("geheim"))
        let other = #"{"conflicts":[{"terminationCode":"c","attributes":{"deviceId":"TV"}}]}"#
        let style = try Self.failure(Self.service(.terminate).reply(to: .setup, Self.response(409, other)))
        #expect(style.kind == .limit && style.conflicts.first?.label == "TV")
        #expect(try Self.failure(Self.service(.terminate).reply(to: .beat, Self.response(410))).kind == .ended)
    }

    @Test func aFailureDoesNotRepeatTheCredential() throws {
        // The secret goes before the text is cut.
        let body = #"{"errorCode":1009,"message":"\#(String(repeating: "x", count: 509))geheim"}"#
        let failure = try Self.failure(Self.service().reply(to: .setup, Self.response(403, body)))
        #expect(failure.kind == .refused && failure.message == String(repeating: "x", count: 509) + "[…]")
        let list = #"{"conflicts":[{"sessionId":"geheim-1","deviceId":"TV of geheim","terminationCode":"geheim"}]}"#
        let conflicts = try Self.failure(Self.service().reply(to: .setup, Self.response(403, list))).conflicts
        #expect(conflicts == [.init(reference: "[…]-1", label: "TV of […]", terminationCode: "geheim")])
    }

    @Test(arguments: ["{token}", "{credential}", "{termination}"])
    func anErrorOfTheTransportDoesNotRepeatSecretsInThePath(name: String) throws {
        var service = Self.service()
        service.adapter.heartbeat.path = "/beat/\(name)/x"
        let beat = try service.request(Self.request(.beat, token: "t0k"), session: "s1", termination: "c0de")
        #expect(["t0k", "geheim", "c0de"].contains { beat.url == "\(Self.url)/beat/\($0)/x" })
        let failure = try Self.failure(service.reply(to: .beat, HTTPError.timedOut(beat.url, "no answer")))
        #expect(failure.kind == .unknown && failure.message == "timed out: \(Self.url)")
        let setup = try Self.failure(service.reply(to: .setup, HTTPError.timedOut("\(Self.url)/sessions", "no answer")))
        #expect(setup.message == "timed out: \(Self.url)/sessions: no answer")
    }

    @Test func retryAfter() throws {
        func asked(_ headers: [String: String]) throws -> Int64? {
            try Self.failure(Self.service().reply(to: .beat, Self.response(503, "", headers))).retryAfter
        }
        #expect(try asked(["retry-after": "7"]) == 7_000)
        #expect(try asked(["Retry-After": "-7"]) == 0)
        #expect(try asked(["Retry-After": "99999999999"]) == 86_400_000)
        #expect(try asked(["Retry-After": "soon"]) == nil)
        let date = "Wed, 21 Oct 2026 07:28:00 GMT"
        #expect(try asked(["Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": date]) == 30_000)
        #expect(try asked(["Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"]) == nil, "the own clock is not asked")
    }

    @Test func failuresOfTheNetwork() throws {
        func kind(_ error: HTTPError) throws -> SessionFailure.Kind {
            try Self.failure(Self.service().reply(to: .beat, error)).kind
        }
        #expect(try kind(.refused(Self.url)) == .unknown && kind(.timedOut(Self.url)) == .unknown)
        #expect(try kind(.truncated(Self.url)) == .unknown && kind(.tooLarge(Self.url)) == .unknown)
        #expect(try kind(.untrusted(Self.url)) == .insecure && kind(.redirect(Self.url)) == .unknown)
        #expect(try kind(.tls(Self.url)) == .insecure && kind(.invalidURL("x")) == .refused)
    }

    @Test func dates() {
        #expect(HTTPDate.seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0)
        #expect(HTTPDate.seconds("Sun, 06 Nov 1994 08:49:37 GMT") == 784_111_777)
        #expect(HTTPDate.seconds("Thu, 29 Feb 2024 23:59:60 GMT") == 1_709_251_200)
        for text in ["", "Thu, 1 Foo 1970 00:00:00 GMT", "Thu, 01 Jan 1970 24:00:00 GMT", "0", "a b c d e GMT"] {
            #expect(HTTPDate.seconds(text) == nil)
        }
    }

    // MARK: Adapters

    @Test(arguments: SessionAdapter.shipped) func anAdapterIsData(adapter: SessionAdapter) throws {
        #expect(try SessionAdapter(json: adapter.json, name: "x") == adapter)
        #expect(!adapter.endsWithToken)
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The table of docs/sessions.md has each member of the shipped adapters.
    @Test(arguments: SessionAdapter.shipped) func theDocumentationHasEachMember(adapter: SessionAdapter) throws {
        let page = try String(
            contentsOf: Self.root.appendingPathComponent("gst-plugin/docs/sessions.md"), encoding: .utf8)
        let members = try #require(JSONSerialization.jsonObject(with: Data(adapter.json)) as? [String: Any])
        var names = Array(members.keys)
        for (prefix, member) in [("….", "setup"), ("….", "heartbeat"), ("….", "teardown"), ("answer.", "answer")] {
            names += try #require(members[member] as? [String: Any], "\(member)").keys.map { prefix + $0 }
        }
        for rule in try #require(members["rules"] as? [[String: Any]]) { names += rule.keys.map { "rules.N." + $0 } }
        let missing = names.filter { !page.contains("`\($0)`") }
        #expect(names.count > 20 && missing.isEmpty, "\(missing)")
    }

    /// examples/sessions has the shipped adapters as files.
    @Test(arguments: SessionAdapter.shipped) func theExampleFilesAreTheShippedAdapters(adapter: SessionAdapter) throws {
        let file = try Data(contentsOf: Self.root.appendingPathComponent("examples/sessions/\(adapter.name).json"))
        #expect(try SessionAdapter(json: Array(file), name: adapter.name) == adapter)
    }

    @Test func aHeartbeatIntervalOutOfRangeNamesItsMember() throws {
        let answer = Self.response(200, #"{"token":"t","heartbeatInterval":3}"#)
        let grant = try Self.grant(Self.service().reply(to: .setup, answer))
        #expect(grant.intervalPlace == "the member heartbeatInterval")
    }

    @Test func whatIsMisspeltIsNamed() throws {
        let text = String(decoding: SessionAdapter.latchkey.json, as: UTF8.self)
        func error(_ old: String, _ new: String) -> String? {
            #expect(text.contains(old))
            do throws(KeyError) {
                _ = try SessionAdapter(json: Array(text.replacingOnce(old, with: new).utf8), name: "file.json")
                return nil
            } catch {
                return error.reason
            }
        }
        #expect(error("\"heartbeat\" : {", "\"hartbeat\" : {") == "file.json: the member hartbeat is not known")
        #expect(error("\"conflicts\" : ", "\"konflikte\" : ") == "file.json: the member answer.konflikte is not known")
        #expect(
            error("\"/sessions\"", "\"sessions\"")
                == "file.json: setup.path is “sessions”; it must start with a slash, or be {reference}")
        #expect(error("\"means\" : \"ended\"", "\"means\" : \"over\"")?.hasPrefix("file.json: rules.0.means") == true)
        #expect(
            error("\"intervalUnit\" : 1000", "\"intervalUnit\" : 0")
                == "file.json: answer.intervalUnit is 0; it must be from 1 to 86400000 milliseconds")
        #expect(throws: KeyError.self) { try SessionAdapter(json: Array("{".utf8), name: "x") }
        #expect(throws: KeyError.self) { try SessionAdapter(json: Array("{}".utf8), name: "x") }
    }

    @Test func secretsDoNotPrint() {
        let service = Self.service()
        #expect(!"\(service) \(String(reflecting: service))".contains("geheim"))
    }
}

extension String {
    fileprivate func replacingOnce(_ old: String, with new: String) -> String {
        guard let range = range(of: old) else { return self }
        return replacingCharacters(in: range, with: new)
    }
}
