// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyHTTP
@testable import LatchkeyLoopbackSupport

/// Certificates are verified.
@Suite(.timeLimit(.minutes(8)))
struct TLSTests {
    @Test func aCertificateThatNobodyVouchesForIsRefused() async throws {
        let server = try await TLSServer(name: "IP:127.0.0.1")
        let error = try await CurlTransport.direct().failure("https://127.0.0.1:\(server.port)/?token=t0ken")
        #expect(error.isSameKind(as: .untrusted("")))
        #expect(error.description.contains("self-signed") || error.description.contains("self signed"))
        #expect(!error.description.contains("t0ken"))
    }

    @Test func aTrustedCertificateIsTaken() async throws {
        let server = try await TLSServer(name: "IP:127.0.0.1")
        let transport = CurlTransport.direct(caFile: server.certificate)
        #expect(try await transport.get("https://127.0.0.1:\(server.port)/").status == 200)
    }

    @Test func aTrustedCertificateForAnotherHostIsRefused() async throws {
        let server = try await TLSServer(name: "DNS:other.example")
        let transport = CurlTransport.direct(caFile: server.certificate)
        let error = try await transport.failure("https://127.0.0.1:\(server.port)/")
        #expect(error.isSameKind(as: .untrusted("")))
    }

    @Test func aServerThatSpeaksNoTLSIsRefused() async throws {
        // A ClientHello has no empty line, so that only an answer without a request gets out.
        let listener = try LoopbackServer.bind()
        listen(listener, 1)
        Thread.detachNewThread {
            let socket = accept(listener, nil, nil)
            let text = "HTTP/1.1 400 Bad Request\r\n\r\n"
            send(socket, text, text.utf8.count, Int32(MSG_NOSIGNAL))
            shutdown(socket, Int32(SHUT_WR))
            var byte: UInt8 = 0
            while recv(socket, &byte, 1, 0) > 0 {}
            close(socket)
            close(listener)
        }
        let error = try await CurlTransport.direct().failure("https://127.0.0.1:\(LoopbackServer.port(of: listener))/")
        #expect(error.isSameKind(as: .tls("")))
    }
}

/// `openssl s_server` with a certificate of its own; it answers each GET with a page about the connection.
private final class TLSServer: Sendable {
    let port: UInt16
    /// The path of the self-signed certificate.
    let certificate: String
    private let process: Process
    private let folder: URL

    /// - Parameter name: the name in the certificate, as `openssl` writes it.
    init(name: String) async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        certificate = folder.appending(path: "certificate.pem").path
        let key = folder.appending(path: "key.pem").path
        let request = Self.openSSL([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=test", "-addext", "subjectAltName=\(name)", "-keyout", key, "-out", certificate,
        ])
        try request.run()
        request.waitUntilExit()
        try #require(request.terminationStatus == 0)

        process = Self.openSSL(["s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key, "-www"])
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        // "ACCEPT 127.0.0.1:PORT" says where it listens, and that it does.
        var text = ""
        while !text.contains("ACCEPT ") || !text.hasSuffix("\n") {
            let data = output.fileHandleForReading.availableData
            try #require(!data.isEmpty)
            text += String(decoding: data, as: UTF8.self)
        }
        port = try #require(UInt16(text.split(separator: ":").last?.prefix { $0.isNumber } ?? ""))
    }

    deinit {
        // It has the signal mask of the worker thread that started it, where SIGTERM waits for ever.
        kill(process.processIdentifier, SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }

    private static func openSSL(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }
}
