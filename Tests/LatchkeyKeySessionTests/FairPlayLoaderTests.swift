// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

@Suite("FairPlay loader", .timeLimit(.minutes(8)))
struct FairPlayLoaderTests {
    private let authority: FairPlayTestAuthority

    init() throws { authority = try FairPlayServer.authority.get() }

    private var configuration: KeySessionConfiguration {
        var configuration = KeySessionConfiguration()
        configuration.keyPayloadProvider = authority.provider
        return configuration
    }

    private func loader(
        _ server: FairPlayServer,
        _ service: LicenseService = LicenseService(.expressPlay, url: "https://keys.example/r"),
        certificate: ApplicationCertificate? = nil
    ) -> FairPlayLoader {
        FairPlayLoader(
            service: service, certificate: certificate ?? ApplicationCertificate(.data(authority.certificate)),
            transport: server)
    }

    private func demand(_ session: KeySession, _ uri: String) -> KeyID {
        let keyID = session.keyID(forURI: uri)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        return keyID
    }

    /// The error, or nil where the key is usable.
    private func outcome(
        _ loader: any ResourceLoader, _ uri: String, configuration: KeySessionConfiguration? = nil
    ) async -> KeyError? {
        let session = KeySession(loaders: [loader], configuration: configuration ?? self.configuration)
        let watcher = Watcher(session)
        let keyID = demand(session, uri)
        _ = await watcher.next { $0.isFailed || $0.isUsable || $0.isUntaken }
        if let key = session.status(of: keyID).key {
            #expect(hex(key) == keyHex(1))
            #expect(key.initializationVector == FairPlayServer.vector)
            return nil
        }
        return session.status(of: keyID).error ?? .noLoader("")
    }

    @Test(arguments: [
        "skd://movie", "skd:movie", "skd://host/path/1==?a=b&c", "skd://ü漢/%2F=", "skd:https://server?cid=a/b",
    ]) func anSPCGoesOutAndTheCKCComesBack(uri: String) async throws {
        let server = FairPlayServer(authority)
        #expect(await outcome(loader(server), uri) == nil)
        #expect(server.posts.map(\.url) == ["https://keys.example/r"])
        #expect(server.opened.map(\.assetIdentifier) == [Array(KeyURI(uri).afterScheme.utf8)])
        #expect(server.opened.first?.playback?.state == .readyToStart)
        #expect(server.opened.first?.hasIntegrity == true)
    }

