// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// Requests that must not reach this machine and the networks around it.
@Suite(.timeLimit(.minutes(8)))
struct LocalAddressTests {
    @Test(arguments: [
        "127.0.0.1", "127.255.0.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1", "100.127.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "255.255.255.255", "[::1]", "[::]",
        "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]", "[2002:7f00:1::1]", "[::127.0.0.1]", "[fec0::1]", "localhost", "localhost.",
        "a.localhost", "127.0.0.1.", "127.1", "0x7f.1", "017700000001",
    ])
    func localHosts(host: String) { #expect(LocalAddress.isOne(host: host)) }

    @Test(arguments: [
        "8.8.8.8", "1.0.0.1", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.0.1", "169.253.0.1",
        "198.17.0.1", "198.20.0.1", "223.255.255.255", "[2001:4860:4860::8888]", "[64:ff9b::8.8.8.8]",
        "[2002:808:808::1]", "[::ffff:8.8.8.8]", "example.com", "localhost.example", "10.0.0.1.example", "",
    ])
    func otherHosts(host: String) { #expect(!LocalAddress.isOne(host: host)) }

    /// Digits, letters and dots beyond ASCII mean others when the host is looked up, here or by a proxy. libcurl reads them in
    /// the coding of the locale, and refuses them in that of C.
    @Test func aHostCountsAsItIsLookedUp() async {
        await #expect(processExitsWith: .success) {
            try #require(setlocale(LC_CTYPE, "C.UTF-8") != nil)
            let hosts = [
                "127。0。0。1", "１０.0.0.1", "①②⑦.0.0.1", "０x7f.1", "ⓛocalhost", "127%E3%80%820%E3%80%820%E3%80%821",
            ]
            for host in hosts { #expect(try HTTPURL("https://\(host)/").namesLocalAddress, "\(host)") }
            #expect(try !HTTPURL("https://müller.example/").namesLocalAddress)
        }
    }

    private func request(_ url: String) -> HTTPRequest {
        var request = HTTPRequest.patient(url: url)
        request.forbidsLocalAddresses = true
        return request
    }

    /// The ways to write an address that libcurl knows.
    @Test(arguments: ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost", "LOCALHOST"])
    func noConnectionIsMadeToALocalHost(host: String) async throws {
        let server = try LoopbackServer { _ in .response(body: "there") }
        let error = try await CurlTransport.direct().failure(request("http://\(host):\(server.port)/a?token=secret"))
        #expect(error.isSameKind(as: .localAddress("")))
        #expect(!error.description.contains("secret"))
        #expect(server.connectionCount == 0)
    }

    /// The name is looked up, and leads here. Without the mark, the same request has an answer.
    @Test func noConnectionIsMadeToANameOfALocalAddress() async throws {
        let server = try LoopbackServer { _ in .response(body: "there") }
        var settings = CurlSettings(usesProxyEnvironment: false)
        settings.addresses = ["media.example:\(server.port):127.0.0.1"]
        let transport = CurlTransport(settings: settings)
        let url = "http://media.example:\(server.port)/"
        let error = try await transport.failure(request(url))
        #expect(error.isSameKind(as: .localAddress("")), "\(error)")
        #expect(server.connectionCount == 0)
        #expect(try await transport.get(url).text == "there")
        // Nor is that connection used, which is open still.
        #expect(try await transport.failure(request(url)).isSameKind(as: .localAddress("")))
        #expect(server.connectionCount == 1)
        #expect(server.requests.count == 1)
    }

    /// A server on the Internet redirects to a local address, by number and by name.
    @Test(arguments: ["127.0.0.1", "inside.example"])
    func noRedirectLeadsToALocalAddress(host: String) async throws {
        let inside = try LoopbackServer { _ in .response(body: "inside") }
        var chain = try RedirectChain(request("http://media.example/"))
        let redirected = HTTPResponse(
            status: 307, headers: [HTTPHeader(name: "Location", value: "http://\(host):\(inside.port)/")],
            url: "http://media.example/")
        #expect(try chain.follow(redirected))
        #expect(chain.request.forbidsLocalAddresses)
        var settings = CurlSettings(usesProxyEnvironment: false)
        settings.addresses = ["inside.example:\(inside.port):127.0.0.1"]
        let error = try await CurlTransport(settings: settings).failure(chain.request)
        #expect(error.isSameKind(as: .localAddress("")), "\(error)")
        #expect(inside.connectionCount == 0)
    }

    /// The proxy may be local; exceptions do not lead around it.
    @Test func aProxyLooksUpTheName() async {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer { _ in .response(body: "from the proxy") }
            let server = try LoopbackServer { _ in .response(body: "from the server") }
            clearProxyEnvironment()
            setenv("http_proxy", proxy.url, 1)
            setenv("no_proxy", "media.example", 1)
            var settings = CurlSettings()
            settings.addresses = ["media.example:\(server.port):127.0.0.1"]
            let transport = CurlTransport(settings: settings)
            var request = HTTPRequest.patient(url: "http://media.example:\(server.port)/")
            #expect(try await transport.send(request).text == "from the server")
            request.forbidsLocalAddresses = true
            #expect(try await transport.send(request).text == "from the proxy")
            #expect(server.requests.count == 1)
            try #require(setlocale(LC_CTYPE, "C.UTF-8") != nil)
            for host in ["127.0.0.1", "127。0。0。1", "ⓛocalhost"] {
                request.url = "http://\(host):\(server.port)/"
                #expect(try await transport.failure(request).isSameKind(as: .localAddress("")))
            }
            #expect(server.requests.count == 1 && proxy.requests.count == 1)
        }
    }
}
