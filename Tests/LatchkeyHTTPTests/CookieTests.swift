// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// Which cookies go where (RFC 6265).
@Suite(.timeLimit(.minutes(8)))
struct CookieTests {
    /// A server that has several names, and sets cookies as the query says: one field for each item.
    private final class Site: Sendable {
        let server: LoopbackServer
        private let transport: CurlTransport
        private static let names = [
            "one.example.com", "two.example.com", "example.com", "other.test", "shop.co.uk", "other.co.uk",
        ]

        init(_ answer: (@Sendable (LoopbackServer.Request) -> LoopbackServer.Reply)? = nil) throws {
            let server = try LoopbackServer { request in
                if let answer { return answer(request) }
                let query = request.target.split(separator: "?").dropFirst().joined()
                return .response(
                    200,
                    query.split(separator: "&").map { "Set-Cookie: " + $0.split(separator: "+").joined(separator: " ") }
                )
            }
            self.server = server
            var settings = CurlSettings(usesProxyEnvironment: false)
            settings.addresses = Self.names.map { "\($0):\(server.port):127.0.0.1" }
            transport = CurlTransport(settings: settings)
        }

        func url(_ host: String, _ target: String) -> String { "http://\(host):\(server.port)\(target)" }

        /// The cookies that a request takes along, in the order of their names.
        @discardableResult
        func ask(
            _ host: String, _ target: String, _ cookies: CookieStore?, own: [String] = []
        ) async throws -> [String] {
            let count = server.requests.count
            let fields = own.map { HTTPHeader(name: "Cookie", value: $0) }
            var request = HTTPRequest.patient(url: url(host, target), headers: fields)
            request.cookies = cookies
            _ = try await transport.send(request)
            return try Self.cookies(of: #require(server.requests.dropFirst(count).first))
        }

        static func cookies(of request: LoopbackServer.Request) throws -> [String] {
            let fields = request.values("cookie")
            try #require(fields.count <= 1)
            return fields.flatMap { $0.split(separator: ";") }.map { String($0.drop { $0 == " " }) }.sorted()
        }
    }