    /// The real exchange in the form of every service.
    @Test(arguments: LicenseServiceCase.all) func everyServiceIsServed(_ expected: LicenseServiceCase) async {
        guard expected.contentIdentifier.utf8.count <= 200 else { return }
        let spcText = Base64.encode(LicenseServiceCase.spc)
        let encoded = "%2B%2F%2F%2BAQ%3D%3D"
        // Where the SPC stands in the body that the table has: between the same bytes.
        let body = String(decoding: expected.body, as: UTF8.self)
        let server = FairPlayServer(
            authority,
            unwrap: { request in
                let text = String(decoding: request.body, as: UTF8.self)
                guard request.url == expected.url || expected.isPersistent else { return [] }
                for marker in [spcText, encoded] where body.contains(marker) {
                    let parts = body.split(separator: marker, omittingEmptySubsequences: false)
                    guard parts.count == 2, text.hasPrefix(parts[0]), text.hasSuffix(parts[1]) else { return [] }
                    let value = text.dropFirst(parts[0].count).dropLast(parts[1].count)
                    return PercentEncoding.decode(value.utf8).flatMap {
                        Base64.decode(String(decoding: $0, as: UTF8.self))
                    }
                        ?? []
                }
                return request.body
            },
            wrap: { ckc in
                let answer = String(decoding: expected.answer, as: UTF8.self)
                guard !expected.answer.starts(with: [0, 0, 0]) else { return ckc }
                return Array(
                    answer.replacing("AAAAAf/+", with: Base64.encode(ckc))
                        .replacing("AAAAAf\\/+", with: Base64.encode(ckc)).utf8)
            })
        #expect(await outcome(loader(server, expected.service), expected.keyURI) == nil)
        #expect(
            server.opened.first.map { String(decoding: $0.assetIdentifier, as: UTF8.self) }
                == expected.contentIdentifier)
    }

    /// The application names the key server, and not the media: the identifier may have a parameter in it.
    @Test func parametersGoToTheKeyServerOfTheApplication() async {
        let server = FairPlayServer(authority)
        let service = LicenseService(
            .standard, parameters: ["token": "movie"], contentIdentifier: .replacing("FairPlay", parameter: "token"))
        let loader = FairPlayLoader(
            service: service, certificate: ApplicationCertificate(.data(authority.certificate)), transport: server,
            keyServer: { _, identifier in "https://keys.example/\(identifier.count)" })
        #expect(await outcome(loader, "skd://FairPlay") == nil)
        #expect(server.posts.map(\.url) == ["https://keys.example/11"])
        #expect(server.opened.map(\.assetIdentifier) == [Array("skd://movie".utf8)])
        // Without it, the server is the one of the key's URI.
        let other = self.loader(server, service)
        #expect(await outcome(other, "skd://FairPlay")?.isSameKind(as: .denied("")) == true)
        #expect(server.posts.count == 1)
    }

    @Test func otherRequestsAreLeftToOthers() async {
        let server = FairPlayServer(authority)
        let session = KeySession(loaders: [loader(server)], configuration: configuration)
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey, suggestedURL: "https://host/"))
        #expect(await watcher.next { $0.isUntaken || $0.isFailed }?.isUntaken == true)
        session.demand(KeyDemand(keyIDs: [keyID(2)], keySystem: .fairPlay))
        #expect(await watcher.next { $0.isUntaken || $0.isFailed }?.isUntaken == true)
        #expect(server.requests.isEmpty)
    }

    @Test func theServersNumberIsInTheError() async {
        let server = FairPlayServer(authority)
        let error = await outcome(
            loader(server, LicenseService(.expressPlay, url: "https://me:secret@keys.example/r?t=secret")),
            "skd://unknown")
        #expect(
            error
                == .serverStatus(
                    "https://keys.example/r answers with status 400, error -42584: “{\"error\":\"refused\",\"code\":-42584}”"
                ))
    }

    @Test func theServersWordsAndWhatIsMissingAreInTheError() async throws {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(
                status: 403, headers: [HTTPHeader(name: "Content-Type", value: "text/plain")],
                body: Array("account 7 has no rights; token was q1w2e3 or p4r4m".utf8), url: request.url)
        }
        let service = LicenseService(
            .comcast, url: "https://keys.example/r?t=q1w2e3", parameters: ["releasePid": "1", "account": "p4r4m"])
        let loader = FairPlayLoader(
            service: service, certificate: ApplicationCertificate(.data(authority.certificate)), transport: transport)
        var configuration = configuration
        let lines = Mutex<[String]>([])
        configuration.log = { line in lines.withLock { $0.append(line) } }
        let error = await outcome(loader, "skd://FairPlay", configuration: configuration)
        let advice =
            "“comcast” may need the parameter “token” or the header Authorization, which the configuration does not have"
        #expect(
            error
                == .serverStatus(
                    "https://keys.example/r answers with status 403: “account 7 has no rights; token was […] or […]”; "
                        + advice))
        _ = await outcome(loader, "skd://FairPlay/2", configuration: configuration)
        #expect(lines.withLock { $0.filter { $0.contains(advice) } } == ["warning: \(advice)"])
    }

    /// The text of an answer without an error status is not shown, also if its type is that of text.
    @Test(arguments: [(200, "malformed response: "), (302, "answers with status 302")])
    func onlyErrorsAreQuoted(status: Int, reason: String) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(
                status: status, headers: [HTTPHeader(name: "Content-Type", value: "text/plain")],
                body: Array("words of the server".utf8), url: request.url)
        }
        let loader = FairPlayLoader(
            service: LicenseService(.expressPlay, url: "https://keys.example/r"),
            certificate: ApplicationCertificate(.data(authority.certificate)), transport: transport)
        let text = await outcome(loader, "skd://movie")?.description ?? ""
        #expect(text.contains(reason) && text.contains("https://keys.example/r"), "\(text)")
        #expect(!text.contains("words"), "\(text)")
    }

    @Test func whatIsMissingIsNamed() async {
        let server = FairPlayServer(authority)
        #expect(
            await outcome(loader(server), "skd://a", configuration: KeySessionConfiguration())?.description
                .contains("key payload provider") == true)
        #expect(await outcome(loader(server), "skd://a")?.description.contains("-42675") == true)
        #expect(await outcome(loader(server), "skd:")?.isSameKind(as: .malformedRequest("")) == true)
        let broken = loader(server, certificate: ApplicationCertificate(.data([1, 2, 3])))
        #expect(await outcome(broken, "skd://movie")?.description.contains("-42679") == true)
        let lost = loader(server, certificate: ApplicationCertificate(.file("/nowhere/fps.cer")))
        #expect(await outcome(lost, "skd://movie")?.description.contains("/nowhere/fps.cer") == true)
        #expect(server.requests.isEmpty)
    }

    @Test func aLostConnectionIsTriedOnceMoreWithANewSPC() async {
        let server = FairPlayServer(authority)
        server.fail(.truncated("https://keys.example/r"))
        #expect(await outcome(loader(server), "skd://movie") == nil)
        #expect(server.posts.count == 2)
        #expect(server.posts.first?.body != server.posts.last?.body)
        server.fail(.timedOut("https://keys.example/r"))
        #expect(await outcome(loader(server), "skd://movie")?.isSameKind(as: .timedOut("")) == true)
        #expect(server.posts.count == 3)
    }

    @Test func garbageIsNamed() async {
        let server = FairPlayServer(authority, wrap: { _ in Array("<html>secret".utf8) })
        let error = await outcome(loader(server), "skd://movie")
        #expect(error?.isSameKind(as: .malformedResponse("")) == true)
        #expect(error?.description.contains("https://keys.example/r: the answer is HTML") == true)
        let foreign = FairPlayServer(authority, wrap: { $0.dropLast(16) + [UInt8](repeating: 7, count: 16) })
        #expect(await outcome(loader(foreign), "skd://movie")?.description.contains("-42668") == true)
    }

    @Test func anAnswerToAnotherRequestIsRefused() async {
        let first = Mutex<[UInt8]>([])
        let server = FairPlayServer(
            authority,
            wrap: { ckc in
                first.withLock { first in
                    if first.isEmpty { first = ckc }
                    return first
                }
            })
        #expect(await outcome(loader(server), "skd://movie") == nil)
        #expect(await outcome(loader(server), "skd://movie")?.isSameKind(as: .malformedResponse("")) == true)
    }

    @Test func aRenewalSaysThatTheLeaseEndsAndReplacesTheKey() async {
        let clock = ManualClock()
        let server = FairPlayServer(authority, now: { clock.elapsed })
        server.setTerms(FairPlayTerms(lease: 100, outputRequirement: .hdcpType0))
        let loader = loader(server)
        let session = KeySession(loaders: [loader], configuration: configuration, clock: clock.clock)
        let watcher = Watcher(session)
        let keyID = demand(session, "skd://movie")
        _ = await watcher.next(where: \.isUsable)
        for _ in 0..<3 {
            #expect(session.status(of: keyID).key != nil)
            clock.advance(by: .seconds(80))
            _ = await watcher.next(where: \.isUsable)
        }
        #expect(
            server.opened.map(\.playback?.state)
                == [.readyToStart] + [MediaPlaybackState.State?](repeating: .playingAndLeaseExpires, count: 3))
        #expect(Set(server.opened.map(\.playback?.sessionID)).count == 1)
        #expect(
            server.opened.compactMap(\.playback?.referenceTime)
                == [0, 80, 160, 240].map { UInt32(ManualClock.date) + $0 })
        server.fail(.refused(""), .refused(""), .refused(""), .refused(""))
        #expect(session.status(of: keyID).key != nil)
        clock.advance(by: .seconds(80))
        #expect(await watcher.next { $0.summary.hasPrefix("renewal failed") } != nil)
        clock.advance(by: .seconds(20))
        #expect(await watcher.next(where: \.isExpired) != nil)
        #expect(session.status(of: keyID).error?.isSameKind(as: .leaseExpired("")) == true)
    }

    @Test func theDeviceIdentifierIsSentWhereThereIsOne() async {
        let server = FairPlayServer(authority)
        var configuration = configuration
        configuration.deviceIdentifier = [UInt8](repeating: 9, count: 20)
        #expect(await outcome(loader(server), "skd://movie", configuration: configuration) == nil)
        #expect(server.opened.first?.deviceIdentifier == configuration.deviceIdentifier)
    }

    @Test func aTokenServerComesFirst() async {
        let server = FairPlayServer(authority)
        let asked = Mutex<[String]>([])
        let loader = FairPlayLoader(
            service: LicenseService(.expressPlay), certificate: ApplicationCertificate(.data(authority.certificate)),
            transport: server
        ) { uri, identifier throws(KeyError) in
            asked.withLock { $0.append(String(decoding: identifier, as: UTF8.self)) }
            guard uri.text != "skd://denied" else { throw .denied("not paid for") }
            return "https://tokens.example/rights?token=1"
        }
        #expect(await outcome(loader, "skd://movie") == nil)
        #expect(server.posts.map(\.url) == ["https://tokens.example/rights?token=1"])
        #expect(await outcome(loader, "skd://denied") == .denied("not paid for"))
        #expect(asked.withLock(\.self) == ["movie", "denied"])
    }

    @Test func aRefusedCertificateIsLoadedAnew() async throws {
        let other = try FairPlayServer.otherAuthority.get()
        let server = FairPlayServer(authority)
        server.setCertificate(other.certificate)
        let certificate = ApplicationCertificate(.url("https://keys.example/cert"), transport: server)
        _ = try await certificate.der()
        server.setCertificate(authority.certificate)
        #expect(await outcome(loader(server, certificate: certificate), "skd://movie") == nil)
        #expect(server.requests.map(\.method) == ["GET", "POST", "GET", "POST"])
        // Refused for another reason, and the certificate is the same: not asked again.
        #expect(await outcome(loader(server, certificate: certificate), "skd://unknown") != nil)
        #expect(server.requests.map(\.method).suffix(2) == ["POST", "GET"])
    }

    @Test func aSessionThatGoesCancelsTheExchange() async {
        let (begun, ended) = (Signal<Bool>(), Signal<Bool>())
        let transport = FakeTransport.silent(begun: begun, ended: ended)
        let loader = FairPlayLoader(
            service: LicenseService(url: "https://keys.example/"),
            certificate: ApplicationCertificate(.data(authority.certificate)), transport: transport)
        var session: KeySession? = KeySession(loaders: [loader], configuration: configuration)
        _ = session.map { demand($0, "skd://movie") }
        _ = await begun.wait()
        session = nil
        #expect(await ended.wait() == true)
    }

    @Test func theApplicationCanMakeTheExchangeItself() async throws {
        let server = FairPlayServer(authority)
        let session = KeySession(configuration: configuration)
        let watcher = Watcher(session)
        let keyID = demand(session, "skd://movie")
        let request = try #require(await watcher.next { $0.request != nil }?.request)
        let spc = try request.streamingContentKeyRequestData(
            forApp: authority.certificate, contentIdentifier: Array("movie".utf8))
        let response = try await server.send(HTTPRequest(method: "POST", url: "https://k/", body: spc))
        #expect(session.respond(toRequest: request.id, with: .success(.license(response.body))))
        #expect(hex(session.status(of: keyID).key) == keyHex(1))
    }

    @Test func anExchangeThatCannotBeMadeIsAnErrorThatTheApplicationPassesOn() async throws {
        let session = KeySession(configuration: configuration)
        let watcher = Watcher(session)
        let keyID = demand(session, "skd://movie")
        let request = try #require(await watcher.next { $0.request != nil }?.request)
        func failure(_ certificate: [UInt8], _ identifier: String) -> KeyError? {
            #expect(throws: KeyError.self) {
                try request.streamingContentKeyRequestData(
                    forApp: certificate, contentIdentifier: Array(identifier.utf8))
            }
        }
        #expect(failure([1, 2, 3], "movie")?.isSameKind(as: .invalidConfiguration("")) == true)
        let error = try #require(failure(authority.certificate, ""))
        #expect(error.isSameKind(as: .malformedRequest("")))
        #expect(request.finishLoading(with: error))
        #expect(session.status(of: keyID).error?.isSameKind(as: error) == true)
    }

    /// Nothing that tests use is built in.
    @Test func withoutWhatAnIntegratorBringsThereIsNoExchange() async throws {
        let session = KeySession(configuration: KeySessionConfiguration())
        let watcher = Watcher(session)
        _ = demand(session, "skd://movie")
        let request = try #require(await watcher.next { $0.request != nil }?.request)
        let error = #expect(throws: KeyError.self) {
            try request.streamingContentKeyRequestData(
                forApp: authority.certificate, contentIdentifier: Array("movie".utf8))
        }
        #expect(error?.description.contains("no key payload provider is set up") == true)
    }

    @Test func textsHaveNoSecrets() {
        let service = LicenseService(
            .vuDRM, url: "https://me:password@keys.example/r?t=password", parameters: ["token": "password"])
        let loader = FairPlayLoader(
            service: service,
            certificate: ApplicationCertificate(.url("https://me:password@c/?password")),
            transport: FakeTransport { request, _ throws(HTTPError) in throw .refused(request.url) })
        var dumped = ""
        dump(loader, to: &dumped)
        dump(loader.certificate, to: &dumped)
        dump(configuration, to: &dumped)
        #expect(!dumped.contains("password"))
        #expect(!"\(loader) \(loader.certificate)".contains("password"))
    }
}
