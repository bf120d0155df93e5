// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("License services", .timeLimit(.minutes(8)))
struct LicenseServiceTests {
    @Test(arguments: LicenseServiceCase.all) func eachServiceGetsItsShapeAndItsAnswerIsRead(
        _ expected: LicenseServiceCase
    ) async throws {
        let uri = KeyURI(expected.keyURI)
        let id = try expected.service.contentIdentifier(of: uri)
        #expect(String(decoding: id, as: UTF8.self) == expected.contentIdentifier)
        let request = try expected.service.request(
            for: uri, contentIdentifier: id, spc: LicenseServiceCase.spc, isPersistent: expected.isPersistent)
        #expect(request.url == expected.url)
        #expect(request.body == expected.body, "\(String(decoding: request.body, as: UTF8.self))")
        #expect(request.maximumResponseSize == LicenseResponse.maximumSize)
        let response = try await expected.transport().send(request)
        #expect(response.status == 200)
        #expect(try expected.service.ckc(in: response.body, for: uri) == LicenseServiceCase.ckc)
    }

    @Test func everyPresetHasACaseAndAName() {
        let tested = Set(LicenseServiceCase.all.map(\.service.preset.name))
        #expect(tested == Set(LicenseServicePreset.all.map(\.name)))
        #expect(Set(LicenseServicePreset.all.map(\.name)).count == LicenseServicePreset.all.count)
        for preset in LicenseServicePreset.all { #expect(LicenseServicePreset.named(preset.name) == preset) }
        #expect(LicenseServicePreset.named("none") == nil)
    }

    @Test(arguments: LicenseServicePreset.all) func whatMayBeNeededIsNamedAndIsNoError(
        preset: LicenseServicePreset
    ) throws {
        let service = LicenseService(preset, url: "https://keys.example/", parameters: ["releasePid": "1"])
        #expect(throws: Never.self) {
            try service.request(for: KeyURI("skd://a?contentId=1&keyId=2"), contentIdentifier: [49], spc: [1])
        }
        #expect((service.advice == nil) == preset.expected.isEmpty)
        for choice in preset.expected {
            // Every one of the alternatives will do.
            for expected in choice {
                #expect(service.advice?.contains(expected.description) == true)
                var other = service
                switch expected {
                case .header(let name): other.headers = [HTTPHeader(name: name.uppercased(), value: "x")]
                case .parameter(let name): other.parameters[name] = "x"
                }
                #expect(other.advice?.contains(expected.description) != true)
            }
        }
    }

