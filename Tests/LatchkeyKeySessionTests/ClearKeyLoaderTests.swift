// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("Clear Key loader", .timeLimit(.minutes(8)))
struct ClearKeyLoaderTests {
    private static let url = "https://user:secret@license.example/ck?token=secret"

    private static func license(_ request: HTTPRequest) -> HTTPResponse {
        let keyIDs = (try? ClearKey.keyIDs(inLicenseRequest: request.body)) ?? []
        let keys = keyIDs.reduce(into: [KeyID: ContentKey]()) { $0[$1] = contentKey(1) }
        return HTTPResponse(status: 200, body: ClearKey.license(for: keys), url: request.url)
    }

    /// The end of a demand with this loader: the error, or nil where the key is usable.
    private func outcome(
        _ loader: ClearKeyLoader, keySystem: KeySystem? = .clearKey, suggestedURL: String? = nil,
        otherURLs: [String] = [], mediaURL: String? = nil
    ) async -> KeyError? {
        let session = KeySession(loaders: [loader])
        let watcher = Watcher(session)
        var demand = KeyDemand(
            keyIDs: [keyID(1)], keySystem: keySystem, suggestedURL: suggestedURL, mediaURL: mediaURL)
        demand.otherURLs = otherURLs
        session.demand(demand)
        guard case .failed(_, _, let error)? = await watcher.next(where: { $0.isFailed || $0.isUsable }) else {
            #expect(session.status(of: keyID(1)).key != nil)
            return nil
        }
        return error
    }

    @Test func theLicenseRequestIsPostedAsJSON() async throws {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let loader = ClearKeyLoader(
            url: Self.url, headers: [HTTPHeader(name: "Authorization", value: "Bearer secret")], timeout: .seconds(3),
            transport: transport)
        #expect(await outcome(loader) == nil)
        let request = try #require(transport.requests.first)
        #expect(transport.requests.count == 1)
        #expect(request.method == "POST")
        #expect(request.url == Self.url)
        #expect(request.timeout == .seconds(3))
        #expect(request.headers.map(\.name) == ["Content-Type", "Authorization"])
        #expect(request.toleratesCompression && !request.acceptsCompression)
        #expect(request.headers.first?.value == "application/json")
        #expect(try ClearKey.keyIDs(inLicenseRequest: request.body) == [keyID(1)])
    }

