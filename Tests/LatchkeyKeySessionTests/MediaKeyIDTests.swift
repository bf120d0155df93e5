// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// Keys that a playlist asks for before the media has said their KIDs, at a key server that finds keys by KID alone.
@Suite("The media's KID", .timeLimit(.minutes(8)))
struct MediaKeyIDTests {
    /// That of the project has a place for the KID in its SPC; those of license services have none.
    private struct ServiceProvider: KeyPayloadProvider {
        let provider: any KeyPayloadProvider
        var isOfTestAuthority: Bool { false }

        func makeKeyPayload(
            deviceIdentifier: [UInt8], random: RandomSource
        ) throws -> any KeyPayload { try provider.makeKeyPayload(deviceIdentifier: deviceIdentifier, random: random) }
    }

    private let authority: FairPlayTestAuthority
    private let server: FairPlayServer
    private let uri = "skd://movie"

    init() throws {
        authority = try FairPlayServer.authority.get()
        server = FairPlayServer(authority)
        server.setKnownKeyIDs([keyID(5), keyID(6)])
    }

    private func session(
        _ provider: (any KeyPayloadProvider)? = nil, server: (any HTTPTransport)? = nil
    ) -> (KeySession, Watcher) {
        var configuration = KeySessionConfiguration()
        configuration.keyPayloadProvider = provider ?? authority.provider
        let loader = FairPlayLoader(
            service: LicenseService(.expressPlay, url: "https://keys.example/r"),
            certificate: ApplicationCertificate(.data(authority.certificate)), transport: server ?? self.server)
        let session = KeySession(loaders: [loader], configuration: configuration)
        return (session, Watcher(session))
    }

    private func demand(_ session: KeySession, _ mediaKeyID: KeyID? = nil) -> KeyID {
        let keyID = session.keyID(forURI: uri, mediaKeyID: mediaKeyID)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        return keyID
    }

    @Test func noMadeKeyIDIsSent() async {
        let (session, watcher) = session()
        let made = demand(session)
        _ = await watcher.next(where: \.isFailed)
        #expect(session.status(of: made).error?.description.contains("-42584") == true)
        #expect(server.mediaKeyIDs == [nil])
    }

    @Test func theMediasKeyIDIsSent() async {
        let (session, watcher) = session()
        _ = demand(session, keyID(5))
        _ = await watcher.next(where: \.isUsable)
        #expect(server.mediaKeyIDs == [keyID(5)])
    }

    @Test func aRefusalThatCameBeforeIsNotInherited() async {
        let (session, watcher) = session()
        _ = demand(session)
        _ = await watcher.next(where: \.isFailed)
        #expect(demand(session, keyID(5)) == keyID(5))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(5)).key) == keyHex(1))
        #expect(demand(session, keyID(6)) == keyID(6))
        _ = await watcher.next(where: \.isUsable)
        #expect(server.mediaKeyIDs == [nil, keyID(5), keyID(6)])
    }

    @Test func aRefusalOfAnSPCWithoutAPlaceForTheKeyIDStands() async {
        let (session, watcher) = session(ServiceProvider(provider: authority.provider))
        _ = demand(session)
        _ = await watcher.next(where: \.isFailed)
        #expect(demand(session, keyID(5)) == keyID(5))
        #expect(session.status(of: keyID(5)).error?.description.contains("-42584") == true)
        #expect(watcher.summaries == ["requested 1", "failed 1: server status"])
        #expect(server.mediaKeyIDs == [nil])
    }