    @Test func whatIsMissingIsNamedAndNoSecretIs() {
        let uri = KeyURI("skd://?token=secret")
        func failure(_ service: LicenseService) -> KeyError? {
            #expect(throws: KeyError.self) {
                try service.request(
                    for: uri, contentIdentifier: try service.contentIdentifier(of: uri), spc: [1])
            }
        }
        #expect(
            failure(LicenseService(.comcast, url: "https://a/"))?.description.contains("content identifier") == true)
        #expect(failure(LicenseService(.standard))?.description.contains("names no server") == true)
        #expect(failure(LicenseService(.irdeto, url: "https://a/"))?.isSameKind(as: .malformedRequest("")) == true)
        let withoutSite = LicenseService(.standard, url: "https://a/{site}")
        #expect(failure(withoutSite)?.description.contains("site") == true)
        let withoutURL = LicenseService(.verimatrix)
        #expect(failure(withoutURL)?.isSameKind(as: .invalidConfiguration("")) == true)
        for service in [
            withoutSite, withoutURL, LicenseService(.standard), LicenseService(.irdeto, url: "https://a/"),
        ] {
            #expect(failure(service)?.description.contains("secret") == false)
        }
    }

    @Test func credentialsGoOnlyToTheConfiguredServer() throws {
        let header = [HTTPHeader(name: "Authorization", value: "Bearer secret")]
        let uri = KeyURI("skd://evil.example/rights?cid=1")
        let own = LicenseService(.standard, url: "https://keys.example/", headers: header)
        #expect(
            try own.request(for: uri, contentIdentifier: [1], spc: [1]).headers.map(\.name).contains("Authorization"))
        var preset = LicenseServicePreset.standard
        preset.headers = [.init("x-token", .parameter("token"))]
        let named = LicenseService(preset, headers: header, parameters: ["token": "secret"])
        let request = try named.request(for: uri, contentIdentifier: [1], spc: [1])
        #expect(request.url == "https://evil.example/rights?cid=1")
        #expect(request.headers.map(\.name) == ["Content-Type"])
    }

    /// They may be credentials as well as header fields are, in the URL and in the body.
    @Test func parametersGoOnlyToTheConfiguredServer() throws {
        let uri = KeyURI("skd://evil.example/rights?cid=1")
        let parameters = ["token": "secret"]
        var preset = LicenseServicePreset.standard
        preset.url.query = [.init("token", .parameter("token"), isOptional: true)]
        preset.body = .json(
            .object([.init("token", .string(.parameter("token")), isOptional: true), .init("spc", .string(.spc))]))
        let own = LicenseService(preset, url: "https://keys.example/a", parameters: parameters)
        let wanted = try own.request(for: uri, contentIdentifier: [1], spc: [1])
        #expect(wanted.url == "https://keys.example/a?token=secret")
        #expect(String(decoding: wanted.body, as: UTF8.self) == "{\"token\":\"secret\",\"spc\":\"AQ==\"}")
        let named = LicenseService(preset, parameters: parameters)
        let request = try named.request(for: uri, contentIdentifier: [1], spc: [1])
        #expect(request.url == "https://evil.example/rights?cid=1")
        #expect(String(decoding: request.body, as: UTF8.self) == "{\"spc\":\"AQ==\"}")
        preset.body = .form([.field("token", .parameter("token"), isEncoded: true)])
        let needing = LicenseService(preset, parameters: parameters)
        let error = #expect(throws: KeyError.self) { try needing.request(for: uri, contentIdentifier: [1], spc: [1]) }
        #expect(error?.isSameKind(as: .denied("")) == true)
    }

    /// The content identifier is in the request, too.
    @Test func aContentIdentifierHasNoParameterForAServerThatMediaNames() throws {
        let uri = KeyURI("skd://evil.example/FairPlay")
        let rule = ContentIdentifierRule.replacing("FairPlay", parameter: "token")
        func service(_ rule: ContentIdentifierRule, url: String? = nil) -> LicenseService {
            LicenseService(.standard, url: url, parameters: ["token": "secret"], contentIdentifier: rule)
        }
        let needing: [ContentIdentifierRule] = [rule, .base64Decoded(rule), .firstOf([.queryParameter("cid"), rule])]
        for one in needing {
            let error = #expect(throws: KeyError.self) { try service(one).contentIdentifier(of: uri) }
            #expect(error?.isSameKind(as: .denied("")) == true)
            #expect(error?.description.contains("token") == true && error?.description.contains("secret") == false)
        }
        #expect(try service(.firstOf([rule, .lastPathComponent])).contentIdentifier(of: uri) == Array("FairPlay".utf8))
        let own = service(rule, url: "https://keys.example/")
        #expect(try own.contentIdentifier(of: uri) == Array("skd://evil.example/secret".utf8))
    }

    @Test func aConfiguredFieldReplacesThePresets() throws {
        let service = LicenseService(
            .verimatrix, url: "https://a/", headers: [HTTPHeader(name: "content-type", value: "text/plain")])
        let request = try service.request(for: KeyURI("skd://a"), contentIdentifier: [1], spc: [1])
        #expect(request.headers == [HTTPHeader(name: "content-type", value: "text/plain")])
    }

    @Test func theCertificateHasAPlace() throws {
        let service = LicenseService(
            .pallyCon, url: "https://license.example/ri/licenseManager.do?x=y", parameters: ["siteId": "A&B"])
        #expect(try service.certificateURL() == "https://license.example/ri/fpsKeyManager.do?siteId=A%26B")
        #expect(try LicenseService(.axinom, url: "https://a/").certificateURL() == nil)
    }

    @Test func theKeyURIsSchemeCanBeHTTPOnATestBench() throws {
        let service = LicenseService(.expressPlay, keyURIScheme: "http")
        let request = try service.request(
            for: KeyURI("SKD://127.0.0.1:80/t?a=b c"), contentIdentifier: [1], spc: [1],
            mediaURL: "http://127.0.0.1/a.m3u8")
        #expect(request.url == "http://127.0.0.1:80/t?a=b%20c")
        #expect(request.staysWithinOrigin && !request.forbidsLocalAddresses)
    }

    /// A key server that a playlist names has to be https, or of the playlist's origin; a configured one does not.
    @Test func theKeyURIsServerIsHTTPSOrOfThePlaylistsOrigin() throws {
        func request(
            _ uri: String, from mediaURL: String?, _ change: (inout LicenseService) -> Void = { _ in }
        ) throws(KeyError) -> HTTPRequest {
            var service = LicenseService(.expressPlay, keyURIScheme: uri.hasPrefix("skds") ? "https" : "http")
            change(&service)
            return try service.request(for: KeyURI(uri), contentIdentifier: [1], spc: [1], mediaURL: mediaURL)
        }
        for mediaURL in [nil, "file:///a.m3u8", "http://other.example/a.m3u8", "https://keys.example/a.m3u8"] {
            let error = #expect(throws: KeyError.self) { try request("skd://keys.example/t?cid=1", from: mediaURL) }
            #expect(error?.description.contains("media-license-urls=any") == true)
            #expect(try request("skds://keys.example/t?cid=1", from: mediaURL).url == "https://keys.example/t?cid=1")
        }
        #expect(try request("skds://keys.example/t?cid=1", from: nil).forbidsLocalAddresses)
        #expect(
            try !request("skd://keys.example/t?cid=1", from: nil) { $0.mediaLicenseURLs = .any }.forbidsLocalAddresses)
        #expect(throws: KeyError.self) {
            try request("skds://keys.example/t?cid=1", from: nil) { $0.mediaLicenseURLs = .none }
        }
        let configured = LicenseService(url: "http://10.0.0.1/")
        let own = try configured.request(for: KeyURI("skd://a"), contentIdentifier: [1], spc: [1])
        #expect(own.url == "http://10.0.0.1/" && !own.forbidsLocalAddresses)
    }

    @Test func texts() {
        let service = LicenseService(
            .vuDRM, url: "https://me:secret@host/a?token=secret", headers: [HTTPHeader(name: "X", value: "secret")],
            parameters: ["token": "secret"])
        var dumped = ""
        dump(service, to: &dumped)
        for text in [service.description, "\(service)", String(reflecting: service), dumped] {
            #expect(!text.contains("secret"))
            #expect(text.contains("https://host/a"))
        }
    }
}
