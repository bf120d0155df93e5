// SPDX-License-Identifier: MPL-2.0

import Foundation
import SwiftOverlayShims
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// How requests end that get no response.
@Suite(.timeLimit(.minutes(8)))
struct FailureTests {
    let transport = CurlTransport.direct()

    @Test func aServerThatNeverAnswersTimesOut() async throws {
        let server = try LoopbackServer { _ in .sendAndHold("") }
        var request = HTTPRequest(url: server.url)
        request.timeout = .milliseconds(100)
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .timedOut("")))
        #expect(error.isConnectionFailure)
    }

    /// Of a body of any length, and before there is any.
    @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
    func whatStallsTimesOut(_ start: String) async throws {
        let server = try LoopbackServer { _ in .sendAndHold(start) }
        var request = HTTPRequest(url: server.url)
        (request.timeout, request.stallTimeout) = (.seconds(600), .milliseconds(1))
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .timedOut("")))
        #expect(error.isConnectionFailure)
    }

    @Test func theTimeoutIsForAllRedirectsTogether() async throws {
        // Each answer takes six of the ten minutes.
        let clock = ManualClock()
        let server = try LoopbackServer { _ in
            clock.advance(by: .seconds(360))
            return .redirect(302, to: "/next")
        }
        let transport = CurlTransport(
            settings: CurlSettings(usesProxyEnvironment: false, now: { clock.now }))
        let error = try await transport.failure(.patient(url: server.url, timeout: .seconds(600)))
        #expect(error.isSameKind(as: .timedOut("")))
        #expect(server.requests.map(\.target) == ["/", "/next"])
    }

    @Test(arguments: [Duration.zero, .seconds(-1)])
    func noTimeLeftIsATimeout(_ timeout: Duration) async throws {
        let server = try LoopbackServer { _ in .response() }
        var request = HTTPRequest(url: server.url)
        request.timeout = timeout
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .timedOut("")))
        #expect(server.connectionCount == 0)
    }

    @Test func timesBeyondAllMeasureAreNoTimeout() async throws {
        let server = try LoopbackServer { _ in .response(body: "ok") }
        var request = HTTPRequest(url: server.url)
        request.timeout = Duration(secondsComponent: .max, attosecondsComponent: 0)
        request.connectTimeout = request.timeout
        request.maximumResponseSize = .max
        #expect(try await transport.send(request).text == "ok")
    }

    @Test func theConnectTimeoutCoversTheHandshake() async throws {
        // Takes the connection, and never answers the client's first TLS message.
        let server = try LoopbackServer { _ in .response() }
        var request = HTTPRequest(url: "https://127.0.0.1:\(server.port)/")
        request.timeout = .seconds(600)
        request.connectTimeout = .milliseconds(100)
        let error = try await transport.failure(request)
        #expect(error.isSameKind(as: .timedOut("")))
    }

    /// They take no more connections than a host may have.
    @Test func hostsThatDoNotAnswerKeepNobodyWaiting() async throws {
        let silent = try (0..<2).map { _ in
            let socket = try LoopbackServer.bind()
            var limit = timeval()
            limit.tv_sec = 60
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            listen(socket, 128)
            return socket
        }
        defer { for socket in silent { close(socket) } }
        let urls = try silent.map { "http://127.0.0.1:\(try LoopbackServer.port(of: $0))/" }
        let server = try LoopbackServer { _ in .response(body: "there") }
        let transport = transport
        let waiting = (0..<160).map { number in Task { try await transport.get(urls[number % 2]) } }
        defer { for task in waiting { task.cancel() } }
        // As many as a host may have.
        let taken = try await onOwnThread {
            var sockets: [Int32] = []
            for socket in silent {
                for _ in 0..<64 where !sockets.contains(-1) { sockets.append(accept(socket, nil, nil)) }
            }
            return sockets
        }
        defer { for socket in taken where socket >= 0 { close(socket) } }
        #expect(taken.allSatisfy { $0 >= 0 })
        #expect(try await transport.get(server.url).text == "there")
    }

    @Test func aClosedPortRefuses() async throws {
        let socket = try LoopbackServer.bind()
        defer { close(socket) }
        let url = "http://user:s3cret@127.0.0.1:\(try LoopbackServer.port(of: socket))/license?token=t0ken"
        let error = try await transport.failure(url)
        #expect(error.isSameKind(as: .refused("")))
        #expect(error.isConnectionFailure)
        #expect(error.description.contains("/license: "))
        for secret in ["user", "s3cret", "token", "t0ken"] { #expect(!error.description.contains(secret)) }
    }

    @Test func aNameWithoutAnAddressIsNamed() async throws {
        let error = try await transport.failure("http://\(unresolvableHost)/")
        #expect(error.isSameKind(as: .unresolvedHost("")))
        #expect(error.description.contains(unresolvableHost))
    }

    @Test(arguments: [
        "", "license", "/license", "http://", "http:///", "http://host:99999/", "http://ho st/", "http://a b@c/",
        "http://127.0.0.1\0.example/", "http://127.0.0.1/\r\nX: y", "file:///etc/hosts", "ftp://127.0.0.1/",
        "skd://key", "data:,abc", "gopher://127.0.0.1/", "http://" + String(repeating: "a", count: 70_000),
    ])
    func whatIsNoHTTPURLIsRefused(_ url: String) async throws {
        let error = try await transport.failure(url)
        #expect(error.isSameKind(as: .invalidURL("")))
        #expect(error.description.count < 400)
    }

    @Test(arguments: [
        ("skd://key", "only http and https are supported"), ("license", "give an absolute http or https URL"),
        ("http://host:99999/", "its host or port cannot be read, or it has characters that URLs do not have"),
    ])
    func whatIsWrongWithAURLIsSaidOnce(_ url: String, _ problem: String) async throws {
        let error = try await transport.failure(url)
        #expect(error.description == "invalid URL: \(url): \(problem)")
        #expect(error.reason == "\(url): \(problem)")
    }

    @Test(arguments: [
        HTTPHeader(name: "", value: "a"), HTTPHeader(name: "X Y", value: "a"), HTTPHeader(name: "X:Y", value: "a"),
        HTTPHeader(name: "X", value: "a\r\nY: b"), HTTPHeader(name: "X\r\nY", value: "b"),
        HTTPHeader(name: "X", value: "a\0b"), HTTPHeader(name: "content-length", value: "5"),
        HTTPHeader(name: "Transfer-Encoding", value: "chunked"), HTTPHeader(name: "é", value: "a"),
    ])
    func fieldsThatWouldBreakTheRequestAreRefused(_ header: HTTPHeader) async throws {
        let server = try LoopbackServer { _ in .response() }
        let error = try await transport.failure(HTTPRequest(url: server.url, headers: [header]))
        #expect(error.isSameKind(as: .invalidRequest("")))
        #expect(server.connectionCount == 0)
    }

    @Test(arguments: ["", "GET /", "G\r\nT", "GÉT"])
    func methodsThatAreNoTokenAreRefused(_ method: String) async throws {
        let server = try LoopbackServer { _ in .response() }
        let error = try await transport.failure(HTTPRequest(method: method, url: server.url))
        #expect(error.isSameKind(as: .invalidRequest("")))
        #expect(server.connectionCount == 0)
    }

    @Test func cancellationEndsTheTransfer() async throws {
        let server = try LoopbackServer { _ in .sendAndHold("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") }
        let transport = transport
        let url = server.url
        let task = Task { try await transport.get(url) }
        var events = server.events.makeAsyncIterator()
        #expect(await events.next() == .requested(connection: 0))
        task.cancel()
        let error = await #expect(throws: HTTPError.self) { try await task.value }
        #expect(error?.isSameKind(as: .cancelled("")) == true)
        // The transport lets go of the connection and not only of the task.
        #expect(await events.next() == .closed(connection: 0))
    }

    @Test func aTaskThatIsAlreadyCancelledSendsNothing() async throws {
        let server = try LoopbackServer { _ in .response() }
        let transport = transport
        let url = server.url
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await transport.get(url)
        }
        let error = await #expect(throws: HTTPError.self) { try await task.value }
        #expect(error?.isSameKind(as: .cancelled("")) == true)
        #expect(server.connectionCount == 0)
    }

    @Test func cancellingOneLeavesTheOthers() async throws {
        let server = try LoopbackServer { request in
            request.target == "/hold" ? .sendAndHold("") : .response(body: request.target)
        }
        let transport = transport
        let url = server.url
        let held = Task { try await transport.get(url + "/hold") }
        var events = server.events.makeAsyncIterator()
        #expect(await events.next() == .requested(connection: 0))
        #expect(try await transport.get(url + "/other").text == "/other")
        held.cancel()
        await #expect(throws: HTTPError.self) { try await held.value }
        #expect(try await transport.get(url + "/after").text == "/after")
    }

    @Test func aTransportThatGoesClosesItsConnections() async throws {
        let server = try LoopbackServer { _ in .response(body: "ok") }
        var events = server.events.makeAsyncIterator()
        do {
            let transport = CurlTransport.direct()
            #expect(try await transport.get(server.url).text == "ok")
        }
        #expect(await events.next() == .requested(connection: 0))
        #expect(await events.next() == .closed(connection: 0))
    }

    @Test func afterTheEndNothingStarts() async throws {
        let loop = CurlLoop(settings: CurlSettings())
        loop.stop()
        let url = try HTTPURL("http://127.0.0.1/")
        let error = await #expect(throws: HTTPError.self) {
            try await loop.response(to: HTTPRequest(url: url.text), at: url, within: .seconds(1))
        }
        #expect(error?.isSameKind(as: .cancelled("")) == true)
    }
}