    /// The account or the device has no right to the key, whatever its KID is.
    @Test(arguments: [(401, 1), (403, 1), (404, 2)])
    func whatIsNotAllowedIsAskedForOnce(status: Int, times: Int) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(status: status, body: [], url: request.url)
        }
        let (session, watcher) = session(server: transport)
        _ = demand(session)
        _ = await watcher.next(where: \.isFailed)
        #expect(demand(session, keyID(5)) == keyID(5))
        if times > 1 { _ = await watcher.next(where: \.isFailed) }
        #expect(session.status(of: keyID(5)).error?.isSameKind(as: .serverStatus("")) == true)
        #expect(transport.requests.count == times)
    }

    @Test func whatIsNotAllowedIsAskedForOnceAlsoIfTheMediaSaysItsKeyIDMeanwhile() async {
        let (asked, answer) = (Signal<Bool>(), Signal<Bool>())
        let transport = FakeTransport { request, _ throws(HTTPError) in
            asked.send(true)
            _ = await answer.wait()
            return HTTPResponse(status: 403, body: [], url: request.url)
        }
        let (session, watcher) = session(server: transport)
        _ = demand(session)
        _ = await asked.wait()
        #expect(demand(session, keyID(5)) == keyID(5))
        answer.send(true)
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(watcher.summaries == ["requested 1", "failed 1: server status"])
        #expect(transport.requests.count == 1)
    }

    /// Begins a request, has the media say KID 5 while the server thinks, and lets the server answer.
    private func nameWhilePending(_ session: KeySession) async {
        let (asked, answer) = (Signal<Bool>(), Signal<Bool>())
        server.hold(asked: asked, answer: answer)
        _ = demand(session)
        _ = await asked.wait()
        #expect(demand(session, keyID(5)) == keyID(5))
        answer.send(true)
    }

    @Test func aRefusalThatComesLaterIsAskedAgainUnderTheMediasKeyID() async {
        let (session, watcher) = session()
        await nameWhilePending(session)
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(hex(session.status(of: keyID(5)).key) == keyHex(1))
        #expect(watcher.summaries == ["requested 1", "requested 1", "usable 1"])
        #expect(server.mediaKeyIDs == [nil, keyID(5)])
        #expect(watcher.events.compactMap(\.request).map(\.status) == [.retried, .receivedResponse])
    }

    @Test func itIsAskedAgainOnce() async {
        server.setKnownKeyIDs([])
        let (session, watcher) = session()
        await nameWhilePending(session)
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(watcher.summaries == ["requested 1", "requested 1", "failed 1: server status"])
        #expect(session.status(of: keyID(5)).error?.description.contains("-42584") == true)
        _ = demand(session, keyID(5))
        #expect(server.mediaKeyIDs == [nil, keyID(5)])
    }

    @Test func aKeyThatComesLaterIsTheMedias() async {
        let server = FairPlayServer(authority)
        let (session, watcher) = session(server: server)
        let (asked, answer) = (Signal<Bool>(), Signal<Bool>())
        server.hold(asked: asked, answer: answer)
        _ = demand(session)
        _ = await asked.wait()
        _ = demand(session, keyID(5))
        answer.send(true)
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(5)).key) == keyHex(1))
        #expect(server.posts.count == 1)
    }

    @Test func anSPCThatHasNoPlaceForItIsNotMadeAgain() async {
        let (session, watcher) = session(ServiceProvider(provider: authority.provider))
        await nameWhilePending(session)
        _ = await watcher.next { $0.isUsable || $0.isFailed }
        #expect(watcher.summaries == ["requested 1", "failed 1: server status"])
        #expect(server.mediaKeyIDs == [nil])
    }

    @Test func anApplicationThatRefusesIsAskedAgain() async throws {
        let session = KeySession()
        let watcher = Watcher(session)
        _ = demand(session)
        let first = try #require(await watcher.next { $0.isUntaken })
        guard case .untaken(let request, _) = first else { return }
        _ = demand(session, keyID(5))
        #expect(!session.respond(toRequest: request.id, with: .failure(.denied("no such key"))))
        let second = try #require(await watcher.next { $0.request != nil && $0.request?.id != request.id }?.request)
        #expect(second.keyIDs == [keyID(5)])
        #expect(second.keyURI == uri)
        #expect(session.respond(toRequest: second.id, with: .success(.key(contentKey(1)))))
        #expect(hex(session.status(of: keyID(5)).key) == keyHex(1))
    }

    @Test func aRequestThatIsWithdrawnIsNot() async throws {
        let session = KeySession()
        let watcher = Watcher(session)
        _ = demand(session)
        guard case .untaken(let request, _)? = await watcher.next(where: \.isUntaken) else { return }
        _ = demand(session, keyID(5))
        #expect(session.fail(requestID: request.id, with: .timedOut("no answer")))
        #expect(session.status(of: keyID(5)).error == .timedOut("no answer"))
    }
}
