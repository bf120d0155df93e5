// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// What the requests of a PlayReady-style client contain, to whom they go, and who may send them.
@Suite("PlayReady requests", .timeLimit(.minutes(8)))
struct PlayReadyRequestTests {
    // MARK: What goes out

    @Test func credentialsGoToTheConfiguredServiceOnly() async throws {
        let secret = HTTPHeader(name: "Authorization", value: "secret")
        let world = try PlayReadyWorld {
            $0.licenseURL = "https://configured.example/"
            $0.headers = [secret]
        }
        world.service.answer(
            PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "https://other.example/rights"))
        #expect(try await world.outcome() == nil)
        let requests = world.service.requests(.acquireLicense)
        #expect(requests.map(\.url) == ["https://configured.example/", "https://other.example/rights"])
        #expect(requests.map { $0.headers.contains { $0.name == "Authorization" } } == [true, false])
    }

    @Test func customDataIsInTheSignedChallenge() async throws {
        let world = try PlayReadyWorld { $0.licenseURL = PlayReadyService.url }
        await world.client.setCustomData("<user>Jürgen & co</user>")
        #expect(try await world.outcome() == nil)
        #expect(world.service.customData == ["<user>Jürgen & co</user>"])
    }

    /// The media names the service.
    @Test(
        arguments: [
            ([], false), (["https://other.example"], false), (["http://licenses.example"], false),
            (["https://licenses.example:8443"], false), ([""], false),
            (["https://licenses.example"], true), (["https://LICENSES.example:443/path"], true), (["*"], true),
        ] as [([String], Bool)])
    func customDataIsForNamedOrigins(origins: [String], isSent: Bool) async throws {
        #expect(PlayReadyService.url.hasPrefix("https://licenses.example/"))
        let world = try PlayReadyWorld { $0.customDataOrigins = origins }
        await world.client.setCustomData("<user/>")
        #expect(try await world.outcome() == nil)
        #expect(world.service.customData == [isSent ? "<user/>" : nil])
    }

    /// Neither is a delegate a permission, which may send the challenge on as it is.
    @Test func customDataIsNotForTheMediasServiceWithADelegate() async throws {
        let world = try PlayReadyWorld { $0.customData = "<user/>" }
        try await world.client.acquireLicense(for: PlayReadyWorld.data(), delegate: PassingDelegate())
        #expect(world.service.customData == [nil])
    }

    /// A service asks for a domain, and may name where that is.
    @Test(
        arguments: [
            (nil, [], nil, false), (nil, ["https://licenses.example"], nil, true),
            (PlayReadyService.url, [], nil, true),
            (PlayReadyService.url, [], "https://licenses.example/domains", true),
            (PlayReadyService.url, [], "https://elsewhere.example/domains", false),
        ] as [(String?, [String], String?, Bool)])
    func theFriendlyNameIsForNamedOrigins(
        licenseURL: String?, origins: [String], domainURL: String?, isSent: Bool
    ) async throws {
        let world = try PlayReadyWorld {
            ($0.licenseURL, $0.customDataOrigins, $0.friendlyName) = (licenseURL, origins, "living room")
        }
        world.service.answer(
            PlayReadyFault(
                code: PlayReadyFault.domainRequired, accountID: PlayReadyService.accountID, domainServerURL: domainURL))
        _ = try? await world.client.acquireLicense(for: PlayReadyWorld.data())
        let requests = world.service.requests(.joinDomain)
        #expect(requests.map(\.url) == [domainURL ?? PlayReadyService.url])
        #expect(requests.map { String(decoding: $0.body, as: UTF8.self).contains("living room") } == [isSent])
    }

    // MARK: URLs that media names

    /// A header's URL, where the media came from, and whether the service is asked.
    @Test(
        arguments: [
            ("http://licenses.example/rights", nil, false),
            ("http://licenses.example/rights", "file:///movie.mp4", false),
            ("http://licenses.example/rights", "https://licenses.example/a.mpd", false),
            ("http://licenses.example:81/rights", "http://licenses.example/a.mpd", false),
            ("http://licenses.example/rights", "http://licenses.example/a.mpd", true),
            ("http://127.0.0.1:8080/rights", "http://127.0.0.1:8080/a.mpd", true),
            ("https://licenses.example/rights", nil, true),
            ("https://licenses.example/rights", "http://media.example/a.mpd", true),
        ] as [(String, String?, Bool)])
    func aServiceOfTheMediaIsHTTPSOrOfItsOrigin(url: String, mediaURL: String?, isAsked: Bool) async throws {
        let world = try PlayReadyWorld()
        let data = try PlayReadyWorld.data(url: url)
        do throws(PlayReadyAcquisitionError) {
            try await world.client.acquireLicense(for: data, mediaURL: mediaURL)
            #expect(isAsked)
        } catch {
            #expect(!isAsked)
            // It stands for the playback: no element asks again without what the manifest says.
            #expect(error.keyError.isRefusal)
            #expect(error.description.contains("media-license-urls=any"))
        }
        let requests = world.service.requests(.acquireLicense)
        #expect(requests.map(\.url) == (isAsked ? [url] : []))
        let isOwn = isAsked && mediaURL.map { HTTPRequest(url: $0).origin } == HTTPRequest(url: url).origin
        #expect(requests.allSatisfy { $0.staysWithinOrigin && $0.forbidsLocalAddresses != isOwn })
    }

    @Test func theSettingSaysWhichServicesOfTheMediaAreAsked() async throws {
        let url = "http://licenses.example/rights"
        let any = try PlayReadyWorld { $0.mediaLicenseURLs = .any }
        try await any.client.acquireLicense(for: PlayReadyWorld.data(url: url))
        #expect(any.service.requests(.acquireLicense).map(\.forbidsLocalAddresses) == [false])
        let none = try PlayReadyWorld { $0.mediaLicenseURLs = .none }
        await #expect(throws: PlayReadyAcquisitionError.self) {
            try await none.client.acquireLicense(for: PlayReadyWorld.data())
        }
        #expect(none.service.requests(.acquireLicense).isEmpty)
        let configured = try PlayReadyWorld {
            $0.licenseURL = url
            $0.mediaLicenseURLs = .none
        }
        try await configured.client.acquireLicense(for: PlayReadyWorld.data())
        #expect(configured.service.requests(.acquireLicense).map(\.forbidsLocalAddresses) == [false])
    }

    /// No one signs a redirect, nor the URL of a domain service.
    @Test func aServiceNamesOthersOfHTTPSOnly() async throws {
        let url = "http://configured.example/"
        let world = try PlayReadyWorld { $0.licenseURL = url }
        world.service.answer(PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "http://other.example/rights"))
        await #expect(throws: PlayReadyAcquisitionError.self) {
            try await world.client.acquireLicense(for: PlayReadyWorld.data())
        }
        #expect(world.service.requests(.acquireLicense).map(\.url) == [url])
        world.service.answer(PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "https://other.example/rights"))
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        #expect(world.service.requests(.acquireLicense).map(\.forbidsLocalAddresses) == [false, false, true])
    }

    /// A service of media from elsewhere has one address at its first request, and may have another at each that follows, within
    /// its origin too: where it redirects to, and where it hears that its licenses arrived, also from the next process.
    @Test(arguments: [nil, "https://licenses.example/a.mpd"])
    func noLaterRequestReachesALocalAddress(mediaURL: String?) async throws {
        let world = try PlayReadyWorld()
        let isForbidden = mediaURL == nil
        world.service.setPolicy("tid:AAECAw==")
        world.service.setAcknowledgements(false)
        let other = "https://licenses.example/other"
        world.service.answer(PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: other))
        try await world.client.acquireLicense(for: PlayReadyWorld.data(), mediaURL: mediaURL)
        let requests = world.service.requests(.acquireLicense)
        #expect(requests.map(\.url) == [PlayReadyService.url, other])
        #expect(requests.map(\.forbidsLocalAddresses) == [isForbidden, isForbidden])
        while await !world.client.acknowledging.isEmpty { await Task.yield() }
        world.service.setAcknowledgements(true)
        try world.start()
        _ = try await world.client.trustedTime()
        try await world.noAcknowledgementIsDue()
        let told = world.service.requests(.acknowledgeLicense)
        #expect(!told.isEmpty && told.allSatisfy { $0.url == other && $0.forbidsLocalAddresses == isForbidden })
    }

    @Test func customDataAreForTheConfiguredService() async throws {
        let world = try PlayReadyWorld {
            $0.licenseURL = "https://configured.example/"
            $0.customData = "<user/>"
        }
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        world.service.answer(
            PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "https://other.example/rights"))
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        #expect(world.service.customData == ["<user/>", nil])
    }

    /// Those of the presentation, which go along where they are for.
    @Test func theRequestsHaveThePresentationsCookies() async throws {
        let world = try PlayReadyWorld()
        world.service.answer(
            PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "https://other.example/rights"))
        let cookies = CookieStore()
        let data = InitializationData(system: .playReady, bytes: try PlayReadyWorld.data(), origin: "test")
        try await world.client.acquireLicense(
            forKeys: [], data: [data], suggestedURL: nil, mediaURL: nil, cookies: cookies, delegate: nil)
        let requests = world.service.requests(.acquireLicense)
        #expect(requests.count == 2)
        #expect(requests.allSatisfy { $0.cookies === cookies })
    }

    @Test func noFaultRedirectsToPlainHTTP() async throws {
        let world = try PlayReadyWorld()
        world.service.answer(
            PlayReadyFault(code: PlayReadyFault.redirect, redirectURL: "http://licenses.example/rights"))
        #expect(try await world.outcome()?.description.contains("from https to http") == true)
        #expect(world.service.requests(.acquireLicense).map(\.url) == [PlayReadyService.url])
    }

    // MARK: Delegates

    @Test func aDelegateSendsThroughAPortal() async throws {
        let world = try PlayReadyWorld()
        let portal = Portal()
        try world.start(delegate: portal)
        world.service.setPolicy("domain:\(PlayReadyService.accountID)")
        #expect(try await world.outcome() == nil)
        #expect(
            portal.calls == [
                "license \(PlayReadyService.url)", "join \(PlayReadyService.url)", "license \(PlayReadyService.url)",
            ])
        let requests = world.service.requests(.acquireLicense) + world.service.requests(.joinDomain)
        #expect(requests.map(\.url) == Array(repeating: "https://portal.example/relay", count: 3))
        #expect(requests.allSatisfy { $0.headers.contains { $0.name == "Cookie" } })
    }

    @Test func withoutTheSecondCallTheClientJoins() async throws {
        let world = try PlayReadyWorld()
        let delegate = LicenseOnlyDelegate()
        world.service.setPolicy("domain:\(PlayReadyService.accountID)")
        try await world.client.acquireLicense(for: PlayReadyWorld.data(), delegate: delegate)
        #expect(world.service.operations == [.acquireLicense, .joinDomain, .acquireLicense])
        #expect(delegate.count == 2)
    }

    @Test func requestsAreSOAPByPOST() async throws {
        let world = try PlayReadyWorld()
        try await world.client.acquireLicense(for: PlayReadyWorld.data())
        let request = try #require(world.service.requests(.acquireLicense).first)
        let fields = Dictionary(request.headers.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
        #expect(request.method == "POST")
        #expect(fields["Content-Type"] == "text/xml; charset=utf-8")
        #expect(fields["SOAPAction"] == "\"http://schemas.microsoft.com/DRM/2007/03/protocols/AcquireLicense\"")
        #expect(String(decoding: request.body, as: UTF8.self).contains("<soap:Envelope "))
    }

    @Test func aDelegateMayRefuse() async throws {
        let world = try PlayReadyWorld()
        try world.start(delegate: Refusal())
        #expect(try await world.outcome()?.description.contains("not signed in") == true)
        #expect(world.service.operations.isEmpty)
    }
}

/// Sends everything to a portal, with a cookie.
private final class Portal: PlayReadyDelegate {
    private let log = Log()
    var calls: [String] { log.lines }

    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await relay(request, "license")
    }

    func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await relay(request, "join")
    }

    private func relay(_ request: PlayReadyServiceRequest, _ name: String) async throws(KeyError) -> [UInt8] {
        log.add("\(name) \(request.url)")
        var request = request
        request.url = "https://portal.example/relay"
        request.headers.append(HTTPHeader(name: "Cookie", value: "user=1"))
        return try await request.send()
    }
}

private final class LicenseOnlyDelegate: PlayReadyDelegate {
    private let log = Log()
    var count: Int { log.lines.count }

    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        log.add("license")
        return try await request.send()
    }
}

private final class Refusal: PlayReadyDelegate {
    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        throw .denied("not signed in")
    }
}

private final class PassingDelegate: PlayReadyDelegate {
    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await request.send()
    }
}
