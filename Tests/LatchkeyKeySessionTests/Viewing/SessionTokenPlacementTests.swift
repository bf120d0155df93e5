// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyProtection
import LatchkeyViewingSession
import Testing

@testable import LatchkeyKeySession

@Suite("Session token placement")
struct SessionTokenPlacementTests {
    private static let token = SessionToken(#"a b,"ü"#)

    private static func request(_ type: String? = nil, _ body: String = "") -> HTTPRequest {
        HTTPRequest(
            method: "POST", url: "https://keys.example/x?y=1#z",
            headers: type.map { [HTTPHeader(name: "content-type", value: $0)] } ?? [], body: Array(body.utf8))
    }

    @Test func aHeaderOfItsOwn() throws {
        var request = Self.request()
        request.headers = [HTTPHeader(name: "x-session-token", value: "old")]
        try SessionTokenPlacement(.header).add(SessionToken("new"), to: &request)
        #expect(request.headers == [HTTPHeader(name: "X-Session-Token", value: "new")])
        #expect(request.staysWithinOrigin)
    }

    @Test func behindAComma() throws {
        var request = Self.request()
        let placement = SessionTokenPlacement(.joinedHeader, name: "Authorizations")
        try placement.add(SessionToken("a"), to: &request)
        try placement.add(SessionToken("b"), to: &request)
        #expect(request.headers == [HTTPHeader(name: "Authorizations", value: "a,b")])
    }

    @Test func inTheQuery() throws {
        var request = Self.request()
        try SessionTokenPlacement(.query).add(Self.token, to: &request)
        #expect(request.url == "https://keys.example/x?y=1&sessionToken=a%20b%2C%22%C3%BC")
        request.url = "https://keys.example/x"
        try SessionTokenPlacement(.query, name: "t").add(SessionToken("1"), to: &request)
        #expect(request.url == "https://keys.example/x?t=1")
    }

    @Test(arguments: ["{}", " {\n}", #"{"kids":["a"]}"#]) func inAnObject(body: String) throws {
        var request = Self.request("application/json; charset=utf-8", body)
        try SessionTokenPlacement(.body).add(Self.token, to: &request)
        let object = try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]
        #expect(object?["sessionToken"] as? String == #"a b,"ü"#)
        #expect(object?.count == (body.contains("kids") ? 2 : 1))
    }

    @Test func inAForm() throws {
        var request = Self.request("application/x-www-form-urlencoded", "spc=1")
        try SessionTokenPlacement(.body, name: "t").add(SessionToken("1+1"), to: &request)
        #expect(String(decoding: request.body, as: UTF8.self) == "spc=1&t=1%2B1")
    }

    @Test(arguments: ["", "[]", "SPC", "{", "<xml/>"]) func whereThereIsNoPlace(body: String) {
        var request = Self.request("application/octet-stream", body)
        #expect(throws: KeyError.self) { try SessionTokenPlacement(.body).add(Self.token, to: &request) }
    }

    @Test func settingsAreReadAndMistakesNamed() throws {
        let settings = try ViewingSettings(
            [
                "server-url": "https://s.example", "adapter": "terminate", "token-form": "joined-header",
                "token-name": "nv-authorizations", "at-limit": "stop-oldest", "interval": "30",
                "missed-heartbeats": "4", "pause-limit": "60", "replace-ended": "true", "credential": "geheim",
            ], parameters: ["account": "anna"], environment: ["HOME": "/home/anna"])
        #expect(settings.service.adapter == .terminate && settings.service.parameters == ["account": "anna"])
        #expect(settings.token == SessionTokenPlacement(.joinedHeader, name: "nv-authorizations"))
        #expect(settings.stopsOldest && settings.policy.interval == 30_000 && settings.policy.missedBeats == 4)
        #expect(settings.policy.pauseLimit == 60_000 && settings.policy.replacesEndedSession)
        #expect(settings.recordsFolder == "/home/anna/.local/state/latchkey/sessions")
        #expect(!"\(settings) \(String(reflecting: settings))".contains("geheim"))
        for (name, value) in [
            ("token-form", "cookie"), ("token-name", "a b"), ("at-limit", "no"), ("interval", "4"), ("adapter", "x"),
            ("missed-heartbeats", "1"), ("pause-limit", "-1"), ("replace-ended", "yes"), ("other", "1"),
        ] {
            #expect(throws: KeyError.self, "\(name)=\(value)") {
                try ViewingSettings(["server-url": "https://s.example", name: value], environment: [:])
            }
        }
        #expect(throws: KeyError.self) { try ViewingSettings([:], headers: [HTTPHeader(name: "a", value: "b")]) }
        for url in ["ftp://s.example/api?key=geheim", "s.example", "https:", "/api"] {
            let error = #expect(throws: KeyError.self, "\(url)") {
                try ViewingSettings(["server-url": url], environment: [:])
            }
            let text = error?.description ?? ""
            #expect(text.hasPrefix("invalid configuration: server-url=") && !text.contains("geheim"), "\(text)")
        }
    }
}
