// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySession

@Suite("Application certificate", .timeLimit(.minutes(8)))
struct ApplicationCertificateTests {
    private let der: [UInt8]
    private let other: [UInt8]
    private let folder = TemporaryFolder()
    /// Far beyond the ten years that the test authority's certificates have.
    private static let late: Int64 = 5_000_000_000

    init() throws {
        der = try FairPlayServer.authority.get().certificate
        other = try FairPlayServer.otherAuthority.get().certificate
    }

    private func pem(_ der: [UInt8]) -> String {
        let text = Base64.encode(der)
        let lines = stride(from: 0, to: text.count, by: 64).map { String(text.dropFirst($0).prefix(64)) }
        return (["# a comment", "-----BEGIN CERTIFICATE-----"] + lines + ["-----END CERTIFICATE-----", ""])
            .joined(separator: "\r\n")
    }

    @Test func everyFormIsRead() async throws {
        let base64 = Base64.encode(der)
        let forms = [
            der, Array(pem(der).utf8), Array("\(base64)\n".utf8), Array(Base64.encode(Array(pem(der).utf8)).utf8),
        ]
        for form in forms { #expect(try await ApplicationCertificate(.data(form)).der() == der) }
        let path = folder.write(pem(der), to: "fps.cer")
        #expect(try await ApplicationCertificate(.file(path)).der() == der)
        let certificate = try FairPlayCertificate(reading: der)
        #expect(certificate.notAfter > ManualClock.date)
        #expect(certificate.notAfter < Self.late)
    }

    @Test(arguments: ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "MIIB"])
    func whatIsNoCertificateIsNamed(text: String) async {
        let path = folder.write(text, to: "bad.cer")
        await #expect {
            try await ApplicationCertificate(.file(path)).der()
        } throws: { error in
            "\(error)".contains(path) && (error as? KeyError)?.isSameKind(as: .invalidConfiguration("")) == true
        }
    }

    @Test func aFileThatOthersMayWriteIsRefused() async throws {
        let path = folder.write(pem(der), to: "fps.cer")
        #expect(chmod(path, 0o602) == 0)
        let error = await #expect(throws: KeyError.self) { try await ApplicationCertificate(.file(path)).der() }
        #expect(error?.description.contains("\(path): others may write to it") == true)
    }

    @Test func anyBytesEndInACertificateOrAnError() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<500 {
            do throws(FairPlayError) {
                _ = try FairPlayCertificate(
                    reading: random.mutate(Bool.random(using: &random) ? der : Array(pem(der).utf8)))
            } catch {
                #expect([-42672, -42679].contains(error.code))
            }
        }
        #expect(throws: FairPlayError.self) { try FairPlayCertificate(reading: [UInt8](repeating: 65, count: 200_000)) }
    }

    @Test func itIsLoadedOnceHoweverManyAsk() async throws {
        let begun = Signal<Bool>()
        let gate = Signal<Bool>()
        let transport = FakeTransport { [der] request, _ throws(HTTPError) in
            begun.send(true)
            _ = await gate.wait()
            return HTTPResponse(status: 200, body: der, url: request.url)
        }
        let certificate = ApplicationCertificate(
            .url("https://k/cert", headers: [HTTPHeader(name: "X", value: "1")]), transport: transport,
            date: { ManualClock.date })
        let tasks = (0..<20).map { _ in Task { try await certificate.der() } }
        _ = await begun.wait()
        gate.send(true)
        for task in tasks { #expect(try await task.value == der) }
        #expect(try await certificate.der() == der)
        #expect(transport.requests.count == 1)
        #expect(transport.requests.first?.headers == [HTTPHeader(name: "X", value: "1")])
    }

    @Test func oneThatIsOutOfDateIsLoadedAgainAndKeptWhereThereIsNoOther() async throws {
        let date = Mutex(ManualClock.date)
        let transport = FakeTransport { [der, other] request, count throws(HTTPError) in
            if count == 1 { throw .refused(request.url) }
            return HTTPResponse(status: 200, body: count == 0 ? der : other, url: request.url)
        }
        let certificate = ApplicationCertificate(
            .url("https://k/cert"), transport: transport, date: { date.withLock(\.self) })
        #expect(try await certificate.der() == der)
        date.withLock { $0 = Self.late }
        #expect(try await certificate.der() == der)
        #expect(transport.requests.count == 2)
        #expect(try await certificate.der() == other)
    }

    @Test func aRefusedOneIsReplacedOnceAndOnlyByAnother() async throws {
        let transport = FakeTransport { [der, other] request, count throws(HTTPError) in
            HTTPResponse(status: 200, body: count == 0 ? der : other, url: request.url)
        }
        let certificate = ApplicationCertificate(
            .url("https://k/cert"), transport: transport, date: { ManualClock.date })
        _ = try await certificate.der()
        #expect(try await certificate.der(insteadOf: der) == other)
        #expect(try await certificate.der(insteadOf: der) == other)
        #expect(transport.requests.count == 2)
        #expect(try await certificate.der(insteadOf: other) == nil)
        #expect(try await ApplicationCertificate(.data(der)).der(insteadOf: der) == nil)
    }

    /// The next session of the process takes what one before it loaded, for an hour, unless a server refuses it.
    @Test func itIsSharedBySessions() async throws {
        let date = Mutex(ManualClock.date)
        let transport = FakeTransport { [der, other] request, count throws(HTTPError) in
            HTTPResponse(status: 200, body: count < 2 ? der : other, url: request.url)
        }
        let loaded = LoadedCertificates()
        func certificate(_ url: String, _ headers: [HTTPHeader] = []) -> ApplicationCertificate {
            ApplicationCertificate(
                .url(url, headers: headers), transport: transport, date: { date.withLock(\.self) }, loaded: loaded)
        }
        #expect(try await certificate("https://k/cert").der() == der)
        #expect(try await certificate("https://k/cert").der() == der)
        #expect(transport.requests.count == 1)
        // Another URL, and other fields, may bring another one.
        #expect(try await certificate("https://k/cert?2").der() == der)
        #expect(try await certificate("https://k/cert", [HTTPHeader(name: "X", value: "1")]).der() == other)
        #expect(transport.requests.count == 3)
        // Without the others, it is loaded by itself.
        let own = ApplicationCertificate(.url("https://k/cert"), transport: transport, date: { ManualClock.date })
        #expect(try await own.der() == other)
        #expect(transport.requests.count == 4)

        let refused = certificate("https://k/cert")
        #expect(try await refused.der() == der)
        #expect(try await refused.der(insteadOf: der) == other)
        #expect(try await certificate("https://k/cert").der() == other)
        #expect(transport.requests.count == 5)

        date.withLock { $0 += LoadedCertificates.lifetime }
        #expect(try await certificate("https://k/cert").der() == other)
        #expect(transport.requests.count == 6)
        let path = folder.write(pem(der), to: "shared.cer")
        #expect(try await ApplicationCertificate(.file(path), transport: transport, loaded: loaded).der() == der)
        _ = folder.write(pem(other), to: "shared.cer")
        #expect(try await ApplicationCertificate(.file(path), transport: transport, loaded: loaded).der() == other)
    }

    @Test func failuresAreNamedAndNotKept() async throws {
        let transport = FakeTransport { [der] request, count throws(HTTPError) in
            if count == 0 { throw .timedOut(request.url) }
            return HTTPResponse(status: count == 1 ? 404 : 200, body: der, url: request.url)
        }
        let certificate = ApplicationCertificate(
            .url("https://me:secret@k/cert?secret"), transport: transport, date: { ManualClock.date })
        await #expect(throws: KeyError.timedOut("timed out: https://k/cert")) { try await certificate.der() }
        await #expect(
            throws: KeyError.serverStatus("the application certificate: https://k/cert answers with status 404")
        ) { try await certificate.der() }
        #expect(try await certificate.der() == der)
    }
}
