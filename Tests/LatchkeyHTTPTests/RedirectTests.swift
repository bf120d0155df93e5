// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// Where redirects lead and what goes along.
@Suite(.timeLimit(.minutes(8)))
struct RedirectTests {
    let transport = CurlTransport.direct()
    let credentials = [
        HTTPHeader(name: "Authorization", value: "Bearer s3cret"), HTTPHeader(name: "Cookie", value: "a=s3cret"),
        HTTPHeader(name: "X-Service-Token", value: "s3cret"), HTTPHeader(name: "Accept", value: "text/xml"),
    ]

    @Test func withinTheOriginEverythingGoesAlong() async throws {
        let server = try LoopbackServer { request in
            request.target == "/a/b?c" ? .redirect(302, to: "../d?e=f#g") : .response(body: "there")
        }
        let address = "http://me:s3cret@127.0.0.1:\(server.port)"
        let response = try await transport.get(address + "/a/b?c", Array(credentials.dropFirst()))
        #expect(response.text == "there")
        #expect(response.url == address + "/d?e=f")
        #expect(server.requests.map(\.target) == ["/a/b?c", "/d?e=f"])
        for request in server.requests {
            #expect(request.values("authorization") == ["Basic bWU6czNjcmV0"])
            #expect(request.values("cookie") == ["a=s3cret"])
            #expect(request.values("x-service-token") == ["s3cret"])
        }
        #expect(server.connectionCount == 1)
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func toAnotherOriginNoCredentialFollows(_ status: Int) async throws {
        let other = try LoopbackServer { _ in .response(body: "there") }
        let otherURL = "http://x:y@127.0.0.1:\(other.port)/there"
        let server = try LoopbackServer { _ in .redirect(status, to: otherURL) }
        let fields = credentials + [HTTPHeader(name: "Content-Type", value: "text/plain")]
        let response = try await transport.send(
            .patient(method: "POST", url: server.url, headers: fields, body: Array("challenge".utf8)))
        #expect(response.text == "there")
        #expect(response.url == other.url + "/there")

        let first = try #require(server.requests.first)
        #expect(first.values("authorization") == ["Bearer s3cret"])
        let second = try #require(other.requests.first)
        #expect(second.values("authorization") == [])
        #expect(second.values("cookie") == [])
        #expect(second.values("x-service-token") == [])
        #expect(second.values("accept") == ["text/xml"])
        let keepsBody = status >= 307
        #expect(second.method == (keepsBody ? "POST" : "GET"))
        #expect(second.body == (keepsBody ? Array("challenge".utf8) : []))
        #expect(second.values("content-type") == (keepsBody ? ["text/plain"] : []))
    }

    /// Where one should ask from now on: not behind a redirect that is for now.
    @Test(
        arguments: [
            ([301, 308], "http://one.example/2"), ([308, 307, 301], "http://one.example/1"), ([302, 301], nil),
            ([], nil),
            ([303], nil),
        ] as [([Int], String?)])
    func redirectsForGood(_ statuses: [Int], _ moved: String?) throws {
        var chain = try RedirectChain(HTTPRequest(url: "http://one.example/"))
        for (number, status) in statuses.enumerated() {
            let follows = try chain.follow(redirect(status, "/\(number + 1)"))
            #expect(follows)
        }
        #expect(chain.movedURL == moved)
    }

    @Test(arguments: [
        (307, "http://two.example/", false), (308, "//one.example:81/", false), (307, "/b", true),
        (302, "http://two.example/", false), (303, "/b", true),
    ])
    func aRequestStaysWithinItsOriginWhereItSaysSo(_ status: Int, _ location: String, _ isFollowed: Bool) throws {
        var request = HTTPRequest(method: "POST", url: "http://one.example/", body: Array("token=s3cret".utf8))
        request.staysWithinOrigin = true
        var chain = try RedirectChain(request)
        if isFollowed {
            let follows = try chain.follow(redirect(status, location))
            #expect(follows)
            #expect(chain.request.body.isEmpty == (status < 307))
        } else {
            let error = #expect(throws: HTTPError.self) { try chain.follow(redirect(status, location)) }
            let text = "\(error.map { "\($0)" } ?? "")"
            #expect(text.contains("redirects a request with credentials to another origin"), "\(text)")
            #expect(!text.contains("s3cret"))
        }
    }

    @Test func credentialsOfTheURLStayWithItsOrigin() async throws {
        let other = try LoopbackServer { _ in .response() }
        let otherURL = other.url
        let server = try LoopbackServer { _ in .redirect(302, to: otherURL) }
        _ = try await transport.get("http://me:s3cret@127.0.0.1:\(server.port)/")
        #expect(server.requests.first?.values("authorization") == ["Basic bWU6czNjcmV0"])
        #expect(other.requests.first?.values("authorization") == [])
    }

    /// Without it, the other server would send a whole film for a part of it.
    @Test func aRangeGoesAlong() throws {
        let range = HTTPHeader(name: "Range", value: "bytes=0-99")
        var chain = try RedirectChain(HTTPRequest(url: "http://one.example/", headers: credentials + [range]))
        let isFollowed = try chain.follow(redirect(302, "http://two.example/"))
        #expect(isFollowed && chain.request.headers.contains(range))
        #expect(!chain.request.headers.contains { $0.isNamed("Authorization") })
    }

    /// Some servers refuse media without it, also behind a redirect.
    @Test(arguments: [
        ("http://me:s3cret@one.example:81/a/b?token=s3cret#s3cret", "http://two.example/", "http://one.example:81/"),
        ("http://one.example", "https://two.example/", "http://one.example/"),
        ("https://one.example/a", "https://two.example/", "https://one.example/"),
        ("https://one.example/a", "http://two.example/", nil), ("http://one.example/a", "/c", "http://one.example/a"),
        ("s3cret", "http://two.example/", nil), ("http://me@/", "http://two.example/", nil),
    ])
    func theOriginOfTheReferrerGoesAlong(referrer: String, location: String, left: String?) throws {
        let fields = credentials + [HTTPHeader(name: "referer", value: referrer)]
        var chain = try RedirectChain(HTTPRequest(url: "http://one.example/", headers: fields))
        let isFollowed = try chain.follow(redirect(302, location))
        #expect(isFollowed && chain.request.headers.first { $0.isNamed("Referer") }?.value == left)
    }

    @Test func aWayBackBringsNoCredentialsBack() throws {
        var chain = try RedirectChain(
            HTTPRequest(url: "http://me:pw@one.example/", headers: credentials))
        for location in ["http://two.example/", "http://one.example/"] {
            let isFollowed = try chain.follow(redirect(302, location))
            #expect(isFollowed)
        }
        #expect(chain.url.text == "http://one.example/")
        #expect(chain.request.headers == [HTTPHeader(name: "Accept", value: "text/xml")])
    }

    @Test(arguments: [
        ("http://host/", "http://HOST/b", true), ("http://host/", "http://host:80/b", true),
        ("https://host/", "https://host:443/b", true), ("http://host/", "//host/b", true),
        ("http://host/", "http://host:81/b", false), ("http://host/", "https://host/b", false),
        ("http://host/", "http://host.example/b", false), ("http://host/", "//other/b", false),
        ("http://host/", "http://host@other/b", false), ("http://host/", "/b", true), ("http://host/", "?b", true),
    ])
    func originsAreSchemeHostAndPort(_ from: String, _ to: String, _ isSame: Bool) throws {
        var chain = try RedirectChain(HTTPRequest(url: from, headers: credentials))
        let isFollowed = try chain.follow(redirect(302, to))
        #expect(isFollowed)
        #expect(chain.request.headers.contains { $0.isNamed("Authorization") } == isSame)
    }

    @Test func toAnotherOriginIsRefusedWhereTheRequestSaysSo() async throws {
        let other = try LoopbackServer { _ in .response(body: "there") }
        let otherURL = other.url
        let server = try LoopbackServer { .redirect(307, to: $0.target == "/a" ? "/b" : otherURL) }
        var request = HTTPRequest.patient(method: "POST", url: server.url + "/a", body: Array("s3cret".utf8))
        request.staysWithinOrigin = true
        let error = try await transport.failure(request)
        #expect(error.description.contains("to another origin"))
        #expect(server.requests.map(\.target) == ["/a", "/b"] && other.requests.isEmpty)
    }

    @Test func aLoopEndsAfterFive() async throws {
        let server = try LoopbackServer { request in .redirect(302, to: "/?token=t0ken") }
        let error = try await transport.failure(server.url)
        #expect(error.isSameKind(as: .tooManyRedirects("")))
        #expect(!error.description.contains("token"))
        #expect(server.requests.count == 6)
    }

    @Test func fiveRedirectsAreFollowed() async throws {
        let server = try LoopbackServer { request in
            let number = Int(request.target.dropFirst()) ?? 0
            return number < 5 ? .redirect(307, to: "/\(number + 1)") : .response(body: "there")
        }
        #expect(try await transport.get(server.url + "/0").text == "there")
    }

    @Test(arguments: ["file:///etc/hosts", "ftp://127.0.0.1/", "http://host:99999/", "skd://s3cret?x"])
    func badTargetsAreRefused(_ location: String) async throws {
        let server = try LoopbackServer { _ in .redirect(302, to: location) }
        let error = try await transport.failure(server.url + "/?token=t0ken")
        #expect(error.isSameKind(as: .invalidURL("")))
        #expect(!error.description.contains("t0ken"))
        #expect(server.requests.count == 1)
    }

    @Test func fromHTTPSToHTTPIsRefused() throws {
        var chain = try RedirectChain(HTTPRequest(url: "https://host.example/"))
        let error = #expect(throws: HTTPError.self) { try chain.follow(redirect(302, "http://host.example/")) }
        #expect(error?.isSameKind(as: .redirect("")) == true && error?.isTemporary == false)
    }

    @Test func aRedirectWithoutATargetIsAResponse() async throws {
        let server = try LoopbackServer { _ in .response(302, body: "where?") }
        let response = try await transport.get(server.url)
        #expect(response.status == 302)
        #expect(response.text == "where?")
    }

    @Test(arguments: [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (307, "POST", "POST"), (308, "POST", "POST"),
        (301, "PUT", "PUT"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"), (302, "HEAD", "HEAD"),
    ])
    func theMethodAfterARedirect(_ status: Int, _ before: String, _ after: String) throws {
        var chain = try RedirectChain(HTTPRequest(method: before, url: "http://host.example/", body: [1]))
        let isFollowed = try chain.follow(redirect(status, "/next"))
        #expect(isFollowed)
        #expect(chain.request.method == after)
        #expect(chain.request.body.isEmpty == (status == 303 && before != "HEAD" || after != before))
    }

    private func redirect(_ status: Int, _ location: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: [HTTPHeader(name: "location", value: location)], url: "")
    }
}