    /// What an answer sets, and where of it something goes along later.
    @Test(arguments: [
        ("/a/b/c?k=v", ["/a/b/d", "/a/b/e/f", "/a/b"], ["/", "/a", "/a/bc", "/x"]),
        ("/a/b?k=v;+Path=/", ["/", "/x"], []),
        ("/a/b?k=v;+Path=/live", ["/live", "/live/x"], ["/", "/a", "/lively"]),
        ("/a?k=v;+Path=nonsense", ["/", "/b"], []),
        ("/?k=v;+Max-Age=100;+Expires=Thu,+01+Jan+1970+00:00:00+GMT", ["/"], []),
        ("/?k=v;+Expires=Fri,+01+Jan+2100+00:00:00+GMT", ["/"], []),
        ("/?k=v;+Expires=Thu,+01+Jan+1970+00:00:01+GMT", [], ["/"]),
        ("/?k=v;+Max-Age=0", [], ["/"]), ("/?k=v;+Max-Age=-1", [], ["/"]), ("/?k=v;+HttpOnly", ["/"], []),
    ])
    func pathsAndTimes(_ target: String, _ with: [String], _ without: [String]) async throws {
        let site = try Site()
        let (fetched, taken) = (CookieStore(), CookieStore())
        try await site.ask("other.test", target, fetched)
        // The same answer, if other code has fetched it.
        let parts = target.split(separator: "?")
        let field = parts.last.map { $0.split(separator: "+").joined(separator: " ") } ?? ""
        taken.take([field], from: "http://other.test\(parts.count > 1 ? parts[0] : "/")")
        for store in [fetched, taken] {
            for path in with { #expect(try await site.ask("other.test", path, store) == ["k=v"], "\(path)") }
            for path in without { #expect(try await site.ask("other.test", path, store) == [], "\(path)") }
        }
    }

    /// Hosts of the cookie's domain get it, and no others. Nobody may set one for a domain of several owners.
    @Test(arguments: [
        ("one.example.com", "k=v", ["one.example.com"]),
        ("one.example.com", "k=v; Domain=example.com", ["one.example.com", "two.example.com", "example.com"]),
        ("one.example.com", "k=v; Domain=.Example.com", ["one.example.com", "two.example.com", "example.com"]),
        ("example.com", "k=v; Domain=example.com", ["one.example.com", "two.example.com", "example.com"]),
        ("example.com", "k=v; Domain=one.example.com", []), ("one.example.com", "k=v; Domain=two.example.com", []),
        ("one.example.com", "k=v; Domain=ample.com", []), ("one.example.com", "k=v; Domain=com", []),
        ("one.example.com", "k=v; Domain=other.test", []), ("other.test", "k=v; Domain=test", []),
        ("127.0.0.1", "k=v", ["127.0.0.1"]), ("127.0.0.1", "k=v; Domain=127.0.0.1", ["127.0.0.1"]),
        ("127.0.0.1", "k=v; Domain=0.0.1", []), ("one.example.com", "k=v; Domain=", ["one.example.com"]),
    ])
    func domains(_ host: String, _ field: String, _ expected: [String]) async throws {
        let site = try Site()
        let (fetched, taken) = (CookieStore(), CookieStore())
        try await site.ask(host, "/?" + field.split(separator: " ").joined(separator: "+"), fetched)
        taken.take([field], from: "http://\(host)/")
        for (name, store) in [("fetched", fetched), ("taken", taken)] {
            for other in ["one.example.com", "two.example.com", "example.com", "other.test", "127.0.0.1"] {
                let sent = try await site.ask(other, "/", store)
                #expect(sent == (expected.contains(other) ? ["k=v"] : []), "\(name): \(other)")
            }
        }
    }

    /// As far as libcurl has the list of such domains, which all supported distributions build it with.
    @Test func publicSuffixes() async throws {
        guard try CurlLibrary.shared(for: "").hasPublicSuffixes else { return }
        let site = try Site()
        let (fetched, taken) = (CookieStore(), CookieStore())
        try await site.ask("shop.co.uk", "/?k=v;+Domain=co.uk&mine=1;+Domain=shop.co.uk", fetched)
        taken.take(["k=v; Domain=co.uk", "mine=1; Domain=shop.co.uk"], from: "https://shop.co.uk/")
        for store in [fetched, taken] {
            #expect(try await site.ask("shop.co.uk", "/", store) == ["mine=1"])
            #expect(try await site.ask("other.co.uk", "/", store) == [])
        }
    }

    @Test func secureOnesDoNotGoInTheClear() async throws {
        let site = try Site()
        let cookies = CookieStore()
        cookies.take(["k=v; Secure", "l=w"], from: "https://other.test/")
        #expect(try await site.ask("other.test", "/", cookies) == ["l=w"])
        // No one is between this machine and itself.
        cookies.take(["k=v; Secure"], from: "https://127.0.0.1/")
        #expect(try await site.ask("127.0.0.1", "/", cookies) == ["k=v"])
    }

    /// Not even by a field that other code has fetched.
    @Test func secureOnesAreNotSetInTheClear() throws {
        func isTaken(_ url: String) -> Bool { CookieStore.line(of: "k=v; Secure", from: url, at: 0) != nil }
        for url in ["https://other.test/", "http://127.0.0.1/", "http://[::1]:1/", "http://localhost/"] {
            #expect(isTaken(url), "\(url)")
        }
        #expect(!isTaken("http://other.test/"))
        #expect(CookieStore.line(of: "k=v", from: "http://other.test/", at: 0) != nil)
    }

    /// An answer that redirects sets cookies like others, and they go on to where they are for.
    @Test func redirects() async throws {
        let site = try Site { request in
            let fields = ["Set-Cookie: \(request.values("host")[0].prefix(3))=1", "Location: /there"]
            if request.target.hasPrefix("/here") { return .response(302, fields) }
            if request.target == "/there" {
                let port = request.values("host")[0].split(separator: ":").last ?? ""
                return .response(307, ["Location: http://two.example.com:\(port)/end"])
            }
            return .response(200, [fields[0]])
        }
        let cookies = CookieStore()
        #expect(try await site.ask("one.example.com", "/here", cookies) == [])
        #expect(try site.server.requests.map(Site.cookies) == [[], ["one=1"], []])
        #expect(try await site.ask("one.example.com", "/x", cookies) == ["one=1"])
        #expect(try await site.ask("two.example.com", "/x", cookies) == ["two=1"])
    }

    @Test func presentationsAreSeparate() async throws {
        let site = try Site()
        let (first, second) = (CookieStore(), CookieStore())
        #expect(!first.hasBeenUsed)
        async let a = site.ask("other.test", "/?k=first", first)
        async let b = site.ask("other.test", "/?k=second", second)
        _ = try await (a, b)
        #expect(try await site.ask("other.test", "/", first) == ["k=first"])
        #expect(try await site.ask("other.test", "/", second) == ["k=second"])
        #expect(try await site.ask("other.test", "/", nil) == [])
        #expect(first.hasBeenUsed)
        #expect(!"\(first)".contains("first"))
    }

    /// The caller's own are in the same field, and are not kept.
    @Test func theCallersCookiesGoAlong() async throws {
        let site = try Site()
        let cookies = CookieStore()
        try await site.ask("other.test", "/?k=v", cookies, own: ["own=1"])
        #expect(
            try await site.ask("other.test", "/", cookies, own: ["a=1; b=2", "c=3"]) == ["a=1", "b=2", "c=3", "k=v"])
        #expect(try await site.ask("other.test", "/", cookies) == ["k=v"])
    }

    @Test func aLaterOneTakesThePlaceOfTheFirst() async throws {
        let site = try Site()
        let cookies = CookieStore()
        cookies.take(["k=1", "l=1", "m=\"x y\"; HttpOnly"], from: site.url("other.test", "/"))
        try await site.ask("other.test", "/?k=2&l=;+Max-Age=0", cookies)
        #expect(try await site.ask("other.test", "/", cookies) == ["k=2", "m=\"x y\""])
        cookies.take(["k=3"], from: site.url("other.test", "/"))
        #expect(try await site.ask("other.test", "/", cookies) == ["k=3", "m=\"x y\""])
    }

    /// What would be another cookie in libcurl's notation is none.
    @Test(arguments: [
        "k=v\tTRUE", "k\t=v", "k=v\r\nother.test\tFALSE\t/\tFALSE\t0\tx\ty", "", "k", "=", "=v", ";", ";k=v",
    ])
    func nonsense(_ field: String) async throws {
        let site = try Site()
        let cookies = CookieStore()
        cookies.take([field, "l=\(String(repeating: "x", count: 6000))", "good=1"], from: site.url("other.test", "/"))
        cookies.take(["k=v"], from: "no URL")
        #expect(try await site.ask("other.test", "/", cookies) == ["good=1"])
    }

    /// A server can have a presentation keep so many, and no more.
    @Test func theirNumberIsBounded() async throws {
        let site = try Site { request in
            guard request.target.hasPrefix("/many") else { return .response() }
            let fields = (0..<40).map { "Set-Cookie: c\($0)=1; Path=\(request.target)" }
            return .response(200, fields + ["Set-Cookie: last=1; Path=/"])
        }
        let cookies = CookieStore()
        // Those of one answer over and over again are few.
        for _ in 0...CookieStore.limit / 41 { try await site.ask("other.test", "/many/0", cookies) }
        #expect(try await site.ask("other.test", "/", cookies) == ["last=1"])
        for number in 1..<CookieStore.limit / 40 { try await site.ask("other.test", "/many/\(number)", cookies) }
        #expect(try await site.ask("other.test", "/", cookies) == ["last=1"])
        try await site.ask("other.test", "/many/last", cookies)
        #expect(try await site.ask("other.test", "/", cookies) == [])
    }
}
