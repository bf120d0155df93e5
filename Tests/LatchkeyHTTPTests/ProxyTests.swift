// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// The proxy of the environment. Each test is a process of its own, because the environment belongs to the process.
@Suite(.timeLimit(.minutes(8)))
struct ProxyTests {
    @Test func requestsGoThroughTheProxy() async {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer { _ in .response(body: "from the proxy") }
            clearProxyEnvironment()
            setenv("http_proxy", "http://me:s3cret@127.0.0.1:\(proxy.port)", 1)
            let response = try await CurlTransport().get("http://license.invalid/path?query")
            #expect(response.text == "from the proxy")
            let request = try #require(proxy.requests.first)
            #expect(request.target == "http://license.invalid/path?query")
            #expect(request.values("host") == ["license.invalid"])
            #expect(request.values("proxy-authorization") == ["Basic bWU6czNjcmV0"])
        }
    }

    @Test func exceptionsGoDirectly() async {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer { _ in .response(body: "from the proxy") }
            let server = try LoopbackServer { _ in .response(body: "from the server") }
            clearProxyEnvironment()
            setenv("http_proxy", proxy.url, 1)
            setenv("no_proxy", "127.0.0.1", 1)
            let response = try await CurlTransport().get(server.url)
            #expect(response.text == "from the server")
            #expect(proxy.connectionCount == 0)
        }
    }

    @Test func aTunnelCarriesNoFieldsOfTheRequest() async {
        await #expect(processExitsWith: .success) {
            let proxy = try LoopbackServer { _ in .sendAndClose("HTTP/1.1 403 Forbidden\r\n\r\n") }
            clearProxyEnvironment()
            setenv("https_proxy", proxy.url, 1)
            let token = HTTPHeader(name: "Authorization", value: "Bearer s3cret")
            let error = try await CurlTransport().failure(
                .patient(url: "https://license.invalid/path?query", headers: [token]))
            #expect(error.isSameKind(as: .refused("")))
            #expect(error.description.contains("403"))
            #expect(!error.description.contains("query"))
            let request = try #require(proxy.requests.first)
            #expect(request.method == "CONNECT")
            #expect(request.target == "license.invalid:443")
            #expect(request.values("authorization") == [])
        }
    }

    /// Such a proxy gets an address that was looked up here, which is not checked; or the name, where its scheme says so.
    @Test(arguments: ["socks4", "socks5", "socks4a", "socks5h"])
    func aSOCKSProxyGetsAnAddressThatIsNotChecked(scheme: String) async {
        await #expect(processExitsWith: .success) { [scheme] in
            let proxy = try SOCKSProxy()
            clearProxyEnvironment()
            setenv("http_proxy", "\(scheme)://127.0.0.1:\(proxy.port)", 1)
            var settings = CurlSettings()
            settings.addresses = ["media.example:80:10.1.2.3"]
            var request = HTTPRequest.patient(url: "http://media.example/")
            request.forbidsLocalAddresses = true
            #expect(try await CurlTransport(settings: settings).send(request).text == "from the proxy")
            #expect(proxy.places == [["socks4", "socks5"].contains(scheme) ? "10.1.2.3" : "media.example"])
        }
    }

    @Test func thePasswordOfAProxyIsInNoError() async {
        await #expect(processExitsWith: .success) {
            clearProxyEnvironment()
            for proxy in [
                "http://me:s3cret@\(unresolvableHost):3128", "odd://me:s3cret@127.0.0.1:1", "http://me:s3cret@:x",
            ] {
                setenv("http_proxy", proxy, 1)
                let error = try await CurlTransport().failure("http://license.invalid/")
                #expect(!error.description.contains("s3cret"))
            }
        }
    }
}

func clearProxyEnvironment() {
    for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
        unsetenv(name)
    }
}