    /// Those of the presentation, which go along where they are for.
    @Test func theRequestHasThePresentationsCookies() async throws {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        var demand = KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey)
        let cookies = CookieStore()
        demand.cookies = cookies
        session.demand(demand)
        _ = await watcher.next { $0.isFailed || $0.isUsable }
        #expect(try #require(transport.requests.first).cookies === cookies)
    }

    @Test func aContentTypeOfTheSettingsReplacesTheUsualOne() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let header = HTTPHeader(name: "content-type", value: "application/octet-stream")
        _ = await outcome(ClearKeyLoader(url: Self.url, headers: [header], transport: transport))
        #expect(transport.requests.first?.headers == [header])
    }

    @Test func itsOwnURLServesEveryKeySystemAndWinsOverTheMedia() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let loader = ClearKeyLoader(url: Self.url, transport: transport)
        #expect(await outcome(loader, keySystem: nil) == nil)
        #expect(await outcome(loader, keySystem: .playReady, suggestedURL: "https://other.example/") == nil)
        #expect(transport.requests.map(\.url) == [Self.url, Self.url])
    }

    @Test func theMediaURLServesClearKeyWithoutTheSettingsHeaders() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let loader = ClearKeyLoader(
            headers: [HTTPHeader(name: "Authorization", value: "Bearer secret")], transport: transport)
        #expect(await outcome(loader, suggestedURL: "https://media.example/ck") == nil)
        #expect(transport.requests.first?.url == "https://media.example/ck")
        #expect(transport.requests.first?.headers.map(\.name) == ["Content-Type"])
    }

    @Test(
        arguments: [
            (KeySystem.clearKey, nil), (.clearKey, "file:///etc/passwd"), (.clearKey, "skd://x"), (.clearKey, ""),
            (.fairPlay, "https://media.example/ck"), (nil, "https://media.example/ck"),
        ] as [(KeySystem?, String?)])
    func withoutAUsableURLItTakesNothing(keySystem: KeySystem?, url: String?) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let session = KeySession(loaders: [ClearKeyLoader(transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: keySystem, suggestedURL: url))
        let event = await watcher.next { $0.isUntaken || $0.isUsable || $0.isFailed }
        #expect(event?.isUntaken == true)
        #expect(transport.requests.isEmpty)
    }

    @Test(
        arguments: [
            ("http://media.example/ck", nil, false), ("http://media.example/ck", "https://media.example/a.mpd", false),
            ("http://media.example/ck", "http://media.example:81/a.mpd", false), ("HTTP://10.0.0.1/ck", "", false),
            ("http://media.example/ck", "file://media.example/a.mpd", false),
            ("https://media.example/ck", "file:///a.mpd", true),
            ("http://media.example/ck", "http://media.example/a.mpd", true),
            ("http://127.0.0.1:81/ck", "http://127.0.0.1:81/a.mpd", true),
            ("https://media.example/ck", "http://other.example/a.mpd", true),
        ] as [(String, String?, Bool)])
    func aServiceOfTheMediaIsHTTPSOrOfItsOrigin(url: String, mediaURL: String?, isAsked: Bool) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let error = await outcome(ClearKeyLoader(transport: transport), suggestedURL: url, mediaURL: mediaURL)
        #expect((error == nil) == isAsked)
        #expect(error?.description.contains("media-license-urls=any") ?? true)
        #expect(transport.requests.map(\.url) == (isAsked ? [url] : []))
        let isOwn = isAsked && mediaURL.map { HTTPRequest(url: $0).origin } == HTTPRequest(url: url).origin
        #expect(transport.requests.allSatisfy { $0.staysWithinOrigin == isOwn && $0.forbidsLocalAddresses != isOwn })
    }

    /// A server of this process hands the media on, as from the cache.
    @Test func theOriginIsThatOfTheMediaAndNotOfOurServer() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        var configuration = KeySessionConfiguration()
        configuration.originalMediaURL = {
            $0.hasPrefix("http://127.0.0.1:4000/") ? "http://media.example/a.mpd" : nil
        }
        let session = KeySession(loaders: [ClearKeyLoader(transport: transport)], configuration: configuration)
        let watcher = Watcher(session)
        for (number, url) in ["http://media.example/ck", "http://127.0.0.1:4000/ck"].enumerated() {
            session.demand(
                KeyDemand(
                    keyIDs: [keyID(number + 1)], keySystem: .clearKey, suggestedURL: url,
                    mediaURL: "http://127.0.0.1:4000/token/a.mpd"))
            let event = await watcher.next { $0.isUsable || $0.isFailed }
            #expect((event?.isUsable == true) == (number == 0))
        }
        #expect(transport.requests.map(\.url) == ["http://media.example/ck"])
    }

    @Test func theSettingSaysWhichServicesOfTheMediaAreAsked() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let any = ClearKeyLoader(mediaLicenseURLs: .any, transport: transport)
        #expect(await outcome(any, suggestedURL: "http://127.0.0.1/ck") == nil)
        #expect(transport.requests.map(\.forbidsLocalAddresses) == [false])
        // Left to others.
        let session = KeySession(loaders: [ClearKeyLoader(mediaLicenseURLs: .none, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey, suggestedURL: "https://media.example/ck"))
        #expect(await watcher.next { $0.isUntaken || $0.isUsable || $0.isFailed }?.isUntaken == true)
        #expect(transport.requests.count == 1)
    }

    @Test func mediaWithoutAKIDIsLeftToOthersUnlessItsDataNamesOne() async throws {
        let transport = FakeTransport { request, _ throws(HTTPError) in Self.license(request) }
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [], keySystem: .clearKey))
        #expect(await watcher.next { $0.isUntaken || $0.isUsable || $0.isFailed }?.isUntaken == true)
        #expect(transport.requests.isEmpty)

        let named = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let events = Watcher(named)
        let data = InitializationData(system: nil, bytes: keyID(4).bytes, origin: "matroskademux")
        named.demand(KeyDemand(keyIDs: [], initializationData: [data]))
        _ = await events.next(where: \.isUsable)
        #expect(hex(named.status(of: nil).key) == keyHex(1))
    }

    @Test func aLostConnectionIsTriedOnceMore() async {
        let transport = FakeTransport { request, count throws(HTTPError) in
            if count == 0 { throw .truncated(request.url) }
            return Self.license(request)
        }
        #expect(await outcome(ClearKeyLoader(url: Self.url, transport: transport)) == nil)
        #expect(transport.requests.count == 2)
    }

    @Test(arguments: [
        (HTTPError.refused(url), 2, KeyError.network("")), (.unresolvedHost(url), 2, .network("")),
        (.tls(url), 1, .network("")), (.timedOut(url), 1, .timedOut("")), (.tooLarge(url), 1, .malformedResponse("")),
        (.invalidURL(url), 1, .invalidConfiguration("")), (.cancelled(url), 1, .cancelled("")),
        (.tooManyRedirects(url), 1, .network("")),
    ])
    func aTransportFailureNamesTheURLWithoutItsSecrets(error: HTTPError, attempts: Int, kind: KeyError) async {
        let transport = FakeTransport { _, _ throws(HTTPError) in throw error }
        let outcome = await outcome(ClearKeyLoader(url: Self.url, transport: transport))
        #expect(outcome?.isSameKind(as: kind) == true)
        #expect(outcome?.description.contains("https://license.example/ck") == true)
        #expect(outcome?.description.contains("secret") == false)
        #expect(transport.requests.count == attempts)
    }

    @Test(arguments: [199, 301, 400, 403, 404, 500, 503]) func aStatusIsNotTriedAgain(status: Int) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(status: status, body: Array("secret".utf8), url: request.url)
        }
        let error = await outcome(ClearKeyLoader(url: Self.url, transport: transport))
        #expect(error == .serverStatus("https://license.example/ck answers with status \(status)"))
        #expect(transport.requests.count == 1)
    }

    /// Refuses each request for one of these KIDs as a whole.
    private func refusing(_ refused: Set<KeyID>, status: Int = 403) -> FakeTransport {
        FakeTransport { request, _ throws(HTTPError) in
            let keyIDs = (try? ClearKey.keyIDs(inLicenseRequest: request.body)) ?? []
            guard refused.isDisjoint(with: keyIDs) else { return HTTPResponse(status: status, url: request.url) }
            return Self.license(request)
        }
    }

    private func asked(_ transport: FakeTransport) -> [[KeyID]] {
        transport.requests.map { (try? ClearKey.keyIDs(inLicenseRequest: $0.body)) ?? [] }
    }

    @Test(arguments: [400, 403, 404]) func keysThatAreRefusedTogetherAreAskedForAlone(status: Int) async {
        let transport = refusing([keyID(2), keyID(4)], status: status)
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        let keyIDs = (1...4).map { keyID($0) }
        session.demand(KeyDemand(keyIDs: keyIDs, keySystem: .clearKey))
        guard case .failed(_, let failed, let error)? = await watcher.next(where: \.isFailed) else { return }
        #expect(Set(failed) == [keyID(2), keyID(4)])
        #expect(error == .serverStatus("https://license.example/ck answers with status \(status)"))
        #expect(session.status(of: keyID(1)).key != nil && session.status(of: keyID(3)).key != nil)
        #expect(watcher.events.count(where: \.isFailed) == 1)
        let asked = asked(transport)
        #expect(asked.count == 5 && Set(asked[0]) == Set(keyIDs))
        #expect(Set(asked.dropFirst()) == Set(keyIDs.map { [$0] }))
        #expect(transport.requests.allSatisfy { $0.url == Self.url && $0.method == "POST" })
    }

    @Test func ifEachKeyIsRefusedTheFirstAnswerIsTheReason() async {
        let transport = refusing([keyID(1), keyID(2)])
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)], keySystem: .clearKey))
        guard case .failed(_, let failed, _)? = await watcher.next(where: \.isFailed) else { return }
        #expect(Set(failed) == [keyID(1), keyID(2)])
        #expect(asked(transport).count == 3)
        #expect(watcher.events.count(where: \.isUsable) == 0)
        // No key of which the content makes no use has part in it.
        #expect(!session.failedWithUnused(keyID(1)) && !session.failedWithUnused(keyID(2)))
    }

    /// An answer without the key that was asked for alone stands, as a refusal does: two requests were for that key.
    @Test func aKeyThatIsMissingAloneStaysSo() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            let keyIDs = (try? ClearKey.keyIDs(inLicenseRequest: request.body)) ?? []
            if keyIDs.count > 1 { return HTTPResponse(status: 403, url: request.url) }
            guard keyIDs == [keyID(2)] else {
                return HTTPResponse(status: 200, body: ClearKey.license(for: [:]), url: request.url)
            }
            return Self.license(request)
        }
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: (1...3).map { keyID($0) }, keySystem: .clearKey))
        guard case .failed(_, let failed, _)? = await watcher.next(where: \.isFailed) else { return }
        #expect(Set(failed) == [keyID(1), keyID(3)])
        for number in [1, 3] {
            #expect(session.status(of: keyID(number)).error?.isSameKind(as: .keyNotInResponse("")) == true)
            #expect(session.failedWithoutAny(keyID(number)) && !session.failedWithUnused(keyID(number)))
        }
        #expect(session.status(of: keyID(2)).key != nil)
        #expect(watcher.events.count(where: \.isFailed) == 1)
        #expect(asked(transport).map(\.count) == [3, 1, 1, 1])
    }

    /// Others do not speak of single keys, and neither do refusals of a great many.
    @Test(arguments: [(2, 401), (2, 429), (2, 500), (17, 403)]) func onlyAFewRefusedKeysAreAskedForAlone(
        count: Int, status: Int
    ) async {
        let transport = refusing([keyID(1)], status: status)
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: (1...count).map { keyID($0) }, keySystem: .clearKey))
        _ = await watcher.next(where: \.isFailed)
        #expect(transport.requests.count == 1)
        #expect(session.failedWithUnused(keyID(1)))
    }

    /// What fails otherwise ends it.
    @Test func aServiceThatFailsMeanwhileIsNotAskedOn() async {
        let transport = FakeTransport { request, count throws(HTTPError) in
            HTTPResponse(status: count == 0 ? 403 : 503, url: request.url)
        }
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: (1...4).map { keyID($0) }, keySystem: .clearKey))
        _ = await watcher.next(where: \.isFailed)
        #expect(transport.requests.count == 2)
    }

    // MARK: Several services

    private static let services = ["https://a.example/ck", "https://b.example/ck", "https://c.example/ck"]

    /// Fails at these services, and has keys at the others.
    private func failing(_ failures: [String: @Sendable () throws(HTTPError) -> Int]) -> FakeTransport {
        FakeTransport { request, _ throws(HTTPError) in
            guard let status = try failures[request.url]?() else { return Self.license(request) }
            return HTTPResponse(status: status, url: request.url)
        }
    }

    @Test(arguments: [404, 500, 503]) func theNextServiceIsAskedIfOneHasNothing(status: Int) async {
        let transport = failing([Self.services[0]: { status }])
        let loader = ClearKeyLoader(transport: transport)
        #expect(
            await outcome(loader, suggestedURL: Self.services[0], otherURLs: Array(Self.services.dropFirst())) == nil)
        #expect(transport.requests.map(\.url) == Array(Self.services.prefix(2)))
        #expect(transport.requests.allSatisfy { $0.method == "POST" && $0.forbidsLocalAddresses })
    }

    @Test(arguments: [(HTTPError.refused(url), 2), (.unresolvedHost(url), 2), (.timedOut(url), 1), (.tls(url), 1)])
    func theNextServiceIsAskedIfOneCannotBeReached(error: HTTPError, attempts: Int) async {
        let transport = failing([Self.services[0]: { () throws(HTTPError) in throw error }])
        let loader = ClearKeyLoader(transport: transport)
        #expect(await outcome(loader, suggestedURL: Self.services[0], otherURLs: [Self.services[1]]) == nil)
        #expect(
            transport.requests.map(\.url)
                == Array(repeating: Self.services[0], count: attempts) + [Self.services[1]])
    }

    /// What a service refuses itself is not asked of others.
    @Test(arguments: [400, 401, 403, 429]) func aRefusalOfOneServiceStands(status: Int) async {
        let transport = failing([Self.services[0]: { status }])
        let loader = ClearKeyLoader(transport: transport)
        let error = await outcome(loader, suggestedURL: Self.services[0], otherURLs: [Self.services[1]])
        #expect(error == .serverStatus("https://a.example/ck answers with status \(status)"))
        #expect(transport.requests.map(\.url) == [Self.services[0]])
    }

    @Test func ifEachServiceFailsThereIsOneReason() async {
        let transport = failing([
            Self.services[0]: { 404 }, Self.services[1]: { 503 }, Self.services[2]: { 404 },
        ])
        let session = KeySession(loaders: [ClearKeyLoader(transport: transport)])
        let watcher = Watcher(session)
        var demand = KeyDemand(
            keyIDs: [keyID(1), keyID(2)], keySystem: .clearKey, suggestedURL: Self.services[0])
        demand.otherURLs = Array(Self.services.dropFirst())
        session.demand(demand)
        guard case .failed(_, let failed, let error)? = await watcher.next(where: \.isFailed) else { return }
        #expect(Set(failed) == [keyID(1), keyID(2)])
        #expect(error == .serverStatus("https://c.example/ck answers with status 404"))
        #expect(watcher.events.count(where: \.isFailed) == 1)
        // Those with 404 may refuse one of the keys alone.
        let alone = [Self.services[0], Self.services[2]]
        #expect(transport.requests.map(\.url) == Self.services + alone + alone)
        #expect(asked(transport).map(\.count) == [2, 2, 2, 1, 1, 1, 1])
    }

    /// A service that refuses two keys in one request is asked for each alone, also if a later service fails in another way.
    @Test(arguments: [403, 404, 503]) func keysOfAnEarlierServiceAreNotLost(status: Int) async {
        let transport = FakeTransport { [keys = [keyID(1), keyID(2)]] request, _ throws(HTTPError) in
            let asked = (try? ClearKey.keyIDs(inLicenseRequest: request.body)) ?? []
            let isFirst = request.url == Self.services[0]
            if asked.count > 1 { return HTTPResponse(status: isFirst ? 404 : status, url: request.url) }
            // The first has one of them, and the second fails.
            if isFirst, asked == [keys[1]] { return Self.license(request) }
            return HTTPResponse(status: isFirst ? 404 : 500, url: request.url)
        }
        let session = KeySession(loaders: [ClearKeyLoader(transport: transport)])
        let watcher = Watcher(session)
        var demand = KeyDemand(
            keyIDs: [keyID(1), keyID(2)], keySystem: .clearKey, suggestedURL: Self.services[0])
        // The same again is no other service.
        demand.otherURLs = [Self.services[0], Self.services[1], Self.services[1]]
        session.demand(demand)
        guard case .failed(_, let failed, _)? = await watcher.next(where: \.isFailed) else { return }
        #expect(failed == [keyID(1)])
        #expect(session.status(of: keyID(2)).key != nil)
        let (first, second) = (Self.services[0], Self.services[1])
        let alone = status == 503 ? [first, first] : [first, second, first]
        #expect(transport.requests.map(\.url) == [first, second] + alone)
    }

    /// Whatever forbids the first one, the next ones are asked, in order.
    @Test(arguments: ["http://other.example/ck", "https://127.0.0.1/ck", "skd://x", ""])
    func aServiceThatMayNotBeAskedIsPassedOver(first: String) async {
        let transport = failing([
            "https://127.0.0.1/ck": { () throws(HTTPError) in throw .localAddress("https://127.0.0.1/ck") },
            Self.services[0]: { 503 },
        ])
        let loader = ClearKeyLoader(transport: transport)
        let media = "http://media.example/a.mpd"
        #expect(await outcome(loader, suggestedURL: first, otherURLs: Self.services, mediaURL: media) == nil)
        let asked = transport.requests.map(\.url).filter { $0 != first }
        #expect(asked == Array(Self.services.prefix(2)))
    }

    /// If none may be asked, the error is that of the first.
    @Test func theFirstServiceThatMayNotBeAskedIsNamed() async {
        let transport = failing([:])
        let loader = ClearKeyLoader(transport: transport)
        let (first, others) = ("http://first.example/ck", ["http://other.example/ck", "skd://x"])
        let error = await outcome(
            loader, suggestedURL: first, otherURLs: others, mediaURL: "http://media.example/a.mpd")
        #expect(error?.isSameKind(as: .denied("")) == true)
        #expect(error?.description.contains(first) == true)
        #expect(transport.requests.isEmpty)
    }

    /// In seconds: the key time-out, that of an exchange, and how long each of four silent services is waited for.
    @Test(arguments: [(30, 10, [6.75, 6.75, 6.75, 6.75]), (30, 2, [2, 2, 2, 2]), (4, 10, [0.9, 0.9, 0.9, 0.9])])
    func silentServicesAreWaitedForNoLongerThanStreamsWait(keyTimeout: Int, timeout: Int, expected: [Double]) async {
        let clock = ManualClock()
        let transport = FakeTransport { request, _ throws(HTTPError) in
            clock.advance(by: request.timeout)
            throw .timedOut(request.url)
        }
        let loader = ClearKeyLoader(
            url: nil, headers: [], timeout: .seconds(timeout), mediaLicenseURLs: .https, transport: transport,
            keyTimeout: .seconds(keyTimeout), now: { clock.start + clock.elapsed })
        let others = Self.services.dropFirst() + ["https://d.example/ck"]
        let error = await outcome(loader, suggestedURL: Self.services[0], otherURLs: Array(others))
        #expect(error?.isSameKind(as: .timedOut("")) == true)
        #expect(error?.description.contains("d.example") == true)
        #expect(transport.requests.map(\.url) == Self.services + ["https://d.example/ck"])
        #expect(transport.requests.map { $0.timeout / .seconds(1) } == expected)
        #expect(clock.elapsed < .seconds(keyTimeout))
    }

    /// With a quick one in front, the next ones have its time; one alone has the whole time of an exchange.
    @Test func aServiceHasWhatOthersHaveLeft() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in HTTPResponse(status: 503, url: request.url) }
        func loader() -> ClearKeyLoader {
            ClearKeyLoader(
                url: nil, headers: [], timeout: .seconds(10), mediaLicenseURLs: .https, transport: transport,
                keyTimeout: .seconds(10), now: { [now = ContinuousClock.now] in now })
        }
        _ = await outcome(loader(), suggestedURL: Self.services[0], otherURLs: [Self.services[1], Self.services[2]])
        _ = await outcome(loader(), suggestedURL: Self.services[0])
        #expect(transport.requests.map { $0.timeout / .seconds(1) } == [3, 4.5, 9, 10])
    }

    /// The next ones are no way around `media-license-urls`, and get no headers of the settings.
    @Test func theNextServicesAreAskedOnlyIfTheyMay() async {
        let media = "http://media.example/a.mpd"
        let all = ["http://b.example/ck", "file:///etc/passwd", "skd://x", "", "http://media.example/ck"]
        let transport = failing([Self.services[0]: { 404 }])
        let header = HTTPHeader(name: "Authorization", value: "Bearer secret")
        let loader = ClearKeyLoader(headers: [header], transport: transport)
        #expect(await outcome(loader, suggestedURL: Self.services[0], otherURLs: all, mediaURL: media) == nil)
        #expect(transport.requests.map(\.url) == [Self.services[0], "http://media.example/ck"])
        #expect(transport.requests.map(\.forbidsLocalAddresses) == [true, false])
        #expect(transport.requests.map(\.staysWithinOrigin) == [false, true])
        #expect(transport.requests.allSatisfy { $0.headers.map(\.name) == ["Content-Type"] })
        // The service of the settings stands for all that media names.
        let own = failing([Self.url: { 404 }])
        let settings = ClearKeyLoader(url: Self.url, transport: own)
        #expect(await outcome(settings, suggestedURL: Self.services[0], otherURLs: [Self.services[1]]) != nil)
        #expect(own.requests.map(\.url) == [Self.url])
    }

    @Test(arguments: [
        "", "null", "{", "[]", "<html>secret</html>", #"{"keys":1}"#,
        #"{"keys":[{"kty":"oct","kid":"secret","k":"secret"}]}"#,
    ])
    func aBodyThatIsNoLicenseIsNamed(body: String) async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(status: 200, body: Array(body.utf8), url: request.url)
        }
        let error = await outcome(ClearKeyLoader(url: Self.url, transport: transport))
        #expect(error?.isSameKind(as: .malformedResponse("")) == true)
        let text = error?.description ?? ""
        #expect(text.hasPrefix("malformed response: https://license.example/ck: "))
        #expect(text.components(of: "malformed response") == 1)
        #expect(!text.contains("secret"))
    }

    @Test func aLicenseWithoutTheKIDNamesTheKID() async {
        let transport = FakeTransport { request, _ throws(HTTPError) in
            HTTPResponse(status: 200, body: ClearKey.license(for: [keyID(2): contentKey(2)]), url: request.url)
        }
        let session = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey))
        _ = await watcher.next(where: \.isFailed)
        #expect(session.status(of: keyID(1)).error?.isSameKind(as: .keyNotInResponse("")) == true)
        #expect(session.status(of: keyID(2)).key != nil)
    }

    @Test func aSessionThatGoesCancelsTheExchange() async {
        let (begun, ended) = (Signal<Bool>(), Signal<Bool>())
        let transport = FakeTransport.silent(begun: begun, ended: ended)
        var session: KeySession? = KeySession(loaders: [ClearKeyLoader(url: Self.url, transport: transport)])
        session?.demand(KeyDemand(keyIDs: [keyID(1)], keySystem: .clearKey))
        _ = await begun.wait()
        #expect(session != nil)
        session = nil
        #expect(await ended.wait() == true)
        #expect(transport.requests.count == 1)
    }
}

extension String {
    fileprivate func components(of text: String) -> Int {
        indices.count { self[$0...].hasPrefix(text) }
    }
}
